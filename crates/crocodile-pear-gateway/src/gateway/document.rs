//! The whole configuration as written: the sum of the specs.

mod endpoint;
mod group;
mod partial;
mod versions;

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{
    Decode, Definitions, Entries, Json, Located, Marked, Node, NodeKind, Size, suggest,
};
use crocodile_pear::unstable::database::DatabaseSpec;
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::upstream::{ResolverSpec, UpstreamSpec};

use crate::layers::{AtDocument, Layers};
use crate::listeners::admin_spec::AdminSpec;
use crate::listeners::spec::ListenSpec;
use crate::net::cidr::{Ipv6Prefix, Network};
use crate::net::trusted_proxies::ForwardedFieldSpec;
use crate::runtime::helper_threads::ThreadPool;
use crate::server::min_rate_spec::MinRateSpec;
use crate::shared::events::EventSourceSpec;
use crate::shared::redis_tier::StoreSpec;
use crate::telemetry::traces::TracesSpec;
pub use endpoint::{EndpointSpec, UnreadBodySpec};
pub use group::GroupSpec;
pub use partial::Unread;
use partial::{entries, read};
pub use versions::{AdaptSpec, Api, Placed, plain};

spec! {
    /// A gateway: where it listens, which APIs it calls, and what it answers.
    pub struct Document {
        /// The address where clients connect: `HOST:PORT`, `:PORT` for every address of the machine (IPv6 and IPv4),
        /// `unix:/PATH`, a map with settings, or a list of these. Port 0 picks a free port.
        pub listen: ListenSpec = ListenSpec::default(),
        /// The admin listener: health, metrics, cache purges. Off by default.
        pub admin: Option<AdminSpec>,
        /// The number of threads that serve requests. Each has its own listener and its own connections. Default: the
        /// number of cores.
        pub threads: Option<NonZeroUsize>,
        /// Helper threads, for work that takes long.
        pub thread_pool: Option<ThreadPool>,
        /// Memory for cached answers, and a Redis server through which several gateways share rate limits and caches.
        pub store: Option<StoreSpec>,
        /// Sources of messages about changed data (PostgreSQL or Redis). A message purges cached answers.
        pub events: Option<Vec<EventSourceSpec>>,
        /// The APIs that the gateway calls, by name.
        pub upstreams: Option<Entries<Marked<UpstreamSpec>>>,
        /// The PostgreSQL databases for `sql`, by name.
        pub databases: Option<Entries<Marked<DatabaseSpec>>>,
        /// The DNS servers for the names of upstreams: `HOST:PORT`, or a list. Default: the DNS servers of the
        /// system. The gateway looks a name up again before its TTL ends. If no DNS server answers, it keeps the last
        /// known addresses. It does not reuse connections to an address that the name no longer has.
        pub resolver: Option<ResolverSpec>,
        /// Endpoints by method and path: `GET /inbox/{category}`. A path without a method serves all
        /// methods that no other endpoint with the same path serves. `{word}` matches one segment. `{*word}` at the
        /// end matches the rest of the path, which may be empty: `/api/{*path}` also serves `/api`. If several paths
        /// match, text wins over `{word}`, and `{word}` over `{*word}`, segment by segment. Text is compared after
        /// percent-decoding (`/%61` is `/a`); an encoded slash does not separate segments.
        pub endpoints: Entries<EndpointSpec> = Entries::new(),
        /// Endpoints that share hosts or settings. You choose the names of the groups.
        pub groups: Option<Entries<GroupSpec>>,
        /// Limits and timeouts for clients and their connections.
        pub clients: Option<Clients>,
        /// Where to send traces of requests: the URL of a collector, or a map. Off by default.
        pub traces: Option<Marked<TracesSpec>>,
        /// Other files to add; their paths are relative to this file, and may have `*` and `?`: `teams/*.yaml`. They add
        /// upstreams, endpoints and groups, and settings that this file does not have. Keys at the top of a file that begin
        /// with `x-` mean nothing to the gateway; they hold what YAML anchors name.
        pub include: Option<Included>,
        /// Fields that upstreams and endpoints have unless they write them themselves: `{ upstreams: { timeout: 2s },
        /// endpoints: { max_body: 1MiB } }`. A `cache` is not added to endpoints for other methods than GET and HEAD.
        pub defaults: Option<Defaults>,
        /// The settings of this level that groups and endpoints can neither replace nor switch off: `[authenticate,
        /// rate_limit, headers]`. Where `headers` is locked, others may add fields, and not change those of this level.
        pub locked: Vec<Located<String>> = Vec::new(),
    }
    group(layers: Layers<AtDocument>)
}

