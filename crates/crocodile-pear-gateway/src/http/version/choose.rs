//! Which version a request asks for.

use std::sync::Arc;

use crocodile_pear::unstable::request::context::Scope;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::media::{MediaType, liked};

/// Where the version stands in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// In the path: before and behind it stand these.
    Path(String),
    /// In a header field.
    Header(HeaderName),
    /// In a parameter of the query.
    Query(String),
    /// In the media types of `Accept` and `Content-Type`.
    Media(MediaType),
}

/// How requests say which version they are for. The versions are counted from the newest on.
#[derive(Debug)]
pub struct Chooser {
    pub selectors: Vec<Selector>,
    pub names: Vec<Arc<str>>,
    /// For requests that name none.
    pub default: Option<usize>,
}

/// The version that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    Version(usize),
    /// The version does not exist, or is missing where one is needed.
    Refused(StatusCode, &'static str),
}

/// The version in one place of a request.
enum SelectedVersion {
    Nothing,
    Version(usize),
    Unknown(StatusCode, &'static str),
}

/// A version's name as it is compared: `V2`, `v2` and `2` are the same.
pub fn fold(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let number = lower.strip_prefix('v').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    number.map(str::to_owned).unwrap_or(lower)
}

impl Chooser {
    pub fn index(&self, name: &str) -> Option<usize> {
        let wanted = fold(name);
        self.names.iter().position(|known| fold(known) == wanted)
    }

    /// The version that a request names outside of its path.
    pub fn choose(&self, scope: &Scope) -> Named {
        let mut chosen = None;
        for selector in &self.selectors {
            match (self.ask(selector, scope), chosen) {
                (SelectedVersion::Nothing, _) => {}
                (SelectedVersion::Version(index), None) => chosen = Some(index),
                (SelectedVersion::Version(index), Some(other)) if index == other => {}
                (SelectedVersion::Version(_), Some(_)) => {
                    return Named::Refused(StatusCode::BAD_REQUEST, "the request names two versions");
                }
                (SelectedVersion::Unknown(status, detail), _) => return Named::Refused(status, detail),
            }
        }
        match chosen.or(self.default) {
            Some(index) => Named::Version(index),
            None => Named::Refused(StatusCode::BAD_REQUEST, "the request names no version, and there is no default"),
        }
    }

    fn ask(&self, selector: &Selector, scope: &Scope) -> SelectedVersion {
        const UNKNOWN: SelectedVersion = SelectedVersion::Unknown(StatusCode::BAD_REQUEST, "there is no such version");
        let of = |name: &str| self.index(name.trim()).map_or(UNKNOWN, SelectedVersion::Version);
        match selector {
            Selector::Path(_) => SelectedVersion::Nothing,
            Selector::Header(name) => match scope.field(name) {
                None => SelectedVersion::Nothing,
                Some(value) => std::str::from_utf8(value).map_or(UNKNOWN, of),
            },
            Selector::Query(name) => match parameter(scope.query().unwrap_or_default(), name) {
                None => SelectedVersion::Nothing,
                Some(value) => of(&value),
            },
            Selector::Media(media) => match (self.accepted(media, scope), self.sent(media, scope)) {
                (SelectedVersion::Version(one), SelectedVersion::Version(other)) if one != other => {
                    SelectedVersion::Unknown(StatusCode::BAD_REQUEST, "`Accept` and `Content-Type` name two versions")
                }
                (SelectedVersion::Nothing, sent) => sent,
                (accepted, _) => accepted,
            },
        }
    }

    fn accepted(&self, media: &MediaType, scope: &Scope) -> SelectedVersion {
        let accept = accept(scope);
        let (mut unknown, mut other) = (false, false);
        for element in liked(&accept) {
            match media.read(element).map(|spoken| self.index(spoken.version)) {
                Some(Some(index)) => return SelectedVersion::Version(index),
                Some(None) => unknown = true,
                None => other = true,
            }
        }
        match unknown && !other {
            true => SelectedVersion::Unknown(StatusCode::NOT_ACCEPTABLE, "`Accept` names no version that there is"),
            false => SelectedVersion::Nothing,
        }
    }

    fn sent(&self, media: &MediaType, scope: &Scope) -> SelectedVersion {
        let sent = scope.field(&CONTENT_TYPE).and_then(|value| std::str::from_utf8(value).ok());
        match sent.and_then(|sent| media.read(sent)).map(|spoken| self.index(spoken.version)) {
            None => SelectedVersion::Nothing,
            Some(Some(index)) => SelectedVersion::Version(index),
            Some(None) => SelectedVersion::Unknown(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "`Content-Type` names no version that there is",
            ),
        }
    }

