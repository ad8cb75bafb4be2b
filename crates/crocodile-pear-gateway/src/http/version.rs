//! An API in several versions: which one a request asks for, and what its answers say of it.

mod adapt;
mod choose;
mod date;
mod media;

pub use adapt::{Adapting, VersionChange};
pub use choose::{Chooser, Named, Selector, VersionChoice, fold, without};
pub use date::Date;
pub use media::MediaType;

use std::sync::Arc;

use crocodile_pear::unstable::jq::{self, Value};
use crocodile_pear::unstable::request::context::Scope;
use http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A version, ready.
pub struct ApiVersion {
    pub name: Arc<str>,
    /// The same for expressions, as `$version`.
    pub value: Value,
    /// When it was, or will be, deprecated.
    pub deprecated: Option<Date>,
    /// When it ends.
    pub sunset: Option<Date>,
    /// A page about it.
    pub documentation: Option<HeaderValue>,
}

impl ApiVersion {
    /// A version of this name, of which nothing else is said.
    pub fn new(name: &str) -> Self {
        ApiVersion { name: name.into(), value: jq::string(name), deprecated: None, sunset: None, documentation: None }
    }

    /// "v1, deprecated 2026-06-01, ends 2027-06-01"
    pub fn outline(&self) -> String {
        let date =
            |what: &str, date: &Option<Date>| date.as_ref().map(|date| format!(", {what} {date}")).unwrap_or_default();
        format!("{}{}{}", self.name, date("deprecated", &self.deprecated), date("ends", &self.sunset))
    }
}

/// An endpoint in one of the versions of its API.
pub struct Versioned {
    pub group: Arc<str>,
    pub version: Arc<ApiVersion>,
    pub chooser: Arc<Chooser>,
    /// Which one it is, counted from the newest on.
    pub index: usize,
    /// Whether this path names it; otherwise the rest of the request does.
    pub by_path: bool,
    /// Where the same thing is in the next version; nothing, where it is not.
    pub successor: Option<Successor>,
}

impl Versioned {
    /// The version above it.
    pub fn newer(&self) -> Option<Arc<str>> {
        self.chooser.names.get(self.index.checked_sub(1)?).cloned()
    }
}

/// Where the same thing is in another version.
pub enum Successor {
    /// Behind another prefix; instead of so many segments.
    Prefix(usize, String),
    /// At the same path, with this parameter.
    Query(String, Arc<str>),
    /// At the same URL: header fields choose.
    Same,
}

/// All but the unreserved characters (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Successor {
    /// The value of `Link` for a request (RFC 8288; RFC 5829, 3.4).
    pub fn link(&self, scope: &Scope) -> Option<HeaderValue> {
        let path = scope.path()?;
        let target = match self {
            Successor::Prefix(segments, prefix) => {
                let rest = path.match_indices('/').nth(*segments).map_or("", |(at, _)| &path[at..]);
                format!("{prefix}{rest}")
            }
            Successor::Query(name, version) => {
                format!("{path}?{}={version}", utf8_percent_encode(name, RESERVED))
            }
            Successor::Same => path.to_owned(),
        };
        HeaderValue::try_from(format!("<{target}>; rel=\"successor-version\"")).ok()
    }
}
