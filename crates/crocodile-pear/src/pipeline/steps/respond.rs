//! `respond`: the answer's own status, header fields and body.

use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, SET_COOKIE,
};

use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, Entries, ExpressionSpec, Json, Located, Node, Size, Texts};
use crate::error::{Error, Kind};
use crate::format;
use crate::http::http1::fields::hop_by_hop;
use crate::jq::{self, Data, Filter};
use crate::json;
use crate::json::value::{self, Shape as Kinds};
use crate::message::answer::{Answer, undescribe};
use crate::message::body::AnswerBody;
use crate::message::names::Names;
use crate::offload;
use crate::pipeline::call::is_body;
use crate::pipeline::flow::{Flow, Outcome};
use crate::pipeline::step::view::View;
use crate::pipeline::step::{About, Compile, FaultSource, MAX_BODY, ReadyStep, Shape, Spec, apply, weigh};
use crate::request::context::Scope;
use crate::spec;
use crate::template::{Template, TemplateKind, TemplateSource};

/// The answer to the client.
#[derive(Clone, Debug)]
pub struct Respond(RespondSpec);

spec! {
    /// Sets the status, the header fields and the body of the client's answer. It is the last step, and may be the
    /// only one. What is not set stays: the answer keeps its status, its fields and its body. The body is read only
    /// if an expression uses `.`, then whole, within `max_body`. If it is the only step, the default is status 200
    /// with an empty body. An answer with a status other than 2xx passes unchanged.
    pub struct RespondSpec {
        /// The status: a number, or an expression that gives a number.
        pub status: Option<WrittenStatus>,
        /// Header fields; each value is a text with `{}`, as in the `headers` of a request, or a list of texts. A field
        /// replaces those of the same name; `set-cookie` is added to them. A field whose value is null or empty is left
        /// out.
        pub headers: Option<Entries<Texts>>,
        /// An expression. Its value is sent as JSON. If `content-type` is another type, the value must be a text and
        /// is sent as it is. If the expression gives nothing, the body is empty. `$body` alone gives back a body whose type is
        /// not read (an image, an archive) as it came.
        pub body: Option<ExpressionSpec>,
        /// The most bytes of the body that are read for the expressions.
        pub max_body: Size = MAX_BODY,
    }
}

impl Decode for Respond {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        if node.as_map().is_some_and(<[_]>::is_empty) {
            let remedy = "write `status`, `headers` or `body`, or leave the step out";
            return problems.error(node.span, "`respond` sets nothing", remedy);
        }
        RespondSpec::decode(node, problems).map(Respond)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        RespondSpec::schema(definitions)
    }
}

/// A status as written.
#[derive(Clone, Debug)]
pub enum WrittenStatus {
    /// A number.
    Fixed(Located<u16>),
    /// An expression.
    Jq(ExpressionSpec),
}

impl Decode for WrittenStatus {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let number = node.as_text().and_then(|text| text.value.trim().parse().ok());
        match number {
            Some(number) => Some(WrittenStatus::Fixed(Located::new(number, node.span))),
            None => ExpressionSpec::decode(node, problems).map(WrittenStatus::Jq),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let number = definitions.or_variable(serde_json::json!({"type": "integer", "minimum": 200, "maximum": 599}));
        serde_json::json!({"anyOf": [number, ExpressionSpec::schema(definitions)]})
    }
}

impl Respond {
    /// Whether it gives the answer another body.
    fn replaces(&self) -> bool {
        self.0.body.is_some()
    }

    /// Whether it may look at the answer that flows in.
    fn reads(&self) -> bool {
        let spec = &self.0;
        let texts = spec.headers.iter().flat_map(|headers| headers.values()).flat_map(|(_, texts)| &texts.0);
        self.replaces()
            || matches!(spec.status, Some(WrittenStatus::Jq(_)))
            || texts.into_iter().any(|text| text.value.contains('{'))
    }
}

