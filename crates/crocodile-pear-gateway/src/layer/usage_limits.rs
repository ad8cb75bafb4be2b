//! Limits of what clients may use: rates and quotas, of requests or of what they cost.

mod allowance;
mod charge;
mod cost;
mod limit;
mod limiter;
mod meter;
mod period;
mod rate;
mod shared;
mod table;

pub use self::allowance::{Allowance, AllowanceKind, Amount, LARGEST, WrittenValue};
pub use self::charge::Charges;
pub use self::limit::{Limit, LimitFields};
pub use self::limiter::{LimitPlace, Limits};
pub use self::meter::meter;
pub use self::period::Period;
pub use self::rate::Rate;
