//! `types`: how resources that a document only names are fetched.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::config::problem::Problems;
use crate::config::spec::{Entries, Located};

/// All but the unreserved characters (RFC 3986, 2.3): an identifier stays one segment.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The calls for resources of an upstream's documents, by their types.
#[derive(Default)]
pub struct Types(Vec<(Box<str>, TypedCall)>);

/// The call for a resource.
struct TypedCall {
    to: Arc<str>,
    path: Vec<TypedPiece>,
}

enum TypedPiece {
    Text(String),
    Type,
    Id,
}

impl Types {
    /// Makes them ready; every problem is noted.
    pub(super) fn compile(written: &Entries<Located<String>>, problems: &mut Problems) -> Option<Types> {
        let mut made = Some(Vec::new());
        for (name, (_, text)) in written {
            let call = call(text, problems);
            made = made.zip(call).map(|(mut made, call)| {
                made.push((name.as_str().into(), call));
                made
            });
        }
        made.map(Types)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The upstream to call for a resource, by its name, and the path below it; `None` for a type that is not written.
    pub fn call(&self, kind: &str, id: &str) -> Option<(&Arc<str>, String)> {
        let (_, call) = self.0.iter().find(|(known, _)| **known == *kind)?;
        let mut path = String::new();
        for piece in &call.path {
            match piece {
                TypedPiece::Text(text) => path.push_str(text),
                TypedPiece::Type => path.extend(utf8_percent_encode(kind, RESERVED)),
                TypedPiece::Id => path.extend(utf8_percent_encode(id, RESERVED)),
            }
        }
        Some((&call.to, path))
    }
}

fn call(text: &Located<String>, problems: &mut Problems) -> Option<TypedCall> {
    let Some((to, path)) = text.value.split_once(char::is_whitespace) else {
        return problems.error(text.span, "a type is fetched by `UPSTREAM /path`", "write `api /people/{id}`");
    };
    let path = path.trim();
    if !path.starts_with('/') {
        let remedy = "begin it with `/`; the upstream's own path stands before it";
        return problems.error(text.span, "a path begins with `/`", remedy);
    }
    let (mut pieces, mut rest) = (Vec::new(), path);
    while let Some((before, after)) = rest.split_once('{') {
        pieces.push(TypedPiece::Text(before.to_owned()));
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        pieces.push(match name {
            "id" => TypedPiece::Id,
            "type" => TypedPiece::Type,
            other => {
                let message = format!("`{{{other}}}` is nothing that a type and an identifier have");
                return problems.error(text.span, message, "write `{id}`, and `{type}` if the path has it");
            }
        });
        rest = after;
    }
    pieces.push(TypedPiece::Text(rest.to_owned()));
    if !pieces.iter().any(|piece| matches!(piece, TypedPiece::Id)) {
        return problems.error(text.span, "every resource of this type has the same path", "write `{id}` into it");
    }
    Some(TypedCall { to: to.into(), path: pieces })
}

/// The upstreams that calls of `types` name, each with its place.
pub fn named(written: &Entries<Located<String>>) -> impl Iterator<Item = Located<String>> {
    let name =
        |text: &Located<String>| text.value.split_once(char::is_whitespace).map(|(to, _)| text.part(0, to.len()));
    written.values().filter_map(move |(_, text)| name(text))
}