impl Spec for Respond {
    fn about(&self) -> About {
        let (replaces, hands_on) = (self.replaces(), !self.reads());
        let names = self.0.headers.iter().flat_map(|headers| headers.keys());
        let writes = names.filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok()).collect();
        About { replaces, hands_on, ends: true, writes, ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let spec = self.0;
        let (text, unread) = (spec.describe(), spec.sends_body_alone());
        let status = spec.status.map_or(Some(None), |status| status.compile(cx).map(Some));
        let headers = headers(spec.headers, cx);
        let bodiless = matches!(status, Some(Some(Status::Fixed(status))) if has_no_body(status));
        if let (true, Some(body)) = (bodiless, &spec.body) {
            cx.problems.error::<()>(body.0.span, "an answer with this status has no body", "leave out `body`");
        }
        let body = spec.body.map_or(Some(None), |body| match unread {
            true => cx.filter_without_value(&body).map(Some),
            false => cx.filter(&body).map(Some),
        });
        if cx.flow.shape != Shape::One {
            let remedy = "put `merge` or `concatenate` before it";
            return cx.problems.error_here("`respond` takes one answer, but gets several", remedy);
        }
        let ready = ReadyRespond::new(status?, headers?, body?, spec.max_body.bytes(), cx.flow.first);
        let ready = ReadyRespond { unread, ..ready };
        cx.explain(text, ready.reads.then_some("the answer is read whole, for the expressions"), 0);
        Some(Arc::new(ready))
    }
}

impl RespondSpec {
    /// Whether it sends `$body` itself, so that a body that is no value can go back as it came.
    fn sends_body_alone(&self) -> bool {
        let types = self.headers.iter().flatten().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let made = |text: &Located<String>| text.value.contains('{') || format::is_made(text.value.as_bytes());
        let typed = types.into_iter().any(|(_, (_, texts))| texts.0.iter().any(made));
        self.body.as_ref().is_some_and(is_body) && !typed
    }

    /// "respond 201 with location, and a body"
    fn describe(&self) -> String {
        let status = match &self.status {
            None => String::new(),
            Some(WrittenStatus::Fixed(status)) => format!(" {status}"),
            Some(WrittenStatus::Jq(expression)) => format!(" with the status {}", expression.0),
        };
        let names: Vec<&str> = self.headers.iter().flat_map(|headers| headers.keys()).map(String::as_str).collect();
        let fields = if names.is_empty() { String::new() } else { format!(", {}", names.join(", ")) };
        let body = self.body.as_ref().map(|body| format!(", body {}", body.0)).unwrap_or_default();
        format!("respond{status}{fields}{body}")
    }
}

impl WrittenStatus {
    fn compile(self, cx: &mut Compile<'_>) -> Option<Status> {
        match self {
            WrittenStatus::Jq(expression) => cx.filter(&expression).map(|filter| Status::Jq(Box::new(filter))),
            WrittenStatus::Fixed(number) => match status(number.value) {
                Some(status) => Some(Status::Fixed(status)),
                None => cx.problems.error(
                    number.span,
                    format!("`{number}` is not the status of an answer"),
                    "write one from 200 to 599",
                ),
            },
        }
    }
}

/// The status of a final answer (RFC 9110, 15).
fn status(number: u16) -> Option<StatusCode> {
    StatusCode::from_u16(number).ok().filter(|_| (200..=599).contains(&number))
}

/// Whether an answer with this status has no content (RFC 9110, 15.3.5, 15.3.6 and 15.4.5).
fn has_no_body(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED)
}

type HeaderTemplates = Vec<(HeaderName, Vec<Template>)>;

fn headers(written: Option<Entries<Texts>>, cx: &mut Compile<'_>) -> Option<HeaderTemplates> {
    let fields: Vec<Option<_>> = written
        .into_iter()
        .flatten()
        .map(|(name, (span, texts))| {
            let templates: Vec<_> = texts.0.iter().map(|text| template(text, cx)).collect();
            let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
            let parsed = parsed.filter(|name| !hop_by_hop(name) && *name != CONTENT_LENGTH);
            if parsed.is_none() {
                let remedy =
                    "names are of letters, digits and `-`; framing and hop-by-hop fields are the gateway's own";
                cx.problems.error::<()>(span, format!("`{name}` cannot be set as a header field"), remedy);
            }
            Some((parsed?, templates.into_iter().collect::<Option<Vec<_>>>()?))
        })
        .collect();
    fields.into_iter().collect()
}

fn template(text: &Located<String>, cx: &mut Compile<'_>) -> Option<Template> {
    let template = cx.template(text, TemplateKind::Field)?;
    match HeaderValue::from_str(text.as_str()) {
        Err(_) if template.filters().next().is_none() => cx.problems.error(
            text.span,
            "this text is not allowed in a header field",
            "write visible ASCII, on one line",
        ),
        _ => Some(template),
    }
}

