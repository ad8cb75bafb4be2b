//! `return`, and `rewrite`: answers without a call, and paths that change before one.

use super::file::NginxFile;
use super::parse::Directive;
use super::piece::{self, Piece, REST};
use super::regex::{self, RegexRoute};
use super::scope::Scope;
use super::variable::Variables;
use crate::jq;
use crate::yaml::{Map, Yaml};

/// An answer without a call, as the step that gives it.
pub fn respond(status: u16, headers: Map, body: Option<String>) -> Yaml {
    let mut respond = Map::default();
    if status != 200 {
        respond.set("status", Yaml::plain(status));
    }
    respond.set_filled("headers", headers);
    respond.set_some("body", body.map(Yaml::text));
    Yaml::List(vec![Map::of("respond", respond).into()])
}

/// The pipeline of a `return`; none if it cannot be imported, which is reported.
pub fn give(
    file: &NginxFile<'_>,
    scope: &Scope<'_>,
    names: &Variables<'_>,
    directive: &Directive,
    uri: &str,
) -> Option<Yaml> {
    let first = directive.arg(0).unwrap_or_default();
    let (status, text) = match first.parse::<u16>() {
        Ok(status) => (status, directive.arg(1)),
        Err(_) => (302, Some(first)),
    };
    if status == 444 {
        file.ledger.remark(directive, "the connection is not cut: the client gets 404", "");
        return Some(respond(404, Map::default(), None));
    }
    if !(200..=599).contains(&status) {
        file.ledger.report(directive, format!("`{status}` is no status"), "");
        return None;
    }
    let pieces = match text.map(|text| names.resolve(text)).transpose() {
        Ok(pieces) => pieces,
        Err(why) => {
            file.ledger.report(directive, format!("the answer is not imported: {why}"), "write a `respond` step");
            return None;
        }
    };
    file.ledger.import(directive);
    let Some(pieces) = pieces.filter(|pieces| !pieces.is_empty()) else {
        return Some(respond(status, Map::default(), None));
    };
    if matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Some(respond(status, Map::of("location", Yaml::text(piece::field(&pieces))), None));
    }
    let kind = kind(file, scope, uri);
    let text = piece::text(&pieces);
    let is_json = kind.split(';').next().is_some_and(|kind| kind == "application/json" || kind.ends_with("+json"));
    let (kind, body) = match (is_json, text) {
        (true, Some(text)) => match serde_json::from_str::<serde_json::Value>(&text) {
            Ok(value) => (kind, value.to_string()),
            Err(_) => {
                file.ledger.remark(
                    directive,
                    format!("the text is not JSON: it is sent as text/plain, not as {kind}"),
                    "",
                );
                ("text/plain".to_owned(), jq::text(&text))
            }
        },
        (true, None) => (kind, format!("{} | fromjson", piece::expression(&pieces))),
        (false, _) => (kind, piece::expression(&pieces)),
    };
    Some(respond(status, Map::of("content-type", Yaml::text(kind)), Some(body)))
}

/// The content type of a text that `return` gives.
fn kind(file: &NginxFile<'_>, scope: &Scope<'_>, uri: &str) -> String {
    let own = scope.all(&["add_header"]);
    let added = own.iter().find(|directive| {
        directive.arg(0).is_some_and(|name| name.eq_ignore_ascii_case("content-type"))
            && scope.own().iter().any(|other| other.number == directive.number)
    });
    if let Some(kind) = added.and_then(|directive| {
        file.ledger.import(directive);
        directive.arg(1)
    }) {
        return kind.to_owned();
    }
    let ending = uri.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    let known = match ending {
        Some("json") => Some("application/json"),
        Some("txt") => Some("text/plain"),
        Some("html" | "htm") => Some("text/html"),
        Some("xml") => Some("text/xml"),
        Some("js") => Some("application/javascript"),
        Some("css") => Some("text/css"),
        _ => None,
    };
    let default = scope.last("default_type");
    default.iter().for_each(|directive| file.ledger.import(directive));
    let default = default.and_then(|directive| directive.arg(0)).unwrap_or("text/plain");
    known.filter(|_| file.has_types).unwrap_or(default).to_owned()
}

/// How a request goes on behind a `rewrite`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// With this path. `is_last`: with a new search for a location; `is_conditional`: some paths stay as they are.
    On { path: Vec<Piece>, has_query: bool, is_last: bool, is_conditional: bool },
    /// With a redirect.
    Redirect(Yaml),
}

/// The path of a location as a `rewrite` sees it: the text before the rest, and the rest.
pub struct RewritePath<'a> {
    /// `/api/` of `location /api/`; the whole path of `location = /health`.
    pub prefix: &'a str,
    pub is_exact: bool,
    /// The path as pieces.
    pub pieces: &'a [Piece],
}

