//! A build without the cache: the setting is refused, unless it says `off`.

pub mod spec {
    //! The setting `cache`, as written.

    use std::convert::Infallible;

    use serde_json::json;

    use crate::cache::UNBUILT;
    use crate::config::problem::Problems;
    use crate::config::spec::{Decode, Definitions, Json, Located, Node};

    /// Whether answers are kept: they are not.
    #[derive(Clone, Debug)]
    pub enum CacheSpec {
        Off,
    }

    impl Decode for CacheSpec {
        fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
            match node.as_text().as_ref().map(Located::as_str) {
                Some("off" | "false") => Some(CacheSpec::Off),
                _ => problems.error(node.span, UNBUILT, "build with it, or leave out `cache`"),
            }
        }

        fn schema(_: &mut Definitions) -> Json {
            json!({"enum": ["off", false]})
        }

        fn written(&self) -> Option<Json> {
            Some("off".into())
        }
    }

    impl CacheSpec {
        /// The settings, unless the cache is off.
        pub fn on(&self) -> Option<&Infallible> {
            None
        }
    }
}
