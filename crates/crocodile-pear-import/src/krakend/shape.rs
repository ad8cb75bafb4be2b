//! The shape that KrakenD gives to the answer of one backend: `is_collection` and `encoding`, then `target`, then `allow` or `deny`,
//! then `mapping`, then `group`. Or, in the place of the middle three, the operations of `flatmap_filter`.

use super::flatmap::Operation;
use crate::jq;

/// How the body is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decoder {
    #[default]
    Object,
    /// A list, which becomes `{"collection": […]}`.
    Collection,
    /// An object, a list or a scalar.
    Any,
    /// A text, which becomes `{"content": "…"}`.
    Text,
}

#[derive(Clone, Debug, Default)]
pub struct Shape {
    pub decoder: Decoder,
    pub target: Vec<String>,
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    /// Sorted by the former name; KrakenD takes them in any order.
    pub mapping: Vec<(String, String)>,
    pub flatmap: Vec<Operation>,
    pub group: String,
}

impl Shape {
    /// Whether an object passes as it is.
    pub fn is_identity(&self) -> bool {
        self.decoder == Decoder::Object && self.after_decoding().is_empty()
    }

    /// The expression for the answer of the only call; none if it passes as it is.
    pub fn alone(&self) -> Option<String> {
        if let Some(name) = self.renamed_collection() {
            return Some(self.grouped(format!("{{{}: .}}", jq::key(name))));
        }
        let decoded = match self.decoder {
            Decoder::Object => None,
            Decoder::Collection => Some("{collection: .}".to_owned()),
            Decoder::Any => Some(ANY.to_owned()),
            Decoder::Text => Some(TEXT.to_owned()),
        };
        let steps: Vec<String> = decoded.into_iter().chain(self.after_decoding()).collect();
        (!steps.is_empty()).then(|| steps.join(" | "))
    }

    /// The expression for a named answer among several: it gives nothing if the call failed, or if KrakenD could not read it.
    pub fn among(&self, name: &str) -> String {
        let guard = match self.decoder {
            Decoder::Object => "objects".to_owned(),
            Decoder::Collection => match self.renamed_collection() {
                Some(new) => return self.guarded(name, &self.grouped(format!("arrays | {{{}: .}}", jq::key(new)))),
                None => "arrays | {collection: .}".to_owned(),
            },
            Decoder::Any => format!("values | {ANY}"),
            Decoder::Text => format!("values | {TEXT}"),
        };
        let steps: Vec<String> = std::iter::once(guard).chain(self.after_decoding()).collect();
        self.guarded(name, &steps.join(" | "))
    }

    fn guarded(&self, name: &str, steps: &str) -> String {
        format!("(${name} | {steps})")
    }

    /// The commonest thing that is done to a list: `collection` gets another name, and nothing else.
    fn renamed_collection(&self) -> Option<&str> {
        let only = self.target.is_empty() && self.allow.is_empty() && self.deny.is_empty() && self.flatmap.is_empty();
        match (self.decoder, self.mapping.as_slice()) {
            (Decoder::Collection, [(from, to)]) if only && from == "collection" && to != from => Some(to),
            _ => None,
        }
    }

    fn grouped(&self, expression: String) -> String {
        match self.group.as_str() {
            "" => expression,
            group => format!("{expression} | {{{}: .}}", jq::key(group)),
        }
    }

    fn after_decoding(&self) -> Vec<String> {
        let mut steps = Vec::new();
        if !self.target.is_empty() {
            let path = optional(&self.target);
            steps.push(format!("(({path} | objects) // {{}})"));
        }
        if !self.flatmap.is_empty() {
            steps.extend(self.flatmap.iter().map(Operation::expression));
        } else {
            if !self.allow.is_empty() {
                steps.push(allowed(&tree(&self.allow)));
            } else if !self.deny.is_empty() {
                steps.push(denied(&self.deny));
            }
            steps.extend(self.mapping.iter().map(|(from, to)| renamed(from, to)));
        }
        if !self.group.is_empty() {
            steps.push(format!("{{{}: .}}", jq::key(&self.group)));
        }
        steps
    }

