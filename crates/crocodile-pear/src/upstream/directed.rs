//! A call and where it leads: to the upstream that a choice made, and to the server of its client.

use std::future::Future;
use std::sync::Arc;

use super::call::Call;
use super::ready::Upstream;
use crate::error::Error;
use crate::flow::Answer;
use crate::scope::Scope;

/// A call that knows where it leads.
pub(crate) struct Directed {
    pub(crate) call: Box<Call>,
    /// The upstream that a choice made; `None` for the one that was named.
    to: Option<Arc<Upstream>>,
}

impl Directed {
    /// Directs a call that was made for `chosen`, by the settings of that and of the upstream that was named.
    ///
    /// # Errors
    /// `BadRequest` if an expression fails.
    pub(crate) fn new(
        named: &Arc<Upstream>,
        chosen: &Arc<Upstream>,
        mut call: Box<Call>,
        scope: &Scope,
    ) -> Result<Self, Error> {
        call.affinity = chosen.affinity(scope)?;
        let to = (!Arc::ptr_eq(named, chosen)).then(|| chosen.clone());
        Ok(Directed { call, to })
    }

    /// The upstream that it is made at.
    pub(crate) fn upstream<'a>(&'a self, named: &'a Arc<Upstream>) -> &'a Arc<Upstream> {
        self.to.as_ref().unwrap_or(named)
    }

    /// Makes it.
    ///
    /// # Errors
    /// As [`Upstream::call`].
    pub(crate) fn make(
        self,
        named: &Arc<Upstream>,
    ) -> impl Future<Output = Result<Answer, Error>> + Send + 'static + use<> {
        self.to.as_ref().unwrap_or(named).make(self.call)
    }
}
