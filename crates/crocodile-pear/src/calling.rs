//! What the steps share that call upstreams: a call, as it is written and ready to be made, alone or for several values
//! together.

mod batch;
mod call;
mod collect;
mod compile;
mod fields;
mod rewrite;
mod source;
mod written;

pub(crate) use self::batch::Asking;
pub(crate) use self::call::{Calling, Given};
pub(crate) use self::collect::{Collector, Coming, seated};
pub(crate) use self::source::AnswerSource;
pub(crate) use self::written::is_written;
pub use self::written::{Batch, Request};