    /// The keys that the result can have at its top, if they are known.
    pub fn keys(&self) -> Option<Vec<String>> {
        if !self.group.is_empty() {
            return Some(vec![self.group.clone()]);
        }
        if !self.flatmap.is_empty() {
            return None;
        }
        let keys = match (self.decoder, self.target.is_empty(), self.allow.is_empty()) {
            (_, _, false) => {
                self.allow.iter().map(|path| path.split('.').next().unwrap_or_default().to_owned()).collect()
            }
            (Decoder::Collection, true, _) => vec!["collection".to_owned()],
            (Decoder::Text, true, _) => vec!["content".to_owned()],
            _ => return None,
        };
        let rename = |key: String| self.mapping.iter().find(|(from, _)| *from == key).map_or(key, |(_, to)| to.clone());
        Some(keys.into_iter().map(rename).collect())
    }

    /// Where a field of the result comes from in the call's own answer: `$name` and the path behind it.
    pub fn origin(&self, path: &[&str]) -> Option<Vec<String>> {
        let path = match (self.group.as_str(), path) {
            ("", path) => path,
            (group, [first, rest @ ..]) if *first == group => rest,
            _ => return None,
        };
        if !self.flatmap.is_empty() {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let former = self.mapping.iter().find(|(_, to)| to == first).map_or(*first, |(from, _)| from.as_str());
        if self.mapping.iter().any(|(from, to)| from == first && to != first) {
            return None;
        }
        let mut origin = self.target.clone();
        match self.decoder {
            Decoder::Object => origin.push(former.to_owned()),
            Decoder::Collection if self.target.is_empty() && former == "collection" => {}
            _ => return None,
        }
        origin.extend(rest.iter().map(|name| (*name).to_owned()));
        Some(origin)
    }
}

const ANY: &str = "if type == \"object\" then . elif type == \"array\" then {collection: .} else {content: .} end";
const TEXT: &str = "{content: (if type == \"string\" then . else tojson end)}";

/// The fields that are allowed, by name, with those below them.
#[derive(Debug, Default)]
struct AllowedFields(Vec<(String, Option<AllowedFields>)>);

fn tree(paths: &[String]) -> AllowedFields {
    let mut root = AllowedFields::default();
    for path in paths {
        root.add(&path.split('.').collect::<Vec<_>>());
    }
    root
}

impl AllowedFields {
    fn add(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = self.0.iter().position(|(name, _)| name == first);
        let at = at.unwrap_or_else(|| {
            self.0.push(((*first).to_owned(), (!rest.is_empty()).then(AllowedFields::default)));
            self.0.len() - 1
        });
        let entry = &mut self.0[at].1;
        match (entry.as_mut(), rest.is_empty()) {
            // Of a field and a part of it, KrakenD takes what is written later.
            (_, true) => *entry = None,
            (Some(below), false) => below.add(rest),
            (None, false) => entry.insert(AllowedFields::default()).add(rest),
        }
    }
}

/// Keeps what is allowed: what is missing stays missing, and an object of which nothing is left goes.
fn allowed(tree: &AllowedFields) -> String {
    let names: Vec<&str> = tree.0.iter().map(|(name, _)| name.as_str()).collect();
    let keep = match names.as_slice() {
        [name] => format!("select(.key == {})", jq::text(name)),
        names => format!("select(.key | IN({}))", jq::texts(names)),
    };
    let below: Vec<String> = tree.0.iter().filter_map(|(name, below)| {
        let below = allowed(below.as_ref()?);
        Some(format!("if .key == {} then (.value | objects | {below} | select(. != {{}})) as $kept | .value = $kept else . end", jq::text(name)))
    }).collect();
    let steps: Vec<String> = std::iter::once(keep).chain(below).collect();
    format!("with_entries({})", steps.join(" | "))
}

/// Removes fields; what is not an object on the way stays.
fn denied(paths: &[String]) -> String {
    let one = |path: &String| {
        let names: Vec<&str> = path.split('.').collect();
        match names.as_slice() {
            [name] => jq::path(&[name]),
            names => optional(names),
        }
    };
    format!("del({})", paths.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// A path that gives nothing where it leads through something that is no object.
fn optional<T: AsRef<str>>(names: &[T]) -> String {
    let part = |(at, name): (usize, &T)| match (at, jq::is_name(name.as_ref())) {
        (0, false) => format!(".[{}]?", jq::text(name.as_ref())),
        _ => format!("{}?", jq::field(name.as_ref())),
    };
    names.iter().enumerate().map(part).collect()
}

/// Gives a field another name. A field that has the same name already is replaced; one renamed to itself goes, as in Lura.
fn renamed(from: &str, to: &str) -> String {
    let (old, new) = (jq::path(&[from]), jq::path(&[to]));
    if from == to {
        return format!("del({old})");
    }
    format!("if has({}) then {new} = {old} | del({old}) else . end", jq::text(from))
}
