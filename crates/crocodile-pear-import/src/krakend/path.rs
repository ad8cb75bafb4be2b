//! Paths: KrakenD's `endpoint` and `url_pattern`, and ours.

use crate::jq;

#[derive(Debug, PartialEq, Eq)]
pub struct EndpointPath {
    /// The path as we write it.
    pub text: String,
    /// The parameters: KrakenD's name, and ours.
    pub parameters: Vec<(String, String)>,
}

/// Reads the path of an endpoint.
///
/// # Errors
/// The part of it that we have no word for.
pub fn route(written: &str) -> Result<EndpointPath, String> {
    let written = format!("/{}", written.strip_prefix('/').unwrap_or(written));
    let mut parameters: Vec<(String, String)> = Vec::new();
    let mut segments = Vec::new();
    let all: Vec<&str> = written[1..].split('/').collect();
    for (at, segment) in all.iter().enumerate() {
        let inner = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        if *segment == "*" && at + 1 == all.len() {
            parameters.push(("*".to_owned(), "rest".to_owned()));
            segments.push("{*rest}".to_owned());
        } else if let Some(name) = inner.filter(|name| is_parameter(name)) {
            if parameters.iter().any(|(known, _)| known == name) {
                return Err(format!("the parameter `{name}` is there twice"));
            }
            let ours = unique(&parameters, name);
            segments.push(format!("{{{ours}}}"));
            parameters.push((name.to_owned(), ours));
        } else if segment.contains(['{', '}', '*']) {
            return Err(format!("the parameter in `{segment}` is only a part of its segment"));
        } else if segment.contains([' ', '?', '#']) {
            return Err(format!("`{segment}` is no segment of a path"));
        } else {
            segments.push((*segment).to_owned());
        }
    }
    Ok(EndpointPath { text: format!("/{}", segments.join("/")), parameters })
}

fn is_parameter(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_')
}

/// A name with letters, digits and `_`, that no other parameter has.
fn unique(parameters: &[(String, String)], name: &str) -> String {
    let mut ours = name.replace('-', "_");
    if ours.starts_with(|letter: char| letter.is_ascii_digit()) {
        ours.insert(0, '_');
    }
    while parameters.iter().any(|(_, known)| *known == ours) {
        ours.push('_');
    }
    ours
}

/// The value of a pair of braces in a `url_pattern`.
#[derive(Debug, PartialEq, Eq)]
pub enum PlaceholderValue<'a> {
    /// A parameter of the endpoint's path, by KrakenD's name.
    Parameter(&'a str),
    Claim(&'a str),
    /// A field of the answer of an earlier call: its number, and the path.
    Earlier(usize, &'a str),
}

/// Replaces the braces of a `url_pattern`, each by what `give` has for it.
///
/// # Errors
/// The errors of `give`.
pub fn target(
    pattern: &str,
    mut give: impl FnMut(PlaceholderValue<'_>) -> Result<String, String>,
) -> Result<String, String> {
    let pattern = format!("/{}", pattern.strip_prefix('/').unwrap_or(pattern));
    let mut text = String::new();
    let mut rest = pattern.as_str();
    while let Some(open) = rest.find('{') {
        text.push_str(&escaped(&rest[..open]));
        let Some(close) = rest[open..].find('}').map(|at| open + at) else {
            text.push_str(&escaped(&rest[open..]));
            return Ok(text);
        };
        text.push_str(&give(value(&rest[open + 1..close]))?);
        rest = &rest[close + 1..];
    }
    text.push_str(&escaped(rest));
    if let Some(before) = text.strip_suffix("/*") {
        return Ok(format!("{before}{}", give(PlaceholderValue::Parameter("*"))?));
    }
    Ok(text)
}

fn value(name: &str) -> PlaceholderValue<'_> {
    if let Some(claim) = name.strip_prefix("JWT.") {
        return PlaceholderValue::Claim(claim);
    }
    let earlier = name.strip_prefix("resp").or_else(|| name.strip_prefix("Resp")).and_then(|rest| rest.split_once('_'));
    match earlier.and_then(|(number, path)| Some((number.parse().ok()?, path))) {
        Some((number, path)) => PlaceholderValue::Earlier(number, path),
        None => PlaceholderValue::Parameter(name),
    }
}

/// Text of a path, with braces that stand for themselves, and without what a URL cannot have.
fn escaped(text: &str) -> String {
    text.replace('{', "%7B").replace('}', "%7D").replace(' ', "%20")
}

/// Adds the query parameters that are passed on.
pub fn with_query(target: &str, names: &[String]) -> String {
    let sign = |target: &str| if target.contains('?') { "&" } else { "?" };
    if names.iter().any(|name| name == "*") {
        return format!("{target}?*");
    }
    let mut target = target.to_owned();
    for name in names {
        let encoded = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string();
        let encoded = encoded.replace("%5F", "_").replace("%2D", "-").replace("%2E", ".");
        target = format!("{target}{}{encoded}={{$query{}}}", sign(&target), jq::field(name));
    }
    target
}

#[cfg(test)]
mod tests {
    use super::{PlaceholderValue, route, target, with_query};

    #[test]
    fn paths_of_endpoints_are_ours() {
        let text = |written: &str| route(written).map(|route| route.text);
        assert_eq!(text("users/{user-id}/x"), Ok("/users/{user_id}/x".to_owned()));
        assert_eq!(text("/a/*"), Ok("/a/{*rest}".to_owned()));
        assert!(text("/a/{b}.json").is_err());
        assert!(text("/{a}/{a}").is_err());
        assert!(text("/a b").is_err());
    }

    #[test]
    fn braces_of_patterns_are_resolved() {
        let give = |value: PlaceholderValue<'_>| {
            Ok(match value {
                PlaceholderValue::Parameter(name) => format!("<{name}>"),
                PlaceholderValue::Claim(name) => format!("<claim {name}>"),
                PlaceholderValue::Earlier(number, path) => format!("<{number} {path}>"),
            })
        };
        let pattern = "a/{b}/{JWT.sub}?c={resp0_d.e}&f=1";
        assert_eq!(target(pattern, give), Ok("/a/<b>/<claim sub>?c=<0 d.e>&f=1".to_owned()));
        assert_eq!(with_query("/a", &["b".to_owned(), "c-d".to_owned()]), "/a?b={$query.b}&c-d={$query[\"c-d\"]}");
        assert_eq!(with_query("/a", &["*".to_owned()]), "/a?*");
    }
}
