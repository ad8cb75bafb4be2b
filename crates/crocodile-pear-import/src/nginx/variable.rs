//! nginx's variables, as pieces of what we write.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::ledger::DirectiveLedger;
use super::parse::Directive;
use super::piece::{self, Piece, QUERY};
use crate::jq;

/// The values of variables at one place.
#[derive(Clone, Default)]
pub struct Variables<'a> {
    /// Captures, and what `set` has given.
    pub known: HashMap<String, Vec<Piece>>,
    /// The path as pieces, as `rewrite` has made it.
    pub path: Vec<Piece>,
    /// The path of the request.
    pub request: Vec<Piece>,
    pub server_name: String,
    pub port: Option<String>,
    /// Whether clients speak TLS; none if some do.
    pub tls: Option<bool>,
    pub maps: Option<&'a Maps<'a>>,
}

/// The `map` blocks of a file.
pub struct Maps<'a> {
    pub blocks: HashMap<String, &'a Directive>,
    pub ledger: &'a DirectiveLedger,
    /// The variables that are being resolved.
    pub within: RefCell<HashSet<String>>,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ValuePart {
    Text(String),
    Name(String),
}

fn parts(text: &str) -> Vec<ValuePart> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        plain.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, next) = match after.strip_prefix('{') {
            Some(inner) => match inner.split_once('}') {
                Some((name, next)) => (name, next),
                None => ("", after),
            },
            None => {
                let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let end = after.find(|letter| !is_name(letter)).unwrap_or(after.len());
                // `$1a` is `$1` and a letter.
                let digits = after.len() - after.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
                after.split_at(if digits > 0 { 1 } else { end })
            }
        };
        if name.is_empty() {
            plain.push('$');
        } else {
            parts.push(ValuePart::Text(std::mem::take(&mut plain)));
            parts.push(ValuePart::Name(name.to_owned()));
        }
        rest = next;
    }
    plain.push_str(rest);
    parts.push(ValuePart::Text(plain));
    parts.retain(|part| *part != ValuePart::Text(String::new()));
    parts
}

/// The names of the variables in a text.
pub fn names(text: &str) -> Vec<String> {
    let name = |part| match part {
        ValuePart::Name(name) => Some(name),
        ValuePart::Text(_) => None,
    };
    parts(text).into_iter().filter_map(name).collect()
}

