//! An endpoint, as written.

use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Located, Size};
use crocodile_pear::step::StreamSpec;
use crocodile_pear::steps::Written;

use crate::layers::{AtEndpoint, Layers};
use crate::upgrade::Upgrades;

/// The most bytes of a client's body that are read whole, unless the configuration sets another bound.
const MAX_BODY: Size = Size(1 << 20);

spec! {
    /// One endpoint. Written short as `UPSTREAM /path`: a proxy, which makes one call with the client's method and body
    /// and hands the answer on as it arrives.
    pub struct EndpointSpec {
        /// The steps, in order.
        pub pipeline: Vec<Located<Written>>,
        /// The most bytes of a client's body; a larger one is answered with 413. Where an expression uses `$body`, the body is read
        /// whole, and 1 MiB is the bound unless set. A body that is handed on has the bound that is written here, or the one of the document.
        pub max_body: Located<Size> = Located::new(MAX_BODY, Default::default()),
        /// The protocols that clients may switch to, like `websocket`. Only for a proxy.
        pub upgrade: Option<Upgrades>,
        /// Whether the answer may be silent for a long time and never end, like the log of a build. Server-sent events
        /// always may.
        pub stream: StreamSpec = StreamSpec::Off,
    }
    group(layers: Layers<AtEndpoint>)
    list(pipeline)
    short(proxy)
}

fn proxy(text: Located<String>, problems: &mut Problems) -> Option<EndpointSpec> {
    let place = text.span;
    let call = Located::new(Written::short(text, problems)?, place);
    Some(EndpointSpec {
        pipeline: vec![call],
        max_body: Located::new(MAX_BODY, Default::default()),
        upgrade: None,
        stream: StreamSpec::Off,
        layers: Layers::default(),
    })
}
