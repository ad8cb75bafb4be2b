//! The whole configuration as written: the sum of the specs.

mod endpoint;
mod group;
mod versions;

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use crocodile_pear::database::DatabaseSpec;
use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Decode, Definitions, Entries, Json, Node, Size, misplaced, suggest};
use crocodile_pear::upstream::{ResolverSpec, UpstreamSpec};

use crate::events::EventSourceSpec;
use crate::layers::{AtDocument, Layers};
use crate::listen::ListenSpec;
use crate::network::Network;
use crate::operators::AdminSpec;
use crate::pool::ThreadPool;
use crate::rate::MinRateSpec;
use crate::store::StoreSpec;
use crate::traces::TracesSpec;
pub use endpoint::EndpointSpec;
pub use group::GroupSpec;
pub use versions::{AdaptSpec, Api, Placed, plain};

spec! {
    /// A gateway: where it listens, which APIs it calls, and what it answers.
    pub struct Document {
        /// Where clients connect: an address `HOST:PORT` or `unix:/PATH`, a map with settings, or a list of these. Port 0 takes a free
        /// port.
        pub listen: ListenSpec = ListenSpec::default(),
        /// Where operators connect: health, metrics, purges of the cache. Off by default.
        pub admin: Option<AdminSpec>,
        /// How many threads serve. Each has its own listener and connections. By default as many as the machine has
        /// cores.
        pub threads: Option<NonZeroUsize>,
        /// The helper threads that do long work.
        pub thread_pool: Option<ThreadPool>,
        /// Where several gateways keep what they share.
        pub store: Option<StoreSpec>,
        /// Sources of messages that say what has changed, so that caches do not give it out any more.
        pub events: Option<Vec<EventSourceSpec>>,
        /// The APIs that may be called, by name.
        pub upstreams: Option<Entries<UpstreamSpec>>,
        /// The PostgreSQL databases that `sql` asks, by name.
        pub databases: Option<Entries<DatabaseSpec>>,
        /// The DNS server for the names of upstreams, `HOST:PORT`, or a list of them; by default those of the system. A
        /// name is looked up again before its TTL ends. If no DNS server answers, the last known addresses stay in use.
        /// Connections to an address that the name no longer has are not used again.
        pub resolver: Option<ResolverSpec>,
        /// What is answered, by method and path: `GET /inbox/{category}`. A path alone serves all methods that no other
        /// endpoint of the same path serves. `{word}` is one segment. `{*word}` at the end is the rest of the path,
        /// which may be empty: `/api/{*path}` serves `/api` too. If several paths match, text wins over `{word}`, and
        /// `{word}` over `{*word}`, segment by segment. Text is compared after decoding (`/%61` is `/a`); an encoded
        /// slash does not separate segments.
        pub endpoints: Entries<EndpointSpec> = Entries::new(),
        /// Endpoints that have hosts or layers in common, by names of your own.
        pub groups: Option<Entries<GroupSpec>>,
        /// Limits for clients and their connections.
        pub clients: Option<Clients>,
        /// Where traces of requests are sent: the URL of a collector, or a map. None are made by default.
        pub traces: Option<TracesSpec>,
        /// Other files to add, relative to this one: their upstreams, endpoints and groups, and settings that this file
        /// does not have.
        pub include: Option<Included>,
    }
    group(layers: Layers<AtDocument>)
}

impl Document {
    /// What can be read of a document with faults, so that one `check` finds the others too; and the names of the
    /// upstreams and databases that cannot be read. The faults in what cannot be read have been told before.
    pub fn partial(node: &Node) -> (Self, Unread) {
        let (databases, broken_databases) = readable(node, "databases");
        let (upstreams, broken) = readable(node, "upstreams");
        let (endpoints, _) = readable(node, "endpoints");
        let (groups, _) = readable(node, "groups");
        let listen = field(node, "listen").and_then(read).unwrap_or_default();
        let upstreams = Some(upstreams);
        let document = Document {
            listen,
            admin: field(node, "admin").and_then(read),
            threads: None,
            thread_pool: None,
            store: field(node, "store").and_then(read),
            events: field(node, "events").and_then(read),
            upstreams,
            databases: Some(databases),
            resolver: None,
            endpoints,
            groups: Some(groups),
            clients: None,
            traces: field(node, "traces").and_then(read),
            include: None,
            layers: Layers::partial(node),
        };
        (document, Unread { upstreams: broken, databases: broken_databases })
    }
}