impl Document {
    /// Whether clients are authenticated anywhere.
    pub fn authenticates(&self) -> bool {
        let own = self.layers.authenticates() == Some(true);
        let endpoint = |(_, spec): &(Span, EndpointSpec)| spec.layers.authenticates() == Some(true);
        let group = |(_, (_, group)): (&String, &(Span, GroupSpec))| group.authenticates(false);
        own || self.endpoints.values().any(endpoint) || self.groups.iter().flatten().any(group)
    }

    /// Reads what can be read of a document with errors, so that one `check` finds the other problems too. Also returns
    /// the names of the upstreams and databases that cannot be read; their errors were reported before.
    pub fn partial(node: &Node) -> (Self, Unread) {
        let (databases, broken_databases) = entries(node, "databases", |_| None);
        let (upstreams, broken) = entries(node, "upstreams", |_| None);
        let (endpoints, _) = entries(node, "endpoints", partial::endpoint);
        let (groups, _) = entries(node, "groups", partial::group);
        let listen = node.field("listen").and_then(read).unwrap_or_default();
        let upstreams = Some(upstreams);
        let document = Document {
            listen,
            admin: node.field("admin").and_then(read),
            threads: None,
            thread_pool: None,
            store: node.field("store").and_then(read),
            events: node.field("events").and_then(read),
            upstreams,
            databases: Some(databases),
            resolver: None,
            endpoints,
            groups: Some(groups),
            clients: None,
            traces: node.field("traces").and_then(read),
            include: None,
            defaults: None,
            locked: Vec::new(),
            layers: Layers::partial(node),
        };
        let authenticates = partial::names(node, "authenticate");
        (document, Unread { upstreams: broken, databases: broken_databases, authenticates })
    }
}

/// Notes that nothing is written in a configuration.
pub fn is_empty(node: &Node, problems: &mut Problems) -> bool {
    let empty = matches!(node.kind, NodeKind::Null);
    if empty {
        let remedy = "write `upstreams` and `endpoints`; `crocodile-pear init` makes a first configuration";
        problems.error::<()>(node.span, "the configuration is empty", remedy);
    }
    empty
}

/// The fields of which a document needs one to be of use.
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

/// Warns of trusted proxies that are no proxies but everybody: any client could then say that it is another one.
pub fn check_trust(node: &Node, problems: &mut Problems) {
    let trust = node.field("clients").and_then(|clients| clients.field("trust")).and_then(Node::as_list);
    for one in trust.into_iter().flatten() {
        if Network::decode(one, &mut Problems::default()).is_some_and(is_everybody) {
            let message = format!("`clients.trust` has {}: every client may claim any address", one.found());
            problems.warning(one.span, message, "write the networks of your proxies, as in `[10.0.0.0/8]`");
        }
    }
}

