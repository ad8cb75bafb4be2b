//! The least rate of clients, as written.

use std::num::NonZeroU64;
use std::time::Duration;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Located, Node, Size};
use crocodile_pear::unstable::spec;
use serde_json::json;

use crate::server::MinRate;

/// The least rate at which clients send and take bodies.
#[derive(Clone, Debug)]
pub enum MinRateSpec {
    /// No minimum rate; written `off`.
    Off,
    Of(RateSpec),
}

spec! {
    /// A minimum rate, and the time before it applies.
    pub struct RateSpec {
        /// Bytes per second.
        pub bytes: Located<Size> = Located::new(Size(500), Default::default()),
        /// How long the client may be slower at the beginning.
        pub after: Duration = Duration::from_secs(10),
    }
}

impl Default for MinRateSpec {
    fn default() -> Self {
        MinRateSpec::Of(spec::defaults())
    }
}

impl MinRateSpec {
    pub fn bound(&self) -> Option<MinRate> {
        let MinRateSpec::Of(rate) = self else { return None };
        Some(MinRate { bytes: NonZeroU64::new(rate.bytes.value.0)?, after: rate.after })
    }
}

impl Decode for MinRateSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let Some(text) = node.as_text() else {
            return RateSpec::decode(node, problems).and_then(|rate| of(rate, problems));
        };
        if text.as_str() == "off" {
            return Some(MinRateSpec::Off);
        }
        let size = text.as_str().strip_suffix("/s").unwrap_or(text.as_str()).trim_end();
        let size = Node { span: node.span, ..Node::from_json(&json!(size)) };
        let bytes = Located::new(Size::decode(&size, problems)?, text.span);
        of(RateSpec { bytes, ..spec::defaults() }, problems)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let rate = json!({"type": "string", "pattern": "^[0-9]+ ?([KMG]iB|[kKMG]?B)?/s$"});
        json!({"anyOf": [{"const": "off"}, Size::schema(definitions), rate, RateSpec::schema(definitions)]})
    }

    fn written(&self) -> Option<Json> {
        match self {
            MinRateSpec::Off => Some("off".into()),
            MinRateSpec::Of(rate) => Some(format!("{}B", rate.bytes.value.0).into()),
        }
    }
}

fn of(rate: RateSpec, problems: &mut Problems) -> Option<MinRateSpec> {
    if rate.bytes.value.0 == 0 {
        return problems.error(rate.bytes.span, "a minimum rate of 0 has no effect", "write `min_rate: off`");
    }
    Some(MinRateSpec::Of(rate))
}