struct ReadyRespond {
    status: Option<Status>,
    headers: HeaderTemplates,
    body: Option<Filter>,
    /// Whether the body is `$body` itself, which may be no value.
    unread: bool,
    /// Whether an expression uses `.`.
    reads: bool,
    /// Whether one does that needs it parsed.
    fault_source: FaultSource,
    max_body: usize,
}

enum Status {
    Fixed(StatusCode),
    Jq(Box<Filter>),
}

impl ReadyStep for ReadyRespond {
    fn begin(self: Arc<Self>, scope: &Arc<Scope>) -> Flow {
        self.run(Flow::one(scope.next_producer(), ready(Some(Ok(blank())))), scope)
    }

    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let scope = scope.clone();
        flow.map(move |producer| {
            let (ready, scope) = (self.clone(), scope.clone());
            producer.then(move |outcome| respond(ready, outcome, scope))
        })
    }
}

fn blank() -> Answer {
    Answer::new(StatusCode::OK, HeaderMap::new(), AnswerBody::empty())
}

async fn respond(ready: Arc<ReadyRespond>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
    match outcome.unwrap_or_else(|| Ok(blank())) {
        Ok(answer) if answer.is_usable() => {
            let answered = ready.clone().answer(answer, scope).await;
            Some(answered.map_err(|error| ready.fault_source.attribute(error).at_step("respond")))
        }
        other => Some(other),
    }
}

impl ReadyRespond {
    fn new(
        status: Option<Status>,
        headers: HeaderTemplates,
        body: Option<Filter>,
        max_body: usize,
        first: bool,
    ) -> Self {
        let status_filter = match &status {
            Some(Status::Jq(filter)) => Some(&**filter),
            _ => None,
        };
        let templates = headers.iter().flat_map(|(_, templates)| templates).flat_map(Template::filters);
        let filters: Vec<&Filter> = templates.chain(status_filter).chain(&body).collect();
        let reads = !first && filters.iter().any(|filter| filter.reads_item());
        let blames: Vec<FaultSource> = filters.iter().map(|filter| FaultSource::from_filter(filter, first)).collect();
        let worst =
            [FaultSource::Upstream, FaultSource::Client].into_iter().find(|fault_source| blames.contains(fault_source));
        let fault_source = worst.unwrap_or(FaultSource::Operator);
        ReadyRespond { fault_source, reads, status, headers, body, unread: false, max_body }
    }

    async fn answer(self: Arc<Self>, answer: Answer, scope: Arc<Scope>) -> Result<Answer, Error> {
        let text = format::Text::from_answer(&answer);
        self.shape(answer, scope).await.map_err(|error| format::explain(text.as_ref(), error))
    }

    async fn shape(self: Arc<Self>, answer: Answer, scope: Arc<Scope>) -> Result<Answer, Error> {
        let (mut answer, item) = match self.reads {
            true => format::peek(answer, self.max_body).await?,
            false => (answer, jq::null().into()),
        };
        let (ready, names) = (self.clone(), answer.names.clone());
        let weight = self.weigh(&item, &names, &scope);
        let unread = scope.unread_body().filter(|_| self.unread).map(|bytes| as_it_came(bytes, &scope));
        let made = offload::run(weight, move || ready.make(&item, &names, &scope)).await?;
        answer.status = made.status.unwrap_or(answer.status);
        if self.body.is_some() {
            answer.headers.remove(CONTENT_ENCODING);
            match self.status {
                None => answer.redescribe(),
                Some(_) => undescribe(&mut answer.headers),
            }
            answer.body = match unread {
                Some((body, described)) => {
                    answer.headers.extend(described);
                    body
                }
                None => body(made.outputs)?,
            };
        }
        self.set_fields(&mut answer.headers, made.fields);
        if self.headers.iter().any(|(name, _)| *name == CONTENT_TYPE) {
            answer.body = typed(answer.body, &answer.headers).await?;
        }
        if has_no_body(answer.status) {
            empty(&mut answer);
        }
        Ok(answer)
    }

    fn weigh(&self, item: &Data, names: &Names, scope: &Scope) -> usize {
        let status = match &self.status {
            Some(Status::Jq(filter)) => Some(&**filter),
            _ => None,
        };
        let templates = self.headers.iter().flat_map(|(_, templates)| templates).flat_map(Template::filters);
        templates.chain(status).chain(&self.body).map(|filter| weigh(filter, item, names, scope)).sum()
    }

