//! The parts that steps with calls to upstreams and databases share: a call and a statement, as they are written and ready to be
//! made; a call alone or for several values together.

mod batch;
mod call_options;
mod collect;
mod compile;
mod detach;
mod fan;
mod fields;
mod relabel;
mod source;
mod spec;
mod sql;
mod statement;
pub(crate) mod upstream_call;

pub(crate) use self::batch::Asking;
pub(crate) use self::collect::{Collector, Coming, seated};
pub(crate) use self::compile::{fixed_method, headers};
pub(crate) use self::detach::Detach;
pub(crate) use self::fan::FanOut;
pub(crate) use self::source::AnswerSource;
pub use self::spec::{Batch, Request};
pub(crate) use self::spec::{is_body, is_written};
pub use self::sql::{Sql, StatementSpec};
pub(crate) use self::statement::ReadyStatement;
pub(crate) use self::upstream_call::{Calling, StepInput};