/// Applies a `rewrite`.
///
/// # Errors
/// Why it cannot be imported.
pub fn rewrite(names: &mut Variables<'_>, directive: &Directive, seen: &RewritePath<'_>) -> Result<Rewritten, String> {
    let (Some(regex), Some(replacement)) = (directive.arg(0), directive.arg(1)) else {
        return Err("it has no replacement".to_owned());
    };
    let flag = directive.arg(2).unwrap_or_default();
    let (replacement, keeps_query) = match replacement.strip_suffix('?') {
        Some(replacement) => (replacement, false),
        None => (replacement, true),
    };
    let fitted = regex::paths(regex).ok().and_then(|paths| fit(&paths, seen));
    let is_conditional = fitted.is_none();
    let pieces = match fitted {
        Some(captures) => {
            // Those of an expression before are gone, also where this one has fewer.
            (1..=9).for_each(|at| drop(names.known.insert(at.to_string(), Vec::new())));
            for (name, pieces) in captures {
                names.known.insert(name, pieces);
            }
            names.resolve(replacement)?
        }
        None => {
            let pieces = conditional(names, regex, replacement, seen)?;
            // The captures are those of this expression now, where it fits.
            (0..=9).for_each(|at| drop(names.known.remove(&at.to_string())));
            pieces
        }
    };
    let goes = ["http://", "https://", "$scheme"].iter().any(|begin| replacement.starts_with(begin));
    if goes || matches!(flag, "redirect" | "permanent") {
        if is_conditional {
            return Err("it redirects some paths of this location".to_owned());
        }
        let mut pieces = pieces;
        if keeps_query {
            pieces.push(Piece::Query);
        }
        let status = if flag == "permanent" { 301 } else { 302 };
        let location = Map::of("location", Yaml::text(piece::field(&pieces)));
        return Ok(Rewritten::Redirect(respond(status, location, None)));
    }
    Ok(Rewritten::On { path: pieces, has_query: keeps_query, is_last: flag != "break", is_conditional })
}

/// The captures of a regular expression that fits every path of a location.
fn fit(paths: &regex::RegexPaths, seen: &RewritePath<'_>) -> Option<Vec<(String, Vec<Piece>)>> {
    let one = |route: &RegexRoute| -> Option<Vec<(String, Vec<Piece>)>> {
        let ends = seen.pieces.last().is_some_and(|piece| matches!(piece, Piece::Rest { .. }));
        let known =
            matches!(seen.pieces, [Piece::Text(_)] | [Piece::Text(_), Piece::Rest { .. }] | [Piece::Rest { .. }]);
        if !known || !route.checks.is_empty() || (!route.has_rest && ends) {
            return None;
        }
        let literal = route.literal.as_str();
        if !route.has_rest {
            return (seen.is_exact && seen.prefix == literal).then(|| route.captures.clone());
        }
        // What the prefix has beyond the text of the regular expression belongs to its rest.
        let beyond = match seen.prefix.strip_prefix(literal) {
            Some(beyond) => beyond.to_owned(),
            None if literal.strip_suffix('/') == Some(seen.prefix) => String::new(),
            None => return None,
        };
        if route.pieces.iter().any(|piece| matches!(piece, Piece::Param(_) | Piece::Jq(_))) {
            return None;
        }
        let behind = |slash: bool| -> Vec<Piece> {
            let mut rest: Vec<Piece> = vec![Piece::Text(beyond.clone())];
            if !seen.is_exact {
                let cut = seen.prefix.ends_with('/');
                rest.push(Piece::Rest { slash: if beyond.is_empty() { slash } else { !cut } });
            }
            piece::joined(rest)
        };
        let replaced = |pieces: &Vec<Piece>| {
            piece::joined(pieces.iter().flat_map(|piece| match piece {
                Piece::Rest { slash } => behind(*slash),
                piece => vec![piece.clone()],
            }))
        };
        Some(route.captures.iter().map(|(name, pieces)| (name.clone(), replaced(pieces))).collect())
    };
    paths.routes.iter().rev().find_map(one)
}

/// A rewrite that fits some paths: an expression that decides.
fn conditional(
    names: &Variables<'_>,
    regex: &str,
    replacement: &str,
    seen: &RewritePath<'_>,
) -> Result<Vec<Piece>, String> {
    let subject = match seen.pieces {
        [Piece::Rest { slash: true }] => format!("\"/\" + $path.{REST}"),
        pieces => piece::expression(pieces),
    };
    let mut named = String::new();
    let mut letters = regex.chars().peekable();
    let (mut number, mut in_class) = (0, false);
    while let Some(letter) = letters.next() {
        named.push(letter);
        match letter {
            '\\' => named.extend(letters.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class && letters.peek() != Some(&'?') => {
                number += 1;
                named.push_str(&format!("?<c{number}>"));
            }
            _ => {}
        }
    }
    let mut inner = names.clone();
    for at in 1..=9 {
        inner.known.remove(&at.to_string());
        if at <= number {
            inner.known.insert(at.to_string(), vec![Piece::Jq(format!(".c{at}"))]);
        }
    }
    let value = piece::expression(&inner.resolve(replacement)?);
    let subject = format!("({subject})");
    Ok(vec![Piece::Jq(format!(
        "({subject} as $uri | [$uri | capture({}) | {value}] | .[0] // $uri)",
        jq::text(&named)
    ))])
}
