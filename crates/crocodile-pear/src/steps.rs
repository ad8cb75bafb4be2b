//! The steps: one file each, and one line here.

use crate::problem::Problems;
use crate::spec::{Decode, Definitions, Json, Located, Node, NodeKind, beside, suggest};
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
    respond: Respond,
}

/// A step is a map with one key, its name: the places of everything in it survive that way.
impl Decode for Written {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        if node.lacks_space(|name| NAMES.contains(&name), problems) {
            return None;
        }
        let NodeKind::Map(entries) = &node.kind else {
            let remedy = format!("write `- NAME: …` with one of {}", NAMES.join(", "));
            return problems.error(node.span, "a step is a map with one key, its name", remedy);
        };
        let [(name, inner)] = entries.as_slice() else { return several(node, entries, problems) };
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

/// Why a step has more than one key.
fn several<T>(node: &Node, entries: &[(Located<String>, Node)], problems: &mut Problems) -> Option<T> {
    const WANTED: &str = "a step is a map with one key, its name";
    let [(first, inner), (second, _), ..] = entries else {
        let remedy = format!("write `- NAME: …` with one of {}", NAMES.join(", "));
        return problems.error(node.span, WANTED, remedy);
    };
    let is_step = |key: &Located<String>| NAMES.contains(&key.as_str());
    match (is_step(first), is_step(second), &inner.kind) {
        (true, true, _) => {
            let message = format!("`{second}` is a step of its own");
            problems.error(second.span, message, format!("begin it with a `-`: write `- {second}:`"))
        }
        (true, false, NodeKind::Null) => {
            let inner: Vec<&Located<String>> = entries[1..].iter().map(|(key, _)| key).collect();
            beside(first, &inner, problems);
            None
        }
        (true, false, NodeKind::Scalar { .. }) => {
            let message = format!("`{second}` stands beside `{first}`, not in it");
            let remedy = format!("give `{first}` a map that has both: `{first}: {{ …, {second}: … }}`");
            problems.error(second.span, message, remedy)
        }
        _ => problems.error(node.span, WANTED, "begin each step with its own `- `"),
    }
}
