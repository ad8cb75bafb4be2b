//! How steps treat the status of an answer.

use std::ops::ControlFlow;

use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};

use super::compile::Compile;
use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, Json, Literal, Located, Node};
use crate::error::{Error, Kind};
use crate::format;
use crate::jq::{self, Data, Value};
use crate::json::value::as_object;
use crate::message::answer::Answer;
use crate::request::fetch_memo::FetchedDocument;

/// The most bytes of an upstream's problem document that are read for its reason.
const PROBLEM: usize = 16 << 10;

/// The most characters of an upstream's reason that clients see.
const REASON: usize = 300;

/// The header fields that a status is not whole without (RFC 9110, 10.2.3 and 11.6.1).
const FIELDS: [HeaderName; 2] = [RETRY_AFTER, WWW_AUTHENTICATE];

/// The treatment of an answer, by its status.
#[derive(Clone, Debug)]
pub struct OnStatus(Vec<(StatusPattern, StatusForm)>);

/// The statuses that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusPattern {
    One(u16),
    /// All that begin with this digit.
    Class(u16),
}

#[derive(Clone, Debug)]
enum StatusForm {
    Fail,
    Pass,
    Instead(Located<Literal>),
}

impl Decode for OnStatus {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let rules = node.expect_map("a map of statuses, as in `{ 404: null, 5xx: fail }`", problems)?;
        if rules.is_empty() {
            let remedy = "write `404: null`, or leave it out";
            return problems.error(node.span, "`on_status` without a status", remedy);
        }
        let read: Vec<Option<_>> = rules.iter().map(|(key, node)| rule(key, node, problems)).collect();
        read.into_iter().collect::<Option<_>>().map(OnStatus)
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({
            "type": "object",
            "minProperties": 1,
            "propertyNames": { "pattern": "^[2-5]([0-9][0-9]|xx)$" },
            "additionalProperties": {},
        })
    }
}

fn rule(key: &Located<String>, node: &Node, problems: &mut Problems) -> Option<(StatusPattern, StatusForm)> {
    let Some(pattern) = pattern(key.as_str()) else {
        let remedy = "write a status from 200 to 599, or a class of them: `4xx`";
        return problems.error(key.span, format!("`{key}` is not the status of an answer"), remedy);
    };
    let written = match node.as_text().as_ref().map(Located::as_str) {
        Some("fail") => StatusForm::Fail,
        Some("pass") => StatusForm::Pass,
        _ => StatusForm::Instead(Located::decode(node, problems)?),
    };
    Some((pattern, written))
}

fn pattern(text: &str) -> Option<StatusPattern> {
    let class = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX"));
    let digits = class.unwrap_or(text);
    let number: u16 = digits.parse().ok().filter(|_| text.len() == 3 && !digits.starts_with('+'))?;
    match class {
        Some(_) => (2..=5).contains(&number).then_some(StatusPattern::Class(number)),
        None => (200..=599).contains(&number).then_some(StatusPattern::One(number)),
    }
}

/// The same, ready. Few rules, so a list: those for one status first.
#[derive(Default)]
pub struct StatusRules(Vec<(StatusPattern, StatusDecision)>);

enum StatusDecision {
    Fail,
    Pass,
    Instead(Data),
}

impl OnStatus {
    pub fn compile(self, cx: &mut Compile<'_>) -> Option<StatusRules> {
        let ready = self.0.into_iter().map(|(pattern, written)| {
            let decision = match written {
                StatusForm::Fail => StatusDecision::Fail,
                StatusForm::Pass => StatusDecision::Pass,
                StatusForm::Instead(value) => StatusDecision::Instead(Data::Json(cx.literal(Some(&value))??)),
            };
            Some((pattern, decision))
        });
        let mut rules = ready.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>()?;
        rules.sort_by_key(|(pattern, _)| matches!(pattern, StatusPattern::Class(_)));
        Some(StatusRules(rules))
    }
}

impl StatusRules {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies the rules to an answer: it continues, or a rule gives another result.
    pub async fn judge(&self, mut answer: Answer) -> ControlFlow<Result<Answer, Error>, Answer> {
        match self.find(answer.status) {
            None => {}
            Some(StatusDecision::Pass) => answer.accepted = true,
            Some(StatusDecision::Instead(value)) => return ControlFlow::Break(Ok(Answer::of_value(value.clone()))),
            Some(StatusDecision::Fail) => return ControlFlow::Break(Err(refuse(answer).await)),
        }
        ControlFlow::Continue(answer)
    }

    /// The same for a document that has been read. Without a rule, the result is the document itself, or why it
    /// cannot be used.
    pub fn rule(&self, document: &FetchedDocument) -> ControlFlow<Result<Data, Error>, Result<Data, Error>> {
        let refuse = || failure(document.status, &document.headers, &document.data);
        match self.find(document.status) {
            None if !document.status.is_success() => ControlFlow::Continue(Err(refuse())),
            None | Some(StatusDecision::Pass) => ControlFlow::Continue(Ok(document.data.clone())),
            Some(StatusDecision::Instead(value)) => ControlFlow::Break(Ok(value.clone())),
            Some(StatusDecision::Fail) => ControlFlow::Break(Err(refuse())),
        }
    }

    pub fn knows(&self, status: StatusCode) -> bool {
        self.find(status).is_some()
    }