/// Whether a network is larger than any that one operator has: than `10.0.0.0/8`, or than what is private in IPv6.
fn is_everybody(network: Network) -> bool {
    match network {
        Network::Range { first: IpAddr::V4(_), prefix } => prefix < 8,
        Network::Range { first: IpAddr::V6(first), prefix } => {
            let private = (first.is_unique_local() && prefix >= 7) || (first.is_unicast_link_local() && prefix >= 10);
            prefix < 16 && !private
        }
        Network::Unix => false,
    }
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

/// The defaults. They were added when the configuration was read: nothing of them is left here.
#[derive(Clone, Debug)]
pub struct Defaults;

impl Decode for Defaults {
    fn decode(_: &Node, _: &mut Problems) -> Option<Self> {
        Some(Defaults)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        serde_json::json!({
            "type": "object",
            "properties": {
                "upstreams": UpstreamSpec::schema(definitions),
                "endpoints": EndpointSpec::schema(definitions),
            },
            "additionalProperties": false,
        })
    }
}

crocodile_pear::unstable::choice! {
    /// Which clients of HTTP/1.1 get trailers.
    pub enum TrailersSpec {
        /// Clients that send `te: trailers`, as RFC 9110 wants it.
        Te = "te",
        /// All. A client that does not know trailers ignores them.
        Always = "always",
    }
}

spec! {
    /// Limits and timeouts for clients and their connections.
    pub struct Clients {
        /// Timeout for the head of a request, from its first byte, or from the start of the connection.
        pub head: Duration = Duration::from_secs(10),
        /// Keep-alive timeout: how long a connection may wait for its next request.
        pub keep: Duration = Duration::from_secs(75),
        /// How long a client may pause while the gateway reads its body.
        pub body: Duration = Duration::from_secs(30),
        /// How long a client may pause while it reads its answer.
        pub write: Duration = Duration::from_secs(30),
        /// The minimum rate at which a client must send its body and read its answer, in bytes per second: `500B`, or
        /// `{ bytes: 500B, after: 10s }`; `off` for none. It applies only while the gateway waits for the client, and
        /// not in the first 10 s (`after`). A client that was faster before may pause for longer, up to `body` and
        /// `write`. A client that sends its body too slowly gets 408; an answer that is read too slowly is cut off.
        /// The minimum does not apply to server-sent events, to requests and answers of endpoints with `stream: on`,
        /// and behind `upgrade`.
        pub min_rate: MinRateSpec = MinRateSpec::default(),
        /// Which clients of HTTP/1.1 get the trailers of an answer: those that ask for them with `te: trailers`, or all. Over
        /// HTTP/2 all clients get them.
        pub trailers: TrailersSpec = TrailersSpec::Te,
        /// The maximum size of a request's head. A larger one gets 431.
        pub max_head: Size = Size(16 << 10),
        /// The maximum length of a request's target. A longer one gets 414.
        pub max_target: Size = Size(8 << 10),
        /// The maximum number of connections per client address. Further connections are reset. An IPv6 address
        /// counts as its network (`ipv6_prefix`). Behind a proxy, all connections have the address of the proxy, unless
        /// `proxy_protocol` tells the client's. Connections at a Unix socket are not counted. No limit by default.
        pub connections_per_address: Option<NonZeroU32>,
        /// The trusted proxies: networks, addresses, or `unix` for proxies at Unix sockets. The gateway believes what
        /// they say about the client in `Forwarded` (RFC 7239), or in `X-Forwarded-For`, `-Proto` and `-Host`. It
        /// reads the addresses from the right, up to the first one that is not trusted. A client that a trusted proxy
        /// does not name in a way that can be read is `unknown`: no list of `addresses` or `purge` contains it, and
        /// limits count all such clients as one. So is a client that two of these fields, or `X-Real-IP`, name
        /// differently.
        pub trust: Vec<Network> = Vec::new(),
        /// Where the trusted proxies name the client, on every request. Other fields are not believed, and a request
        /// without this one has an `unknown` client. Without this setting, the gateway reads `Forwarded` and
        /// `X-Forwarded-For`; a request with other fields of proxies alone (`X-Real-IP`, `Via`, `X-Forwarded-…`,
        /// `CF-Connecting-IP` and the like) has an `unknown` client, and a request with none comes from the trusted
        /// machine itself.
        pub field: Option<Located<ForwardedFieldSpec>>,
        /// How many bits of an IPv6 address make one client, where clients are counted by their addresses:
        /// `connections_per_address`, and `by: $client.address` of `rate_limit` and `in_flight`. A provider gives each
        /// of its customers a network, mostly a /64, and a client may use any address in it.
        pub ipv6_prefix: Ipv6Prefix = Ipv6Prefix::default(),
        /// How long clients may still connect after the signal to stop, while `/ready` of `admin` already answers
        /// 503. A load balancer needs this time to send clients elsewhere. Default: 5 s with an `admin`; 0 without
        /// one, or in a terminal.
        pub grace: Option<Duration>,
        /// How long requests in flight may continue after that.
        pub drain: Duration = Duration::from_secs(30),
    }
}