    /// The media type that a client asked for this version with, for the answer.
    pub fn content_type(&self, index: usize, scope: &Scope) -> Option<HeaderValue> {
        let accept = accept(scope);
        let media = self.media()?;
        let spoken = liked(&accept).into_iter().filter_map(|element| media.read(element));
        spoken.into_iter().find(|spoken| self.index(spoken.version) == Some(index))?.content_type()
    }

    /// The fields of requests that choose, for `Vary`.
    pub fn vary(&self) -> Option<HeaderValue> {
        let names = self.selectors.iter().filter_map(|selector| match selector {
            Selector::Header(name) => Some(name.as_str()),
            Selector::Media(_) => Some(ACCEPT.as_str()),
            Selector::Path(_) | Selector::Query(_) => None,
        });
        let names: Vec<&str> = names.collect();
        if names.is_empty() { None } else { HeaderValue::try_from(names.join(", ")).ok() }
    }

    /// The path before a version's endpoints, if the path names versions.
    pub fn prefix(&self, name: &str) -> Option<String> {
        self.path().map(|before| format!("{before}{name}"))
    }

    /// The part of a path before the version.
    pub fn path(&self) -> Option<&str> {
        self.selectors.iter().find_map(|selector| match selector {
            Selector::Path(before) => Some(before.as_str()),
            _ => None,
        })
    }

    /// Whether a version is served at paths that do not name it: where the path alone names versions, that is the default.
    pub fn serves_bare(&self, index: usize) -> bool {
        let others = self.selectors.iter().any(|selector| !matches!(selector, Selector::Path(_)));
        others || self.default == Some(index)
    }

    /// The media type that names versions.
    pub fn media(&self) -> Option<&MediaType> {
        self.selectors.iter().find_map(|selector| match selector {
            Selector::Media(media) => Some(media),
            _ => None,
        })
    }