/// The names of what is written and cannot be read.
#[derive(Debug, Default)]
pub struct Unread {
    /// Upstreams.
    pub upstreams: Vec<String>,
    /// Databases.
    pub databases: Vec<String>,
}

/// What a document must have to be of use.
const SERVED: [&str; 2] = ["endpoints", "groups"];

/// Notes that a document has nothing to serve.
pub fn check_served(node: &Node, problems: &mut Problems) {
    let Some(entries) = node.as_map() else { return };
    // One that is misspelt has been told.
    let meant = |key: &str| SERVED.contains(&key) || suggest(key, SERVED).is_some() || key.starts_with("endpoints:");
    if entries.iter().any(|(key, _)| meant(key.as_str())) {
        return;
    }
    let at = entries.first().map_or(node.span, |(key, _)| key.span);
    let remedy = "add `endpoints`: What is answered, by method and path: `GET /inbox/{category}`.";
    problems.error::<()>(at, "missing field `endpoints`", remedy);
}

fn field<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    node.as_map()?.iter().find(|(key, _)| key.value == name).map(|(_, node)| node)
}

fn read<T: Decode>(node: &Node) -> Option<T> {
    T::decode(node, &mut Problems::default())
}

/// The entries that can be read, and the names of those that cannot.
fn readable<T: Decode>(node: &Node, name: &str) -> (Entries<T>, Vec<String>) {
    let (mut entries, mut broken) = (Entries::new(), Vec::new());
    let mut rest = field(node, name).and_then(Node::as_map).unwrap_or_default().iter();
    while let Some((key, node)) = rest.next() {
        let inner = misplaced::<T>(node, rest.as_slice()).len();
        rest.by_ref().take(inner).for_each(drop);
        match read(node) {
            Some(entry) => drop(entries.insert(key.value.clone(), (key.span, entry))),
            None => broken.push(key.value.clone()),
        }
    }
    (entries, broken)
}

/// The files to add, by name. They were added when the configuration was read: nothing of it is left here.
#[derive(Clone, Debug)]
pub struct Included;

impl Decode for Included {
    fn decode(_: &Node, _: &mut Problems) -> Option<Self> {
        Some(Included)
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
    }
}

spec! {
    /// Limits for clients and their connections.
    pub struct Clients {
        /// How long the head of a request may take, from its first byte, or from the start of the connection.
        pub head: Duration = Duration::from_secs(10),
        /// How long a connection may wait for its next request.
        pub keep: Duration = Duration::from_secs(75),
        /// How long a client may pause while its body is being read.
        pub body: Duration = Duration::from_secs(30),
        /// How long a client may pause in reading its answer.
        pub write: Duration = Duration::from_secs(30),
        /// The least rate at which a client sends its body and takes its answer while it is waited for, in bytes a second, after
        /// 10 s to begin with: `500B`, or `{ bytes: 500B, after: 10s }`; `off` for none. Faster bytes earn time to rest, up to
        /// `body` and `write`. A slower body is answered with 408, a slower answer is broken off. It does not hold for
        /// server-sent events, for what an endpoint with `stream: on` takes and serves, and behind `upgrade`.
        pub min_rate: MinRateSpec = MinRateSpec::default(),
        /// The most bytes of a request's head; a longer one is refused with 431.
        pub max_head: Size = Size(16 << 10),
        /// The most bytes of a request's target; a longer one is refused with 414.
        pub max_target: Size = Size(8 << 10),
        /// The most connections of one client address; further ones are reset as they come. An IPv6 address counts as its network of
        /// 64 bits. Behind a proxy, all connections have the address of the proxy, unless `proxy_protocol` says that of the client.
        /// Connections of a Unix socket are not counted. No bound unless set.
        pub connections_per_address: Option<NonZeroU32>,
        /// The proxies in front, as networks or addresses, or `unix` for those at Unix sockets: what they say in `Forwarded` (RFC 7239) or in `X-Forwarded-For`, `-Proto`
        /// and `-Host` of the client is believed. The addresses are read from the right, up to the first that is not among these.
        /// Where both are there and name two clients, neither is believed.
        pub trust: Vec<Network> = Vec::new(),
        /// How long clients may still connect after the signal to stop, while `/ready` of `admin` already answers 503.
        /// A load balancer needs this time to send clients elsewhere. By default 5 s with an `admin`, and 0 without one
        /// or in a terminal.
        pub grace: Option<Duration>,
        /// How long requests in flight may then go on.
        pub drain: Duration = Duration::from_secs(30),
    }
}
