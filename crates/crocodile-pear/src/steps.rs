//! The steps: one file each, and one line here.

use crate::problem::Problems;
use crate::spec::{Decode, Definitions, Json, Node, NodeKind, suggest};
use crate::step::{Compile, Spec, Step};

/// Declares the steps by their names in the configuration.
macro_rules! steps {
    ($($name:ident: $spec:ident),* $(,)?) => {
        $(pub mod $name;)*

        /// A step as written.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "there are as many as steps are written, at start")]
        pub enum Written {
            $(#[doc = concat!("`", stringify!($name), "`")] $spec($name::$spec),)*
        }

        /// The names of all steps.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        fn decode(name: &str, node: &Node, problems: &mut Problems) -> Option<Written> {
            match name {
                $(stringify!($name) => $name::$spec::decode(node, problems).map(Written::$spec),)*
                _ => None,
            }
        }

        fn schemas(definitions: &mut Definitions) -> Vec<(&'static str, Json)> {
            vec![$((stringify!($name), $name::$spec::schema(definitions))),*]
        }

        impl Written {
            /// Makes it ready.
            pub fn compile(self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>> {
                match self {
                    $(Written::$spec(spec) => spec.compile(cx),)*
                }
            }
        }
    };
}

steps! {
    request: Request,
    requests: Requests,
    each: Each,
    follow: Follow,
    dedupe: Dedupe,
    transform: Transform,
    select: Select,
    timer: Timer,
    concatenate: Concatenate,
    merge: Merge,
    convert: Convert,
}

/// A step is a map with one key, its name: the places of everything in it survive that way.
impl Decode for Written {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let NodeKind::Map(entries) = &node.kind else {
            let remedy = format!("write `- NAME: …` with one of {}", NAMES.join(", "));
            return problems.error(node.span, "a step is a map with one key, its name", remedy);
        };
        let [(name, inner)] = entries.as_slice() else {
            let remedy = "begin each step with its own `- `";
            return problems.error(node.span, "a step is a map with one key, its name", remedy);
        };
        if !NAMES.contains(&name.value.as_str()) {
            let remedy = match suggest(&name.value, NAMES.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the steps are {}", NAMES.join(", ")),
            };
            return problems.error(name.span, format!("no step is named `{}`", name.value), remedy);
        }
        decode(&name.value, inner, problems)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let each = schemas(definitions).into_iter().map(|(name, schema)| {
            serde_json::json!({
                "type": "object",
                "properties": { name: schema },
                "required": [name],
                "additionalProperties": false,
            })
        });
        serde_json::json!({ "oneOf": each.collect::<Vec<_>>() })
    }
}
