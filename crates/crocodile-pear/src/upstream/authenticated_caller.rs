//! A call that no cache answers: with credentials, where the upstream has some, and at once where not.

use std::ops::Deref;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::attempt::retry_loop::ReadyCall;
use super::call::timeouts::Timeouts;
use super::call::{Presents, UpstreamCall};
use super::credentials::ClientCredentials;
use super::servers::server::PublicOrigin;
use super::servers::settings::UpstreamSettings;
use super::servers::srv::FoundServers;
use super::servers::{Servers, SharedState};
use crate::error::Error;
use crate::message::answer::Answer;

/// The servers of an upstream, and what calls prove themselves with.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) shared: Arc<SharedState>,
    source: ServerSource,
    pub(super) credentials: Option<Arc<ClientCredentials>>,
}

/// Where the servers come from.
#[derive(Clone)]
enum ServerSource {
    Fixed(Arc<Servers>),
    Found(Arc<FoundServers>),
}

/// The servers of one moment.
pub(super) enum ServerList<'a> {
    Fixed(&'a Arc<Servers>),
    Found(Arc<Servers>),
}

impl Deref for ServerList<'_> {
    type Target = Arc<Servers>;

    fn deref(&self) -> &Arc<Servers> {
        match self {
            ServerList::Fixed(servers) => servers,
            ServerList::Found(servers) => servers,
        }
    }
}

/// A call that has been started.
pub(super) enum AuthenticatedCall {
    Plain(Result<ReadyCall, Error>),
    /// With a token, which may have to be fetched first, or for a cache.
    Boxed(BoxFuture<'static, Result<Answer, Error>>),
    Kept(Box<Answer>),
}

impl Caller {
    /// # Errors
    /// `Internal`, saying what is wrong with the URL.
    pub(super) fn new(settings: &UpstreamSettings, credentials: Option<Arc<ClientCredentials>>) -> Result<Self, Error> {
        let (shared, source) = match &settings.service {
            None => {
                let servers = Arc::new(Servers::new(settings)?);
                (servers.shared.clone(), ServerSource::Fixed(servers))
            }
            Some(service) => {
                let shared = SharedState::new(settings);
                let found = FoundServers::new(service.clone(), settings.clone(), shared.clone())?;
                (shared, ServerSource::Found(Arc::new(found)))
            }
        };
        Ok(Caller { shared, source, credentials })
    }

    /// The servers; nothing, while those of a service are not known.
    pub(super) fn now(&self) -> Option<ServerList<'_>> {
        match &self.source {
            ServerSource::Fixed(servers) => Some(ServerList::Fixed(servers)),
            ServerSource::Found(found) => found.now().map(ServerList::Found),
        }
    }

    /// The service whose servers are called.
    pub(super) fn service(&self) -> Option<&FoundServers> {
        match &self.source {
            ServerSource::Fixed(_) => None,
            ServerSource::Found(found) => Some(found),
        }
    }

    /// The scheme, the host and the base path of all its servers.
    pub(super) fn face(&self) -> &PublicOrigin {
        match &self.source {
            ServerSource::Fixed(servers) => &servers.list[0].face,
            ServerSource::Found(found) => &found.face,
        }
    }

    pub(super) fn start(&self, call: Box<UpstreamCall>) -> AuthenticatedCall {
        match &self.source {
            ServerSource::Fixed(servers) => self.start_at(servers, call),
            ServerSource::Found(found) => match found.now() {
                Some(servers) => self.start_at(&servers, call),
                None => AuthenticatedCall::Boxed(Box::pin(self.clone().wait(found.clone(), call))),
            },
        }
    }

    fn start_at(&self, servers: &Arc<Servers>, call: Box<UpstreamCall>) -> AuthenticatedCall {
        // Made here and boxed once: the future stays a few words, and the box becomes the body of the answer.
        match self.credentials.as_ref().filter(|_| call.presents == Presents::Credentials) {
            None => AuthenticatedCall::Plain(ReadyCall::new(servers, call)),
            Some(credentials) => AuthenticatedCall::Boxed(Box::pin(credentials.clone().call(servers.clone(), call))),
        }
    }

    /// Makes the call once its servers are known.
    async fn wait(self, found: Arc<FoundServers>, call: Box<UpstreamCall>) -> Result<Answer, Error> {
        let Timeouts { connect, call: whole, .. } = call.timeouts.as_deref().unwrap_or(&self.shared.timeouts);
        let servers = found.wait((*connect).min(*whole)).await.map_err(|error| error.of_upstream(&self.shared.name))?;
        self.start_at(&servers, call).finish().await
    }
}

impl AuthenticatedCall {
    /// Makes it.
    ///
    /// # Errors
    /// The errors of the call.
    pub(super) async fn finish(self) -> Result<Answer, Error> {
        match self {
            AuthenticatedCall::Plain(ready) => ready?.send().await,
            AuthenticatedCall::Boxed(call) => call.await,
            AuthenticatedCall::Kept(answer) => Ok(*answer),
        }
    }
}
