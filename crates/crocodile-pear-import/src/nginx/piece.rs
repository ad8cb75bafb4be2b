//! Pieces: the parts of nginx's texts once their variables are known, and how they are written: as a template of ours, as the
//! target of a call, or as an expression of jq.

use crate::jq;

/// The name of the rest of a path.
pub const REST: &str = "path";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text as it is.
    Text(String),
    /// A parameter of the path.
    Param(String),
    /// The rest of the path; `slash`: with the slash before it.
    Rest { slash: bool },
    /// An expression that gives a text or null.
    Jq(String),
    /// An expression over the query that begins with `?` unless the query is empty.
    Query,
}

/// The client's query as a text, with its `?`.
pub const QUERY: &str = r#"if $query == {} then "" else "?" + ([$query | to_entries[] | .key as $k | [.value] | flatten[] | "\($k | @uri)=\(. // "" | tostring | @uri)"] | join("&")) end"#;

/// Adds a piece; texts side by side become one.
pub fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match (pieces.last_mut(), piece) {
        (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
        (_, Piece::Text(text)) if text.is_empty() => {}
        (_, piece) => pieces.push(piece),
    }
}

/// The pieces as one list, texts joined.
pub fn joined(pieces: impl IntoIterator<Item = Piece>) -> Vec<Piece> {
    let mut all = Vec::new();
    pieces.into_iter().for_each(|piece| push(&mut all, piece));
    all
}

/// The text, if the pieces are nothing else.
pub fn text(pieces: &[Piece]) -> Option<String> {
    match pieces {
        [] => Some(String::new()),
        [Piece::Text(text)] => Some(text.clone()),
        _ => None,
    }
}

/// The value of a header field.
pub fn field(pieces: &[Piece]) -> String {
    let several = pieces.len() > 1;
    // A field is left out if all values in its text are empty, and the query or the rest of a path may be.
    let may_be_empty = |piece: &Piece| matches!(piece, Piece::Query | Piece::Rest { .. });
    if several && pieces.iter().any(may_be_empty) {
        return format!("{{{}}}", expression(pieces));
    }
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(&literal(text)),
            Piece::Param(name) => out.push_str(&format!("{{{name}}}")),
            Piece::Rest { slash } => rest(&mut out, *slash),
            Piece::Jq(expression) if several => out.push_str(&format!("{{{expression} // \"\"}}")),
            Piece::Jq(expression) => out.push_str(&format!("{{{expression}}}")),
            Piece::Query => out.push_str(&format!("{{{QUERY}}}")),
        }
    }
    out
}

fn rest(out: &mut String, slash: bool) {
    if slash && out.ends_with('/') {
        out.pop();
    }
    if slash {
        out.push('/');
    }
    out.push_str(&format!("{{*{REST}}}"));
}

/// Text of a header field, with braces that stand for themselves.
pub fn literal(text: &str) -> String {
    let brace = |letter: char| match letter {
        '{' => "{\"{\"}".to_owned(),
        '}' => "{\"}\"}".to_owned(),
        letter => letter.to_string(),
    };
    text.chars().map(brace).collect()
}

/// Text of a path or a query, without what a URL cannot have.
pub fn escaped(text: &str) -> String {
    text.replace('{', "%7B").replace('}', "%7D").replace(' ', "%20")
}

/// The whole as one expression.
pub fn expression(pieces: &[Piece]) -> String {
    let one = |piece: &Piece| match piece {
        Piece::Text(text) => jq::text(text),
        Piece::Param(name) => format!("$path.{name}"),
        Piece::Rest { slash: false } => format!("$path.{REST}"),
        Piece::Rest { slash: true } => format!("\"/\" + $path.{REST}"),
        Piece::Jq(expression) if pieces.len() > 1 => format!("({expression} // \"\")"),
        Piece::Jq(expression) => expression.clone(),
        Piece::Query => format!("({QUERY})"),
    };
    match pieces {
        [] => "\"\"".to_owned(),
        pieces => pieces.iter().map(one).collect::<Vec<_>>().join(" + "),
    }
}

