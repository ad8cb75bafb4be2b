//! `choice!`: one of a few words.

use serde_json::{Value, json};

use super::decode::Field;
use super::definitions::Definitions;
use super::node::{Node, NodeKind};
use super::record;
use super::suggest::suggest;
use crate::problem::Problems;

/// Declares what is written as one of a few words.
///
/// ```
/// use crocodile_pear_spec::choice;
/// choice! {
///     /// In which order items are sent.
///     pub enum Order {
///         /// As they come.
///         Arrival = "arrival",
///         /// As they were asked for.
///         Request = "request",
///     }
/// }
/// assert_eq!(Order::Arrival.word(), "arrival");
/// ```
#[macro_export]
macro_rules! choice {
    (
        $(#[doc = $doc:literal])*
        $vis:vis enum $name:ident {
            $( $(#[doc = $choice_doc:literal])* $choice:ident = $word:literal ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name {
            $( $(#[doc = $choice_doc])* $choice, )*
        }

        impl $name {
            const CHOICES: &'static [Self] = &[ $( Self::$choice, )* ];

            const FIELDS: &'static [$crate::settings::Field] = &[
                $( $crate::settings::Field { name: $word, doc: concat!($($choice_doc, "\n"),*), was: None }, )*
            ];

            /// The word as written.
            pub const fn word(self) -> &'static str {
                match self {
                    $( Self::$choice => $word, )*
                }
            }
        }

        impl $crate::settings::Decode for $name {
            fn decode(node: &$crate::settings::Node, problems: &mut $crate::problem::Problems) -> Option<Self> {
                $crate::settings::choose(node, Self::FIELDS, problems).map(|at| Self::CHOICES[at])
            }

            fn schema(definitions: &mut $crate::settings::Definitions) -> $crate::settings::Json {
                let doc = concat!($($doc, "\n"),*);
                $crate::settings::choices(std::any::type_name::<Self>(), doc, Self::FIELDS, definitions)
            }

            fn written(&self) -> Option<$crate::settings::Json> {
                Some(self.word().into())
            }
        }
    };
}

/// The place of the choice that a node names.
pub fn choose(node: &Node, choices: &[Field], problems: &mut Problems) -> Option<usize> {
    let words: Vec<&str> = choices.iter().map(|field| field.name).collect();
    let wanted = format!("one of {}", record::list(&words));
    // YAML reads the unquoted word as null; where `null` is a choice, the operator meant it.
    if let (NodeKind::Null, Some(null)) = (&node.kind, words.iter().position(|word| *word == "null")) {
        return Some(null);
    }
    let text = node.expect_text(&wanted, problems)?;
    if let Some(at) = words.iter().position(|word| *word == text.value) {
        return Some(at);
    }
    match suggest(text.as_str(), words) {
        Some(near) => node.wrong(&wanted, format!("did you mean `{near}`?"), problems),
        None => node.wrong(&wanted, "", problems),
    }
}

/// The schema of a choice.
pub fn choices(identity: &'static str, doc: &str, choices: &[Field], definitions: &mut Definitions) -> Value {
    definitions.define(identity, |definitions| {
        let word = |field: &Field| {
            let mut word = match field.name {
                "null" => json!({"enum": ["null", null]}),
                name => json!({"const": name}),
            };
            record::describe(&mut word, field.doc);
            word
        };
        let words = json!({"oneOf": choices.iter().map(word).collect::<Vec<_>>()});
        let mut schema = definitions.or_variable(words);
        record::describe(&mut schema, doc);
        schema
    })
}
