//! An endpoint, as written.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Located, Size};
use crocodile_pear::unstable::pipeline::step::StreamSpec;
use crocodile_pear::unstable::pipeline::steps::Written;
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::upstream::LinksSpec;

use crate::gateway::detach::EndpointDetachSpec;
use crate::http::upgrade::Upgrades;
use crate::layers::{AtEndpoint, Layers};

/// The most bytes of a client's body that are read whole, unless the configuration sets another bound.
pub(super) const MAX_BODY: Size = Size(1 << 20);

spec! {
    /// An endpoint. Short form: `UPSTREAM /path`, a proxy, which makes one call with the client's method and body
    /// and streams the answer to the client.
    pub struct EndpointSpec {
        /// The steps, in order. An endpoint with `files` may do without.
        pub pipeline: Vec<Located<Written>> = Vec::new(),
        /// The maximum size of a client's body. A larger one gets 413. If an expression uses `$body`, the gateway
        /// reads the body whole, and the default is 1 MiB. If the body is streamed to an upstream, the limit is the
        /// one written here or at the top level.
        pub max_body: Located<Size> = Located::new(MAX_BODY, Default::default()),
        /// The protocols that clients may switch to, such as `websocket`. Only for a proxy.
        pub upgrade: Option<Upgrades>,
        /// Whether the answer may pause for a long time and never end, like the log of a build. Server-sent events
        /// always may.
        pub stream: StreamSpec = StreamSpec::Off,
        /// `public`: links in its answers that lead into the upstreams of its calls lead to the endpoints that serve them, as with
        /// `links` of an upstream. `off`: they stay as they are, whatever the upstreams say.
        pub links: Option<LinksSpec>,
        /// The handling of a client's body that no call takes and no expression reads.
        pub body: UnreadBodySpec = UnreadBodySpec::Refuse,
        /// Whether the pipeline goes on to its end when the client has left, and what the client is answered meanwhile.
        pub detach: Option<EndpointDetachSpec>,
    }
    group(layers: Layers<AtEndpoint>)
    list(pipeline)
    short(proxy)
}

crocodile_pear::unstable::choice! {
    /// The handling of a client's body that no call takes and no expression reads.
    pub enum UnreadBodySpec {
        /// Such a request gets 413.
        Refuse = "refuse",
        /// The body is dropped.
        Ignore = "ignore",
    }
}

#[allow(clippy::derivable_impls, reason = "`choice!` derives what all words have")]
impl Default for UnreadBodySpec {
    fn default() -> Self {
        UnreadBodySpec::Refuse
    }
}

fn proxy(text: Located<String>, problems: &mut Problems) -> Option<EndpointSpec> {
    let place = text.span;
    let call = Located::new(Written::short(text, problems)?, place);
    Some(EndpointSpec {
        pipeline: vec![call],
        max_body: Located::new(MAX_BODY, Default::default()),
        upgrade: None,
        stream: StreamSpec::Off,
        links: None,
        body: UnreadBodySpec::Refuse,
        detach: None,
        layers: Layers::default(),
    })
}