    /// Whether steps use an answer of this status as it is.
    pub fn uses(&self, status: StatusCode) -> bool {
        match self.find(status) {
            None => status.is_success(),
            Some(decision) => matches!(decision, StatusDecision::Pass),
        }
    }

    fn find(&self, status: StatusCode) -> Option<&StatusDecision> {
        let fits = |pattern: &StatusPattern| match pattern {
            StatusPattern::One(number) => status.as_u16() == *number,
            StatusPattern::Class(digit) => status.as_u16() / 100 == *digit,
        };
        self.0.iter().find(|(pattern, _)| fits(pattern)).map(|(_, decision)| decision)
    }
}

/// Makes a failure of an answer that a step cannot use. If the client is at fault, it has the reason from the
/// upstream's problem document (RFC 9457).
pub fn refuse(answer: Answer) -> BoxFuture<'static, Error> {
    // Boxed: few answers come here, all would carry the room.
    Box::pin(async move {
        let (status, headers, upstream) = (answer.status, answer.headers.clone(), answer.upstream.clone());
        let problem = match is_told(status) && is_problem(&headers) {
            true => format::data(answer, PROBLEM).await.unwrap_or_else(|_| jq::null().into()),
            false => jq::null().into(),
        };
        let error = failure(status, &headers, &problem);
        upstream.iter().fold(error, Error::of_upstream)
    })
}

/// The same for an answer whose body has been read.
pub fn failure(status: StatusCode, headers: &HeaderMap, body: &Data) -> Error {
    let answered = answered(status);
    if !is_told(status) {
        return Error::of_status(status, answered);
    }
    let short = |body: &&Data| is_problem(headers) && body.weight() <= PROBLEM;
    let reason = Some(body).filter(short).and_then(|body| reason(&body.clone().into_value()));
    let detail = reason.map_or(answered.clone(), |reason| format!("{answered}: {reason}"));
    let fields = FIELDS.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
    let mut error = Error::of_status(status, detail);
    fields.for_each(|(name, value)| error.add_field(name.clone(), value.clone()));
    error
}

fn is_told(status: StatusCode) -> bool {
    matches!(Kind::of_status(status), Kind::Refused(_))
}

fn is_problem(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).map(|value| value.as_bytes().to_ascii_lowercase());
    media.is_some_and(|media| media.starts_with(b"application/problem+json"))
}

fn answered(status: StatusCode) -> String {
    let name = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let more = match status.as_u16() {
        304 => ", to a condition that the call sent",
        300..=399 => "; redirects are not followed",
        _ => "",
    };
    format!("the upstream answered {}{name}{more}", status.as_u16())
}

/// The message of a problem document: its detail or its title, on one line and shortened.
fn reason(problem: &Value) -> Option<String> {
    let fields = as_object(problem)?;
    let text =
        |name: &str| fields.get(&jq::string(name)).and_then(jq::as_str).map(str::trim).filter(|text| !text.is_empty());
    let text = text("detail").or_else(|| text("title"))?;
    let mut reason: String = text.chars().take(REASON).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if reason.len() < text.len() {
        reason.push('…');
    }
    Some(reason)
}

#[cfg(test)]
mod tests {
    use super::super::status::*;
    use crate::message::body::AnswerBody;
    use http::HeaderValue;

    fn problem(status: u16, body: &str) -> Answer {
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/problem+json; charset=utf-8")),
            (RETRY_AFTER, HeaderValue::from_static("7")),
        ]);
        Answer::new(StatusCode::from_u16(status).expect("a status"), headers, AnswerBody::Bytes(body.to_owned().into()))
    }

    async fn told(status: u16, body: &str) -> (u16, String, usize) {
        let error = refuse(problem(status, body)).await;
        (error.status().as_u16(), error.detail().to_owned(), error.fields().len())
    }

    #[tokio::test]
    async fn a_refusal_has_the_reason_of_the_upstream() {
        let said = |status, detail: &str, fields| (status, format!("the upstream answered {detail}"), fields);
        assert_eq!(told(404, r#"{"detail": "no\nsuch user"}"#).await, said(404, "404 Not Found: no such user", 1));
        assert_eq!(
            told(429, r#"{"title": "slow down", "detail": " "}"#).await.1,
            said(0, "429 Too Many Requests: slow down", 0).1
        );
        assert_eq!(told(422, "{").await, said(422, "422 Unprocessable Entity", 1));
        assert_eq!(told(499, "[]").await, said(499, "499", 1));
        assert_eq!(told(405, r#"{"detail": "x"}"#).await, said(502, "405 Method Not Allowed", 0));
        assert_eq!(told(503, r#"{"detail": "secret"}"#).await, said(502, "503 Service Unavailable", 0));
        assert_eq!(told(302, "").await, said(502, "302 Found; redirects are not followed", 0));
        let (_, long, _) = told(400, &format!(r#"{{"detail": "{}"}}"#, "å".repeat(1000))).await;
        assert!(long.ends_with("å…") && long.chars().count() < 350);
    }

    #[test]
    fn a_rule_is_for_a_status_or_a_class() {
        assert_eq!(
            (pattern("404"), pattern("4xx"), pattern("5XX")),
            (Some(StatusPattern::One(404)), Some(StatusPattern::Class(4)), Some(StatusPattern::Class(5)))
        );
        for wrong in ["", "xx", "40x", "199", "600", "1xx", "6xx", "+xx", "default", "+40", "0404"] {
            assert_eq!(pattern(wrong), None, "{wrong}");
        }
    }
}
