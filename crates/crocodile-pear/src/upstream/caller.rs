//! A call that no cache answers: with credentials, where the upstream has some, and at once where not.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::call::Call;
use super::credentials::ClientCredentials;
use super::dispatch::{Ready, chain, prepare};
use super::servers::Servers;
use crate::error::Error;
use crate::flow::Answer;

/// The servers of an upstream, and what calls prove themselves with.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) servers: Arc<Servers>,
    pub(super) credentials: Option<Arc<ClientCredentials>>,
}

/// A call that is about to be made.
pub(super) enum Begun {
    Plain(Result<Ready, Error>),
    /// With a token, which may have to be fetched first, or for a cache.
    Boxed(BoxFuture<'static, Result<Answer, Error>>),
    /// Its answer is kept.
    Kept(Box<Answer>),
}

impl Caller {
    /// Begins the call.
    pub(super) fn begin(&self, call: Box<Call>) -> Begun {
        // Made here and boxed once: the future stays a few words, and the box becomes the body of the answer.
        match &self.credentials {
            None => Begun::Plain(prepare(&self.servers, call)),
            Some(credentials) => Begun::Boxed(Box::pin(credentials.clone().call(self.servers.clone(), call))),
        }
    }
}

impl Begun {
    /// Makes it.
    ///
    /// # Errors
    /// Those of the call.
    pub(super) async fn finish(self) -> Result<Answer, Error> {
        match self {
            Begun::Plain(ready) => chain(ready?).await,
            Begun::Boxed(call) => call.await,
            Begun::Kept(answer) => Ok(*answer),
        }
    }
}