impl Variables<'_> {
    /// A text with its variables resolved.
    ///
    /// # Errors
    /// The variable that has no counterpart.
    pub fn resolve(&self, text: &str) -> Result<Vec<Piece>, String> {
        let mut all = Vec::new();
        let parts = parts(text);
        let is_query = |at: usize| matches!(parts.get(at), Some(ValuePart::Name(name)) if name == "args" || name == "query_string");
        for (at, part) in parts.iter().enumerate() {
            let pieces = match part.clone() {
                // The whole query with its `?`, however it is put together.
                ValuePart::Name(name) if name == "is_args" && is_query(at + 1) => vec![Piece::Query],
                ValuePart::Text(text) if text.ends_with('?') && is_query(at + 1) => {
                    vec![Piece::Text(text[..text.len() - 1].to_owned()), Piece::Query]
                }
                ValuePart::Name(_) if is_query(at) && matches!(all.last(), Some(Piece::Query)) => continue,
                ValuePart::Text(text) => vec![Piece::Text(text)],
                ValuePart::Name(name) => self.one(&name)?,
            };
            pieces.into_iter().for_each(|piece| piece::push(&mut all, piece));
        }
        Ok(all)
    }

    /// A variable.
    fn one(&self, name: &str) -> Result<Vec<Piece>, String> {
        if let Some(pieces) = self.known.get(name) {
            return Ok(pieces.clone());
        }
        let jq = |expression: &str| Ok(vec![Piece::Jq(expression.to_owned())]);
        let text = |text: &str| Ok(vec![Piece::Text(text.to_owned())]);
        match name {
            "host" => jq(r#"($headers.host // "" | split(":")[0])"#),
            "http_host" => jq("$headers.host"),
            "remote_addr" | "binary_remote_addr" | "realip_remote_addr" | "proxy_add_x_forwarded_for" => {
                jq("$client.address")
            }
            "remote_port" => jq("$client.port"),
            "request_id" => jq("$id"),
            "remote_user" => jq("$claims.sub"),
            "server_protocol" => jq("$client.protocol"),
            "content_type" => jq(r#"$headers["content-type"]"#),
            "content_length" => jq(r#"$headers["content-length"]"#),
            "ssl_client_s_dn" | "ssl_client_s_dn_legacy" => jq("$client.certificate.subject"),
            "ssl_client_i_dn" => jq("$client.certificate.issuer"),
            "ssl_client_serial" => jq("$client.certificate.serial"),
            "ssl_client_verify" => jq(r#"if $client.certificate then "SUCCESS" else "NONE" end"#),
            "uri" | "document_uri" => Ok(self.path.clone()),
            "request_uri" => Ok(self.request.iter().cloned().chain([Piece::Query]).collect()),
            "args" | "query_string" => jq(&format!("(({QUERY}) | ltrimstr(\"?\"))")),
            "is_args" => jq(r#"(if $query == {} then "" else "?" end)"#),
            // Nothing is answered before the handshake has ended.
            "ssl_early_data" => text(""),
            "server_name" if !self.server_name.is_empty() => text(&self.server_name),
            "server_port" => match &self.port {
                Some(port) => text(port),
                None => Err("`$server_port` differs between the listeners".to_owned()),
            },
            "scheme" => match self.tls {
                Some(true) => text("https"),
                Some(false) => text("http"),
                None => Err("`$scheme` differs between the listeners".to_owned()),
            },
            "https" => match self.tls {
                Some(true) => text("on"),
                Some(false) => text(""),
                None => Err("`$https` differs between the listeners".to_owned()),
            },
            name => self.other(name),
        }
    }

    fn other(&self, name: &str) -> Result<Vec<Piece>, String> {
        if let Some(field) = name.strip_prefix("http_") {
            return Ok(vec![Piece::Jq(format!("$headers{}", jq::field(&field.replace('_', "-"))))]);
        }
        if let Some(field) = name.strip_prefix("cookie_") {
            return Ok(vec![Piece::Jq(format!("$cookies{}", jq::field(field)))]);
        }
        if let Some(field) = name.strip_prefix("arg_") {
            return Ok(vec![Piece::Jq(format!("$query{}", jq::field(field)))]);
        }
        match self.maps.and_then(|maps| maps.blocks.get(name).map(|block| (maps, *block))) {
            Some((maps, block)) => self.map(name, maps, block),
            None if name.len() > 1
                && name.chars().all(|letter| letter.is_ascii_uppercase() || "_0123456789".contains(letter)) =>
            {
                Err(format!(
                    "`${{{name}}}` belongs to a template: fill it in first, with `envsubst '${{{name}}}' < FILE`"
                ))
            }
            None => Err(format!("`${name}` has no counterpart")),
        }
    }

    /// A `map` of whole texts to texts.
    fn map(&self, name: &str, maps: &Maps<'_>, block: &Directive) -> Result<Vec<Piece>, String> {
        if !maps.within.borrow_mut().insert(name.to_owned()) {
            return Err(format!("`${name}` is made of itself"));
        }
        let made = self.mapped(name, block);
        maps.within.borrow_mut().remove(name);
        if made.is_ok() {
            maps.ledger.import_whole(block);
        }
        made
    }

    fn mapped(&self, name: &str, block: &Directive) -> Result<Vec<Piece>, String> {
        let source = self.resolve(block.arg(0).unwrap_or_default())?;
        let (mut cases, mut default) = (Vec::new(), "\"\"".to_owned());
        for entry in block.inner() {
            let value = piece::expression(&self.resolve(entry.arg(0).unwrap_or_default())?);
            match entry.name.as_str() {
                "hostnames" | "volatile" | "include" => {
                    return Err(format!("the map of `${name}` has `{}`", entry.name));
                }
                "default" => default = value,
                key if key.starts_with('~') || key.starts_with('*') => {
                    return Err(format!("the map of `${name}` has patterns"));
                }
                key => cases.push((key.strip_prefix('\\').unwrap_or(key).to_owned(), value)),
            }
        }
        let source = piece::expression(&source);
        let mut expression = format!("(({source}) // \"\") as $v | ");
        for (at, (key, value)) in cases.iter().enumerate() {
            let word = if at == 0 { "if" } else { "elif" };
            expression.push_str(&format!("{word} $v == {} then {value} ", jq::text(key)));
        }
        match cases.is_empty() {
            true => expression.push_str(&default),
            false => expression.push_str(&format!("else {default} end")),
        }
        Ok(vec![Piece::Jq(format!("({expression})"))])
    }
}

#[cfg(test)]
mod tests {
    use super::{Variables, names};
    use crate::nginx::piece;

    #[test]
    fn variables_are_found_in_texts() {
        assert_eq!(names("http://$host${uri}x$1a $"), ["host", "uri", "1"]);
        let field = |text: &str| Variables::default().resolve(text).map(|pieces| piece::field(&pieces));
        assert_eq!(field("$http_x_user").as_deref(), Ok("{$headers[\"x-user\"]}"));
        assert_eq!(field("a $remote_addr b").as_deref(), Ok("a {$client.address // \"\"} b"));
        assert!(field("$pid").is_err());
    }
}
