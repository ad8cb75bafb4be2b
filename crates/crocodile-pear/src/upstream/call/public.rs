//! Whether links in bodies that point into an upstream point to the gateway instead.

use crate::config::problem::Problems;
use crate::config::spec::{self, Decode, Definitions, Field, Json, Located, Node, NodeKind};

crate::spec! {
    /// Links in bodies that lead into the upstream lead to the gateway instead.
    pub struct PublicSpec {
        /// The treatment of a link into the upstream that no endpoint serves.
        pub unserved: UnservedSpec = UnservedSpec::Keep,
        /// Further names of members whose text is a link, also one that is only a path: `[avatar, author]`. A URL with the host of
        /// the upstream is a link under any name.
        pub names: Vec<Located<String>> = Vec::new(),
    }
}

crate::choice! {
    /// The treatment of a link into an upstream that no endpoint serves.
    pub enum UnservedSpec {
        /// The link stays as it is.
        Keep = "keep",
        /// Null stands for it; in XML, an empty text.
        Null = "null",
        /// The member or the item that it stands in is left out. Of HAL and JSON:API the whole link object.
        Remove = "remove",
    }
}

/// `links` of an upstream or of an endpoint.
#[derive(Clone, Debug)]
pub enum LinksSpec {
    /// Links stay as the upstream wrote them.
    Off,
    /// They lead to the gateway.
    Public(PublicSpec),
}

impl LinksSpec {
    /// How links are mapped, if they are.
    pub fn public(&self) -> Option<&PublicSpec> {
        match self {
            LinksSpec::Off => None,
            LinksSpec::Public(spec) => Some(spec),
        }
    }
}

const WANTED: &str = "`public`, `off` or a map";

impl Decode for LinksSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_text().as_ref().map(Located::as_str) {
            Some("off" | "false") => Some(LinksSpec::Off),
            Some("public") => Some(LinksSpec::Public(spec::defaults())),
            Some(_) => node.wrong(WANTED, "write `public`", problems),
            None if matches!(node.kind, NodeKind::Null | NodeKind::List(_)) => {
                node.wrong(WANTED, "write `links: public`, or `links: { unserved: remove }`", problems)
            }
            None => PublicSpec::decode(node, problems).map(LinksSpec::Public),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        serde_json::json!({"anyOf": [{"enum": ["public", "off", false]}, PublicSpec::schema(definitions)]})
    }

    fn fields() -> Vec<Field> {
        PublicSpec::fields()
    }
}
