//! Where the answer of a named call comes from.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::flow::{Answer, Names, Outcome};
use crate::scope::Scope;

/// An upstream or a database that is asked once, whatever item there is.
pub(crate) trait AnswerSource: Send + Sync {
    /// Asks. `names` are the results that it uses.
    fn ask_once(self: Arc<Self>, names: Names, scope: Arc<Scope>) -> BoxFuture<'static, Outcome>;

    /// The named results that it uses.
    fn uses(&self) -> &[String];

    /// What stands for its answer, if something does.
    fn otherwise(&self) -> Option<Answer>;

    /// The most bytes of its answer that are read whole.
    fn max_body(&self) -> usize;
}
