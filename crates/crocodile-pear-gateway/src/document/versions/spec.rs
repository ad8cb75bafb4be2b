//! The versions of an API, as written.

use crocodile_pear::plan::AnswerChange;
use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Decode, Definitions, Entries, Expression, Json, Located, Node, only};
use crocodile_pear::step::Compile;
use http::Method;

use super::by::BySpec;
use crate::document::endpoint::EndpointSpec;
use crate::version::{Change, Date};

spec! {
    /// The versions of the endpoints of a group. Those that are written in the group are the newest; an older version says
    /// what differs from the one above it, and has all else in common with it.
    pub struct VersionsSpec {
        /// Where a request names its version: `path` (`/v2/orders`), or one of `{ path: '/api/{version}' }`,
        /// `{ header: api-version }`, `{ query: version }` and `{ media_type: application/vnd.shop }`
        /// (`application/vnd.shop.v2+json`, or `application/json;version=2`), or a list of several. A request that
        /// names two versions is refused with 400.
        pub by: BySpec,
        /// The name of the newest version, the one that the group's `endpoints` are. Names have letters, digits, `.`, `-` and
        /// `_`; but in a path, `v2` and `2` are the same.
        pub current: Located<String>,
        /// The version for requests that name none. Unless set, these are refused: with 404 where the path names it, else
        /// with 400.
        pub default: Option<Located<String>>,
        /// The older versions by name, from the newest to the oldest.
        pub older: Entries<OlderSpec> = Entries::new(),
    }
}

spec! {
    /// An older version: what differs from the version above it.
    pub struct OlderSpec {
        /// Since when, or from when on, it is deprecated: `2026-06-01`, or a time as `2026-06-01T12:00:00Z`. Its answers say so in
        /// `Deprecation` (RFC 9745).
        pub deprecated: Option<Located<Date>>,
        /// When it ends. Its answers say so in `Sunset` (RFC 8594); it is served until it is taken out here.
        pub sunset: Option<Located<Date>>,
        /// The URL of a page that tells what to do, in `Link` with `rel="deprecation"`.
        pub documentation: Option<Located<String>>,
        /// The endpoints that differ, as they are named in the group: an endpoint of its own, `request` and `answer` around that
        /// of the newer version, or `off` for one that this version has not. All others are the same.
        pub endpoints: Entries<Differing> = Entries::new(),
    }
}

spec! {
    /// The endpoint of the newer version, with other requests or answers. Its layers are the same.
    pub struct AdaptSpec {
        /// What the newer version is asked, of what clients of this one ask. Written short as an expression that gives the
        /// body.
        pub request: Option<RequestAdapt>,
        /// An expression that gives the answer's body of that of the newer version, `.`. Answers with another status than 2xx
        /// pass as they are. Answers are read whole, within `max_body`.
        pub answer: Option<AnswerChange>,
    }
}

spec! {
    /// What the newer version is asked.
    pub struct RequestAdapt {
        /// An expression that gives the body; `.` is the body of this version's clients, read by its content type within the
        /// `max_body` of the endpoint. What it gives is sent as JSON.
        pub body: Option<Expression>,
        /// An expression that gives the query as an object; `.` is the query of this version's clients, as `$query`. A list
        /// is a parameter that comes several times, null one that is left out.
        pub query: Option<Expression>,
    }
    short(body)
}

impl RequestAdapt {
    /// Makes it ready for an endpoint with this method.
    pub fn compile(&self, method: Option<&Method>, cx: &mut Compile<'_>) -> Option<Change> {
        if let (Some(&(Method::GET | Method::HEAD)), Some(body)) = (method, &self.body) {
            let remedy = "write `request: { query: … }`, an expression that gives the query as an object";
            return cx.problems.error(body.0.span, "a request with GET has no body", remedy);
        }
        let mut filter = |written: &Option<Expression>| match written {
            None => Some(None),
            Some(written) => cx.filter(written).map(Some),
        };
        let (body, query) = (filter(&self.body), filter(&self.query));
        Some(Change { body: body?, query: query? })
    }
}

fn body(text: Located<String>, problems: &mut Problems) -> Option<RequestAdapt> {
    only([("body", text)], problems)
}

/// An endpoint as an older version has it.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there are as many as endpoints are written, at start")]
pub enum Differing {
    /// It has none.
    Off,
    /// It is that of the newer version with other requests or answers.
    Adapted(AdaptSpec),
    /// It is another.
    Own(EndpointSpec),
}

impl Decode for Differing {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        if matches!(node.as_plain(), Some("off" | "false")) {
            return Some(Differing::Off);
        }
        let entries = node.as_map().unwrap_or_default();
        let has = |name: &str| entries.iter().find(|(key, _)| key.as_str() == name).map(|(key, _)| key);
        match (has("pipeline"), has("request").or(has("answer"))) {
            (Some(_), Some(key)) => {
                let message = format!("an endpoint of its own has no `{key}`: nothing of the newer version is called");
                problems.error(key.span, message, format!("leave out `{key}`, or `pipeline`"))
            }
            (None, Some(_)) => AdaptSpec::decode(node, problems).map(Differing::Adapted),
            (None, None) if node.as_map().is_some_and(<[_]>::is_empty) => {
                let remedy = "write `request`, `answer`, an endpoint of its own, or `off`";
                problems.error(node.span, "nothing differs here", remedy)
            }
            _ => EndpointSpec::decode(node, problems).map(Differing::Own),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let ways = [AdaptSpec::schema(definitions), EndpointSpec::schema(definitions)];
        let [adapted, own] = ways;
        serde_json::json!({ "anyOf": [{ "const": "off" }, adapted, own] })
    }
}
