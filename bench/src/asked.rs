//! Requests to a gateway.

use crate::expected::Expected;
use crate::upstream;

/// A request, and what it costs the gateway.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Proxy,
    Merge,
    Ten,
}

impl Shape {
    pub const ALL: [Self; 3] = [Self::Proxy, Self::Merge, Self::Ten];

    pub fn name(self) -> &'static str {
        match self {
            Self::Proxy => "proxy, 282 B",
            Self::Merge => "merge of 3",
            Self::Ten => "concatenation of 10",
        }
    }

    pub fn target(self) -> &'static str {
        match self {
            Self::Proxy => "/proxy",
            Self::Merge => "/merge",
            Self::Ten => "/ten",
        }
    }

    /// Dearer requests are made less often, so that rounds are of a length.
    pub fn weight(self) -> u32 {
        match self {
            Self::Proxy => 1,
            Self::Merge => 2,
            Self::Ten => 4,
        }
    }

    pub fn expected(self) -> Expected {
        match self {
            Self::Proxy => Expected::Exactly(upstream::item(0)),
            Self::Merge => {
                let [a, b, c] = [1, 2, 3].map(upstream::item);
                Expected::Exactly([br#"{"a":"#, &*a, br#","b":"#, &b, br#","c":"#, &c, b"}"].concat())
            }
            Self::Ten => Expected::any_order((1..=10).map(upstream::item).collect()),
        }
    }
}