/// Path and query of a call. `query`: whether the client's query is added.
///
/// # Errors
/// The pieces that have no form in a target.
pub fn target(pieces: &[Piece], query: bool) -> Result<String, String> {
    let mut path: Vec<Piece> = Vec::new();
    let mut own: Option<Vec<Piece>> = None;
    let mut client = query;
    for piece in pieces {
        match (piece, own.as_mut()) {
            (Piece::Text(text), None) if text.contains('?') => {
                let (before, after) = text.split_once('?').unwrap_or((text, ""));
                push(&mut path, Piece::Text(before.to_owned()));
                own = Some(joined([Piece::Text(after.to_owned())]));
            }
            (Piece::Query, _) => client = true,
            (piece, None) => push(&mut path, piece.clone()),
            (piece, Some(own)) => push(own, piece.clone()),
        }
    }
    let path = self::path(&path);
    match (own.filter(|own| !own.is_empty()), client) {
        (None, false) => Ok(path),
        (None, true) => Ok(format!("{path}?*")),
        (Some(own), false) => Ok(format!("{path}?{}", of_query(&own))),
        (Some(_), true) => {
            Err("a query of its own and the client's together are not possible: name the parameters, as in \
                 `?a=1&b={$query.b}`"
                .to_owned())
        }
    }
}

fn of_query(own: &[Piece]) -> String {
    let one = |piece: &Piece| match piece {
        Piece::Text(text) => escaped(text),
        Piece::Param(name) => format!("{{{name}}}"),
        Piece::Rest { .. } => format!("{{*{REST}}}"),
        Piece::Jq(expression) => format!("{{{expression}}}"),
        Piece::Query => String::new(),
    };
    own.iter().map(one).collect()
}

fn path(pieces: &[Piece]) -> String {
    let whole = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| pieces.get(before));
        let begins = match (before, &pieces[at]) {
            (_, Piece::Rest { slash: true }) | (None, _) => true,
            (Some(Piece::Text(text)), _) => text.ends_with('/'),
            _ => false,
        };
        let ends = match pieces.get(at + 1) {
            None => true,
            Some(Piece::Text(text)) => text.starts_with('/') && !matches!(pieces[at], Piece::Rest { .. }),
            _ => false,
        };
        begins && ends
    };
    if (0..pieces.len()).all(|at| matches!(pieces[at], Piece::Text(_)) || whole(at)) {
        let mut out = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => out.push_str(&escaped(text)),
                Piece::Param(name) => out.push_str(&format!("{{{name}}}")),
                Piece::Rest { slash } => rest(&mut out, *slash),
                // An expression in a path gives one segment; what is made of the path may have several.
                Piece::Jq(expression) => out.push_str(&format!("{{*({expression} | ltrimstr(\"/\"))}}")),
                Piece::Query => {}
            }
        }
        return if out.starts_with('/') { out } else { format!("/{out}") };
    }
    let mut pieces = pieces.to_vec();
    if let Some(Piece::Text(text)) = pieces.first_mut() {
        *text = text.strip_prefix('/').unwrap_or(text).to_owned();
    }
    let pieces = joined(pieces.into_iter().filter(|piece| *piece != Piece::Text(String::new())));
    format!("/{{*({})}}", expression(&pieces))
}

#[cfg(test)]
mod tests {
    use super::{Piece, field, target};

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    #[test]
    fn targets_are_as_short_as_they_can_be() {
        let rest = |slash| Piece::Rest { slash };
        let id = || Piece::Param("id".to_owned());
        for (pieces, wanted) in [
            (vec![text("/v2/"), rest(false)], "/v2/{*path}"),
            (vec![text("/v2"), rest(true)], "/v2/{*path}"),
            (vec![text("/"), rest(true)], "/{*path}"),
            (vec![rest(true)], "/{*path}"),
            (vec![text("/v2"), rest(false)], "/{*(\"v2\" + $path.path)}"),
            (vec![text("/users/"), id(), text("/x y")], "/users/{id}/x%20y"),
            (vec![text("/users-"), id()], "/{*(\"users-\" + $path.id)}"),
            (vec![text("/a?b="), id()], "/a?b={id}"),
            (vec![text("/a"), Piece::Query], "/a?*"),
        ] {
            assert_eq!(target(&pieces, false).as_deref(), Ok(wanted), "{pieces:?}");
        }
        assert!(target(&[text("/a?b=1"), Piece::Query], false).is_err());
    }

    #[test]
    fn braces_of_a_field_stand_for_themselves() {
        assert_eq!(field(&[text("{a}")]), "{\"{\"}a{\"}\"}");
        assert_eq!(field(&[text("a "), Piece::Jq("$id".to_owned())]), "a {$id // \"\"}");
        assert_eq!(field(&[text("/a/"), Piece::Rest { slash: false }]), "{\"/a/\" + $path.path}");
    }
}