    /// The parameter of the query that names versions.
    pub fn query(&self) -> Option<&str> {
        self.selectors.iter().find_map(|selector| match selector {
            Selector::Query(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Whether a path has a segment like a version where versions stand, and which one is not told.
    pub fn looks_versioned(&self, path: &str) -> bool {
        let Some((_, segment, _)) = self.split(path) else { return false };
        self.names.iter().any(|name| shape(name) == shape(segment))
    }
}

impl Chooser {
    /// Whether a path names a version that there is.
    pub fn names_one(&self, path: &str) -> bool {
        self.split(path).is_some_and(|(_, segment, _)| self.names.iter().any(|name| **name == *segment))
    }

    /// The same path in another version.
    pub fn in_version(&self, path: &str, name: &str) -> Option<String> {
        self.split(path).map(|(before, _, rest)| format!("{before}{name}{rest}"))
    }

    /// A path before, at and behind the version.
    fn split<'p>(&self, path: &'p str) -> Option<(&'p str, &'p str, &'p str)> {
        let (before, rest) = path.split_at_checked(self.path().filter(|before| path.starts_with(before))?.len())?;
        let (segment, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Some((before, segment, rest))
    }
}

/// A name with one 0 for each run of digits: `v10` is like `v2`.
fn shape(name: &str) -> String {
    let mut shape = String::new();
    for letter in name.chars() {
        let letter = if letter.is_ascii_digit() { '0' } else { letter.to_ascii_lowercase() };
        if letter != '0' || !shape.ends_with('0') {
            shape.push(letter);
        }
    }
    shape
}

fn accept(scope: &Scope) -> String {
    if scope.field(&ACCEPT).is_none() {
        return String::new();
    }
    let values = scope.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

/// A parameter of a query, the first of its name.
fn parameter(query: &str, name: &str) -> Option<String> {
    pairs(query).find(|(known, _)| decode(known) == name).map(|(_, value)| decode(value))
}

/// A query without a parameter; nothing, where nothing is left.
pub fn without(query: &str, name: &str) -> Option<String> {
    let left: Vec<&str> =
        query.split('&').filter(|pair| decode(pair.split('=').next().unwrap_or_default()) != name).collect();
    Some(left.join("&")).filter(|left| !left.is_empty())
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// The version of one request, read once.
#[derive(Default)]
pub struct VersionChoice(Option<(Arc<Chooser>, Named)>);

impl VersionChoice {
    /// The version that the request names for this chooser.
    pub fn of(&mut self, chooser: &Arc<Chooser>, scope: &Scope) -> &Named {
        if !self.0.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, chooser)) {
            self.0 = Some((chooser.clone(), chooser.choose(scope)));
        }
        self.0.as_ref().map_or(&Named::Version(0), |(_, named)| named)
    }

    /// The last chooser, and the version that the request named for it.
    pub fn made(&self) -> Option<&(Arc<Chooser>, Named)> {
        self.0.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use crocodile_pear::unstable::message::body::AnswerBody;
    use http::{HeaderMap, Method};

    use super::super::choose::*;

    fn chooser(selectors: Vec<Selector>, default: Option<usize>) -> Chooser {
        Chooser { selectors, names: ["v3", "v2", "v1"].map(Arc::from).to_vec(), default }
    }

    fn scope(target: &'static str, fields: &[(&'static str, &'static str)]) -> Scope {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        Scope::new(Method::GET, target.parse().ok(), headers, AnswerBody::empty())
    }

    fn status(named: &Named) -> u16 {
        match named {
            Named::Version(_) => 200,
            Named::Refused(status, _) => status.as_u16(),
        }
    }

    #[test]
    fn a_header_field_or_a_parameter_names_it() {
        let api = chooser(
            vec![Selector::Header(HeaderName::from_static("api-version")), Selector::Query("v".into())],
            Some(0),
        );
        for (target, fields, wanted) in [
            ("/", vec![], Named::Version(0)),
            ("/", vec![("api-version", " v1")], Named::Version(2)),
            ("/", vec![("api-version", "2")], Named::Version(1)),
            ("/?a=1&v=V1", vec![], Named::Version(2)),
            ("/?%76=1", vec![("api-version", "v1")], Named::Version(2)),
        ] {
            assert_eq!(api.choose(&scope(target, &fields)), wanted, "{target} {fields:?}");
        }
        for (target, fields) in
            [("/?v=4", vec![]), ("/", vec![("api-version", "")]), ("/?v=1", vec![("api-version", "v2")])]
        {
            assert_eq!(status(&api.choose(&scope(target, &fields))), 400, "{target} {fields:?}");
        }
        assert_eq!(status(&chooser(api.selectors, None).choose(&scope("/", &[]))), 400);
    }

    #[test]
    fn media_types_name_it() {
        let shop = MediaType::parse("application/vnd.shop").expect("a media type");
        let api = chooser(vec![Selector::Media(shop)], Some(0));
        let choose = |fields: &[(&'static str, &'static str)]| api.choose(&scope("/", fields));
        assert_eq!(choose(&[("accept", "*/*")]), Named::Version(0));
        assert_eq!(choose(&[("accept", "application/vnd.shop.v1+json, */*;q=0.1")]), Named::Version(2));
        assert_eq!(
            choose(&[("accept", "application/vnd.shop.v1+json;q=0.1, application/json;version=2")]),
            Named::Version(1)
        );
        assert_eq!(choose(&[("accept", "application/vnd.shop.v9+json, */*;q=0.1")]), Named::Version(0));
        assert_eq!(choose(&[("content-type", "application/vnd.shop.v1+json")]), Named::Version(2));
        assert_eq!(choose(&[("content-type", "application/vnd.shop.v1+json"), ("accept", "*/*")]), Named::Version(2));
        assert_eq!(status(&choose(&[("accept", "application/vnd.shop.v9+json")])), 406);
        assert_eq!(status(&choose(&[("content-type", "application/vnd.shop.v9+json")])), 415);
        let two = [("content-type", "application/vnd.shop.v1+json"), ("accept", "application/vnd.shop.v2+json")];
        assert_eq!(status(&choose(&two)), 400);
    }

    #[test]
    fn a_path_may_look_versioned() {
        let api = chooser(vec![Selector::Path("/api/".into())], None);
        assert!(api.looks_versioned("/api/v10/x") && api.looks_versioned("/api/V9"));
        assert!(!api.looks_versioned("/api/vx/x") && !api.looks_versioned("/v9") && !api.looks_versioned("/api/"));
    }

    #[test]
    fn a_parameter_is_taken_out() {
        assert_eq!(without("a=1&%76=2&b", "v").as_deref(), Some("a=1&b"));
        assert_eq!(without("v=2", "v"), None);
    }
}
