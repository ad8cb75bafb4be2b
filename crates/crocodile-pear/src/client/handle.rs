//! A client: what its pipelines share.

use std::fmt;
use std::sync::Arc;

use http::Extensions;

use super::servers::SharedUpstreams;
use crate::error::CallId;
use crate::upstream::CallContext;

/// Calls HTTP servers.
///
/// - A typed call: [`get`](Self::get) or [`call`](Self::call), then [`as_json`](crate::Call::as_json) and `.await`.
/// - Several at once: [`join`](Self::join). Many, with a bound: [`items`](Self::items).
/// - A pipeline of steps, as a configuration has it: [`request`](Self::request), [`read`](Self::read).
///
/// Keep one for as long as the program runs, and clone it where it is needed: a clone is cheap, and all of them share their
/// connections. [`builder`](Self::builder) makes one with settings. It runs on whatever Tokio runtime awaits its calls.
///
/// ```
/// use crocodile_pear::{Client, Error};
///
/// #[derive(serde::Deserialize)]
/// struct User { name: String }
///
/// async fn name(client: &Client, id: u64) -> Result<String, Error> {
///     let user: User = client.get(format!("http://127.0.0.1:9000/users/{id}")).as_json().await?;
///     Ok(user.name)
/// }
/// ```
#[derive(Clone, Default)]
pub struct Client {
    pub(super) servers: Arc<SharedUpstreams>,
    pub(super) extensions: Extensions,
}

impl Client {
    pub(super) fn of(servers: SharedUpstreams) -> Self {
        Client { servers: Arc::new(servers), extensions: Extensions::new() }
    }

    /// The same client with something that belongs to one request: its id, its header fields. `before` finds it in the
    /// extensions of each request, a [step](crate::Step) in those of its [`Cx`](crate::Cx). The fields that
    /// [`propagate`](crate::ClientBuilder::propagate) names are taken from an [`http::HeaderMap`] that was given here.
    ///
    /// ```
    /// use crocodile_pear::Client;
    ///
    /// #[derive(Clone)]
    /// struct RequestId(u64);
    ///
    /// let client = Client::new();
    /// let for_one_request = client.with(RequestId(7));
    /// # drop(for_one_request);
    /// ```
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(&self, value: T) -> Self {
        let mut client = self.clone();
        client.extensions.insert(value);
        client
    }

    /// The context by which one of its calls is known.
    pub(super) fn context(&self, id: &CallId) -> Option<Arc<CallContext>> {
        Some(Arc::new(CallContext { id: id.clone(), extensions: self.extensions.clone() }))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.servers.named();
        f.debug_struct("Client").field("upstreams", &named.upstreams.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
