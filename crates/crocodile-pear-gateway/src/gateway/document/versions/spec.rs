//! The versions of an API, as written.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Entries, ExpressionSpec, Json, Located, Node, only};
use crocodile_pear::unstable::pipeline::plan::AnswerChange;
use crocodile_pear::unstable::pipeline::step::Compile;
use crocodile_pear::unstable::spec;
use http::Method;

use super::by::BySpec;
use crate::gateway::document::endpoint::EndpointSpec;
use crate::http::version::{Date, VersionChange};

spec! {
    /// The versions of the endpoints of a group. The endpoints written in the group are the newest version. An older
    /// version lists only what differs from the next newer one, the one above it.
    pub struct VersionsSpec {
        /// Where a request names its version: `path` (`/v2/orders`), or one of `{ path: '/api/{version}' }`, `{
        /// header: api-version }`, `{ query: version }` and `{ media_type: application/vnd.shop }`
        /// (`application/vnd.shop.v2+json`, or `application/json;version=2`), or a list of several. A request that
        /// names two different versions gets 400.
        pub by: BySpec,
        /// The name of the newest version: that of the group's `endpoints`. Names consist of letters, digits, `.`,
        /// `-` and `_`. In a path, `v2` and `2` are the same.
        pub current: Located<String>,
        /// The version for requests that name none. By default such a request gets 404 if the version belongs in the
        /// path, otherwise 400.
        pub default: Option<Located<String>>,
        /// The older versions by name, from the newest to the oldest.
        pub older: Entries<OlderSpec> = Entries::new(),
    }
}

spec! {
    /// An older version: what differs from the version above it.
    pub struct OlderSpec {
        /// The date from which it is deprecated, in the past or in the future: `2026-06-01`, or a time such as
        /// `2026-06-01T12:00:00Z`. Its answers have it in `Deprecation` (RFC 9745).
        pub deprecated: Option<Located<Date>>,
        /// The date when it ends. Its answers have it in `Sunset` (RFC 8594). The gateway serves the version until
        /// you remove it here.
        pub sunset: Option<Located<Date>>,
        /// The URL of a page for developers who still use it. Its answers have it in `Link` with `rel="deprecation"`.
        pub documentation: Option<Located<String>>,
        /// The endpoints that differ, with the same names as in the group: an endpoint of its own, `request` and
        /// `answer` to convert to and from the newer version, or `off` if this version does not have it. All other
        /// endpoints are the same.
        pub endpoints: Entries<Differing> = Entries::new(),
    }
}

spec! {
    /// The endpoint of the newer version, with converted requests or answers. Its settings are the same.
    pub struct AdaptSpec {
        /// Converts the client's request to the newer version. Short form: an expression that gives the body.
        pub request: Option<RequestAdapt>,
        /// An expression that converts the body of the newer version's answer, `.`. Answers with another status than
        /// 2xx pass unchanged. The answer is read whole, within `max_body`.
        pub answer: Option<AnswerChange>,
    }
}

spec! {
    /// Converts the client's request to the newer version.
    pub struct RequestAdapt {
        /// An expression that gives the body for the newer version. `.` is the client's body, read by its content
        /// type within the `max_body` of the endpoint. The result is sent as JSON.
        pub body: Option<ExpressionSpec>,
        /// An expression that gives the query as an object. `.` is the client's query, as in `$query`. A list becomes
        /// a parameter that is repeated; null leaves the parameter out.
        pub query: Option<ExpressionSpec>,
    }
    short(body)
}

impl RequestAdapt {
    /// Makes it ready for an endpoint with this method.
    pub fn compile(&self, method: Option<&Method>, cx: &mut Compile<'_>) -> Option<VersionChange> {
        if let (Some(&(Method::GET | Method::HEAD)), Some(body)) = (method, &self.body) {
            let remedy = "write `request: { query: … }`, an expression that gives the query as an object";
            return cx.problems.error(body.0.span, "a request with GET has no body", remedy);
        }
        let mut filter = |written: &Option<ExpressionSpec>| match written {
            None => Some(None),
            Some(written) => cx.filter(written).map(Some),
        };
        let (body, query) = (filter(&self.body), filter(&self.query));
        Some(VersionChange { body: body?, query: query? })
    }
}

fn body(text: Located<String>, problems: &mut Problems) -> Option<RequestAdapt> {
    only([("body", text)], problems)
}

/// An endpoint as an older version has it.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there are as many as endpoints are written, at start")]
pub enum Differing {
    /// The version does not have the endpoint.
    Off,
    /// The endpoint is that of the newer version with other requests or answers.
    Adapted(AdaptSpec),
    /// The version has an endpoint of its own.
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
