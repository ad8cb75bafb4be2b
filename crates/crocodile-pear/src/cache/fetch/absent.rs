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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use crate::cache::UNBUILT;
    use crate::{Client, Upstream};

    #[test]
    fn a_program_that_asks_for_a_cache_is_told_what_it_needs() {
        let shop = || Upstream::at("http://127.0.0.1:1/");
        let sized = Client::builder().cache(1 << 20).build();
        let defaults = Client::builder().defaults(Upstream::default().cache()).build();
        let others =
            [shop().cache(), shop().cache_for(Duration::from_secs(1)), shop().set("cache", json!({"for": "1s"}))];
        let others = others.map(|shop| Client::builder().upstream("shop", shop).build());
        for built in [sized, defaults].into_iter().chain(others) {
            let told = built.unwrap_err().to_string();
            assert!(told.contains(UNBUILT), "{told}");
        }
        Client::builder().upstream("shop", shop().set("cache", json!("off"))).build().unwrap();
    }

    #[cfg(feature = "yaml")]
    #[test]
    fn a_text_that_asks_for_a_cache_is_refused_at_its_place() {
        for cache in ["on", "1m", "{ for: 1m }"] {
            let text = format!(
                "upstreams:\n  shop:\n    url: http://127.0.0.1:1\n    cache: {cache}\npipeline:\n  - request: shop /\n"
            );
            let wrong = Client::new().read(&text).unwrap_err();
            let [problem] = wrong.problems() else { panic!("{wrong}") };
            assert_eq!((problem.message(), problem.line(), problem.column()), (UNBUILT, Some(4), Some(12)));
        }
    }
}