    /// The values of the expressions.
    fn make(&self, item: &Data, names: &Names, scope: &Scope) -> Result<RespondValues, Error> {
        let view = View { item, names, scope, fault_source: self.fault_source };
        let status = self.status.as_ref().map(|status| status.evaluate(&view)).transpose()?;
        let outputs = match &self.body {
            Some(filter) => apply(filter, item.clone(), names, scope, self.fault_source)?,
            None => Vec::new(),
        };
        let mut fields = Vec::with_capacity(self.headers.len());
        for (at, (name, templates)) in self.headers.iter().enumerate() {
            for template in templates {
                fields.extend(view.field(name, template)?.map(|value| (at, value)));
            }
        }
        Ok(RespondValues { status, outputs, fields })
    }

    fn set_fields(&self, headers: &mut HeaderMap, fields: Vec<(usize, HeaderValue)>) {
        // Cookies are added: those of an upstream stay.
        for (name, _) in self.headers.iter().filter(|(name, _)| *name != SET_COOKIE) {
            headers.remove(name);
        }
        for (at, value) in fields {
            headers.append(self.headers[at].0.clone(), value);
        }
    }
}

/// The values of the expressions.
struct RespondValues {
    status: Option<StatusCode>,
    outputs: Vec<Data>,
    /// Each with the place of its field.
    fields: Vec<(usize, HeaderValue)>,
}

impl Status {
    fn evaluate(&self, view: &View<'_>) -> Result<StatusCode, Error> {
        let filter = match self {
            Status::Fixed(status) => return Ok(*status),
            Status::Jq(filter) => filter,
        };
        let value = view.evaluate(filter)?.into_value();
        let number = match value::shape(&value) {
            Kinds::Integer(number) => u16::try_from(number).ok(),
            Kinds::Float(number) if number.fract() == 0.0 => Some(number as u16),
            _ => None,
        };
        let wrong = || {
            let found = json::to_bytes(&value).map(|text| String::from_utf8_lossy(&text).chars().take(40).collect());
            let found: String = found.unwrap_or_default();
            Error::new(Kind::Expression, format!("a status is a number from 200 to 599, not {found}"))
        };
        number.and_then(status).ok_or_else(wrong)
    }
}

/// The client's body, with the fields that describe it.
fn as_it_came(bytes: &Bytes, scope: &Scope) -> (AnswerBody, HeaderMap) {
    let field = |name: HeaderName| Some((scope.headers().get(&name)?.clone(), name));
    let fields = [CONTENT_TYPE, CONTENT_ENCODING].into_iter().filter_map(field);
    (AnswerBody::Bytes(bytes.clone()), fields.map(|(value, name)| (name, value)).collect())
}

fn body(mut outputs: Vec<Data>) -> Result<AnswerBody, Error> {
    match outputs.len() {
        0 => Ok(AnswerBody::empty()),
        1 => Ok(outputs.remove(0).into()),
        more => Err(Error::new(
            Kind::Expression,
            format!("the body has {more} values where one is needed; put them in [ ]"),
        )),
    }
}

/// A value in the format of its content type.
async fn typed(body: AnswerBody, headers: &HeaderMap) -> Result<AnswerBody, Error> {
    match body {
        AnswerBody::Value(value) if format::is_json_type(headers) => Ok(AnswerBody::Bytes(json::to_bytes(&value)?)),
        AnswerBody::Value(value) => format::typed::text(&value).map(AnswerBody::Bytes),
        AnswerBody::Json(raw) if format::is_json_type(headers) => Ok(AnswerBody::Bytes(raw.bytes().clone())),
        AnswerBody::Json(raw) => {
            offload::run(raw.bytes().len(), move || format::typed::text(&raw.value())).await.map(AnswerBody::Bytes)
        }
        body => Ok(body),
    }
}

/// Removes the body, and the fields that describe it.
fn empty(answer: &mut Answer) {
    answer.body = AnswerBody::empty();
    let tag = answer.headers.get(ETAG).cloned().filter(|_| answer.status == StatusCode::NOT_MODIFIED);
    undescribe(&mut answer.headers);
    answer.headers.extend(tag.map(|tag| (ETAG, tag)));
}
