//! The settings of an upstream, from code: the same names and meanings as in YAML.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::config::problem::Problems;
use crate::config::spec::{Decode, Located, Node};
use crate::upstream::UpstreamSpec;

/// The settings of an upstream: the servers of one API, and how they are called. They are the settings under `upstreams` in a
/// configuration, and hold for all calls to these servers, from Rust and from YAML.
///
/// Without a setting, a connection must be there after 3 s, the head of an answer after 30 s, a whole call after 5 min, and a
/// body may pause for 30 s; there are no retries with one server, no breaker, no cache and no limit of calls.
///
/// ```
/// use std::time::Duration;
/// use crocodile_pear::{Client, Upstream};
///
/// let shop = Upstream::at("http://127.0.0.1:9000/shop")
///     .timeout(Duration::from_secs(2))
///     .in_flight(20)
///     .retry(2);
/// let client = Client::builder().upstream("shop", shop).build()?;
/// # drop(client);
/// # Ok::<(), crocodile_pear::Error>(())
/// ```
///
/// Each setting of the configuration has a method, or goes by its name:
///
/// ```no_run
/// use std::time::Duration;
/// use crocodile_pear::{Client, Upstream};
/// use serde_json::json;
///
/// let shop = Upstream::servers(["https://127.0.0.1:9001/shop", "https://127.0.0.1:9002/shop"])
///     .connect_timeout(Duration::from_secs(1))
///     .first_byte_timeout(Duration::from_secs(2))
///     .idle_timeout(Duration::from_secs(10))
///     .keep(Duration::from_secs(60))
///     .breaker(5)
///     .cache_for(Duration::from_secs(30))
///     .tls_ca(std::fs::read("ca.pem")?)
///     .tls_certificate(std::fs::read("client.pem")?, std::fs::read("client.key")?)
///     .http2()
///     .set("balance", json!({"by": "round_robin"}));
/// let app = Upstream::at("http://localhost/").unix_socket("/run/app.sock").http1().cache();
/// let client = Client::builder().upstream("shop", shop).upstream("app", app).build()?;
/// # drop(client);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Upstream {
    fields: Map<String, Value>,
    files: Vec<Arc<[u8]>>,
}

/// How a file is named that the program brings.
const BROUGHT: &str = "from the program: ";

impl Upstream {
    /// An upstream with one server: scheme, host, port, and a path that goes before the path of each call from YAML.
    pub fn at(url: &str) -> Self {
        Self::default().set("url", json!(url))
    }

    /// An upstream with several servers of the same API. A failed call is tried again on another server.
    pub fn servers<'a>(urls: impl IntoIterator<Item = &'a str>) -> Self {
        Self::default().set("servers", json!(urls.into_iter().collect::<Vec<_>>()))
    }

    /// Any setting, by its name in the configuration: `set("balance", json!({"by": "least_loaded"}))`. What is wrong in it is
    /// reported by [`build`](crate::ClientBuilder::build).
    pub fn set(mut self, name: &str, value: Value) -> Self {
        self.fields.insert(name.to_owned(), value);
        self
    }

    fn within(mut self, group: &str, name: &str, value: Value) -> Self {
        let fields = self.fields.entry(group.to_owned()).or_insert_with(|| json!({}));
        if !fields.is_object() {
            *fields = json!({});
        }
        fields[name] = value;
        self
    }

    /// How long a whole call may take. Default: 5 min.
    pub fn timeout(self, whole: Duration) -> Self {
        self.within("timeout", "call", text(whole))
    }

    /// How long it may take until there is a connection. Default: 3 s.
    pub fn connect_timeout(self, limit: Duration) -> Self {
        self.within("timeout", "connect", text(limit))
    }

    /// How long it may take from the request to the head of the answer. Default: 30 s.
    pub fn first_byte_timeout(self, limit: Duration) -> Self {
        self.within("timeout", "first_byte", text(limit))
    }

    /// How long a body may pause. Default: 30 s; server-sent events may pause as long as they like.
    pub fn idle_timeout(self, limit: Duration) -> Self {
        self.within("timeout", "idle", text(limit))
    }

    /// At most this many calls are in flight. Further ones wait for the connect timeout, then they fail as `Busy`.
    pub fn in_flight(self, most: usize) -> Self {
        self.set("in_flight", json!(most))
    }

    /// A call that failed is tried again, up to this many attempts with the first one: if its method is idempotent or nothing
    /// of it was sent, and for at most 20 % of all calls.
    pub fn retry(self, attempts: u32) -> Self {
        self.within("retry", "attempts", json!(attempts))
    }

    /// After this many failures in a row, calls fail at once as `Busy` for 5 s; then one call at a time tests the server.
    pub fn breaker(self, failures: u32) -> Self {
        self.within("breaker", "failures", json!(failures))
    }

    /// Keeps answers that may be kept (RFC 9111), within the [cache](crate::ClientBuilder::cache) of the client. Needs the
    /// feature `cache`; without it, [`build`](crate::ClientBuilder::build) refuses the upstream.
    pub fn cache(self) -> Self {
        self.set("cache", json!(true))
    }

    /// The same; answers that do not say how long they are fresh are kept for this time.
    pub fn cache_for(self, time: Duration) -> Self {
        self.set("cache", text(time))
    }

    /// The Unix socket of the server. The URL only gives the host of calls and their path.
    pub fn unix_socket(self, path: impl AsRef<Path>) -> Self {
        self.set("socket", json!(path.as_ref().to_string_lossy()))
    }

    /// How long an idle connection is kept. Default: 30 s.
    pub fn keep(self, time: Duration) -> Self {
        self.set("keep", text(time))
    }

    /// Speaks HTTP/1.1 alone.
    pub fn http1(self) -> Self {
        self.set("protocol", json!("http1"))
    }

    /// Speaks HTTP/2 alone, without TLS too.
    pub fn http2(self) -> Self {
        self.set("protocol", json!("http2"))
    }

    /// Trusts these authorities (PEM) instead of the usual ones.
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        let file = self.bring(pem.into());
        self.within("tls", "ca", file)
    }

    /// Shows this client certificate and its chain (PEM), with its private key (PEM).
    pub fn tls_certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        let (chain, key) = (self.bring(chain.into()), self.bring(key.into()));
        self.within("tls", "certificate", chain).within("tls", "key", key)
    }

    fn bring(&mut self, bytes: Vec<u8>) -> Value {
        self.files.push(bytes.into());
        json!(format!("{BROUGHT}{}", self.files.len() - 1))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(super) fn with_url(&self, url: &str) -> Self {
        self.clone().set("url", json!(url))
    }

    /// The bytes of a file: one of the program's, or one on the disk.
    pub(super) fn file(&self, written: &Located<String>) -> Result<Vec<u8>, String> {
        let brought = written.as_str().strip_prefix(BROUGHT).and_then(|at| self.files.get(at.parse::<usize>().ok()?));
        match brought {
            Some(bytes) => Ok(bytes.to_vec()),
            None => std::fs::read(written.as_str()).map_err(|fault| fault.to_string()),
        }
    }

    pub(super) fn read(&self, problems: &mut Problems) -> Option<UpstreamSpec> {
        UpstreamSpec::decode(&Node::from_json(&Value::Object(self.fields.clone())), problems)
    }
}

/// The time as a configuration has it.
fn text(time: Duration) -> Value {
    // Less than a microsecond is no time to wait for anything.
    json!(format!("{}us", time.as_micros().max(1)))
}
