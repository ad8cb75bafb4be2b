//! The step `request`, and `batch` in it, as they are written.

use std::num::NonZeroUsize;

use super::detach::DetachSpec;
use crate::config::problem::{Problems, Span};
use crate::config::spec::{Entries, ExpressionSpec, Literal, Located, Size, only};
use crate::format;
use crate::pipeline::step::status::OnStatus;
use crate::pipeline::step::{Compile, MAX_BODY};
use crate::spec;
use crate::upstream::{RewriteSpec, TimeoutSpec};

spec! {
    /// Calls an upstream: once, once for each item that flows in, or once for each value of `for_each`. Short form:
    /// `UPSTREAM /path`. An answer that flows in with a status other than 2xx passes unchanged, without a call.
    pub struct Request {
        /// The name of the upstream.
        pub to: Located<String>,
        /// Path and query. `{word}` is a parameter of the endpoint's path, `{*word}` the rest of that path as it came.
        /// Any other `{…}` is an expression; its value is percent-encoded as one segment or one query value. `{*…}`
        /// inserts several segments. `?*` at the end sends the client's query as it came. A query parameter whose value
        /// is null or empty is left out, with its name.
        pub path: Located<String>,
        /// The method; `client` for the client's own. By default, the first step of a pipeline uses the client's method
        /// and streams the client's body, if it makes one call. A call with `body: client` uses the client's method,
        /// too. All other calls use GET, or POST if they have a `body`.
        pub method: Option<Located<String>>,
        /// Header fields to send; each value is a text with `{}`, as in `path`. They replace forwarded fields of the
        /// same name. A field whose value is null or empty is left out.
        pub headers: Option<Entries<Located<String>>>,
        /// An expression. Its value is sent in the format of the call's `content-type` in `headers`: JSON by default; a text
        /// as it is; an object as a form (`application/x-www-form-urlencoded`), as XML, or as the parts of
        /// `multipart/form-data`, where a file is `{filename, content_type, text}` or, with `base64` instead of `text`,
        /// bytes. `$body` alone sends a body whose type is not read (an image, an archive, a multipart form) as it came, with its
        /// `content-type`, unless another one is written. `client` sends the client's body: the first step streams it
        /// if it makes one call. Every other call sends a copy, which is sent again with each retry; for that the gateway
        /// reads the client's body whole, within `max_body` of the endpoint.
        pub body: Option<ExpressionSpec>,
        /// An expression that gives values. One call is made for each of them; in `path`, `headers` and `body`, `.` is
        /// the value. All calls start at once, unless `concurrency` is set. In `requests`, `$name` is the list of their
        /// answers, in the order of the values; if one of the calls fails, all of them fail.
        pub for_each: Option<ExpressionSpec>,
        /// The maximum number of calls for `for_each`. More values are an error.
        pub limit: Located<u64> = Located::new(100, Default::default()),
        /// With `for_each`: the maximum number of calls at the same time. Further calls wait. No limit by default.
        pub concurrency: Option<Located<NonZeroUsize>>,
        /// With `for_each`: requests several values in one call.
        pub batch: Option<Batch>,
        /// A condition. If it is false or null, the call is not made; the result is `otherwise`, or null.
        pub when: Option<ExpressionSpec>,
        /// How long the call may take: one time for the whole call, or a time for each phase.
        pub timeout: Option<TimeoutSpec>,
        /// The value to use if the call fails, or if the answer has a status other than 2xx. For this, the gateway
        /// reads the whole body, within `max_body`, before it goes on.
        pub otherwise: Option<Located<Literal>>,
        /// The action by the status of the answer, or by its class: `{ 404: null, 409: pass, 5xx: fail }`. `pass` uses
        /// the answer as if its status were 2xx. `fail` makes the call fail, also if it has `otherwise`. Any other
        /// value is used instead of the answer.
        pub on_status: Option<OnStatus>,
        /// The resource that is read after a write. With `created`, an answer with 201 or 303 and a `location` is followed to
        /// what was created: that is the body. The status stays 201, and the `location` is the one that the resource has on
        /// the gateway; a 303 becomes 200, with the address as `content-location`. If the address leads to no configured
        /// upstream, or cannot be read, the client gets the answer to the write as it is: the write is done.
        pub read: Option<Located<ReadBack>>,
        /// The format of the answer, whatever its `content-type` says: `xml` for XML that is labelled as a web page. With `json`, a
        /// line that stands before the document so that browsers cannot run it (`)]}',`) is left out.
        #[name = "as"]
        pub read_as: Option<ReadAs>,
        /// Overrides `rewrite` of the upstream for this call. Only for the first step, if its answer is passed
        /// through to the client.
        pub rewrite: Option<Located<RewriteSpec>>,
        /// The most bytes of a body that are read for `otherwise` or for an expression.
        pub max_body: Located<Size> = Located::new(MAX_BODY, Default::default()),
        /// Whether the call goes on without the client: a webhook, a compensation. Items pass such a call unchanged.
        pub detach: Option<DetachSpec>,
    }
    short(short)
}

crate::choice! {
    /// The resource that is read after a write.
    pub enum ReadBack {
        /// The one that the answer says was created.
        Created = "created",
    }
}

crate::choice! {
    /// The format of an answer.
    pub enum ReadAs {
        /// JSON.
        Json = "json",
        /// A JSON document on each line.
        Ndjson = "ndjson",
        /// A sequence of JSON documents (RFC 7464).
        JsonSeq = "json-seq",
        /// XML.
        Xml = "xml",
        /// CSV.
        Csv = "csv",
        /// YAML.
        Yaml = "yaml",
        /// iCalendar.
        Icalendar = "icalendar",
        /// Server-sent events.
        Sse = "sse",
        /// Text.
        Text = "text",
    }
}

impl ReadAs {
    /// The content type that says so.
    pub(crate) fn media(self) -> &'static str {
        match self {
            ReadAs::Json => "application/json",
            ReadAs::Ndjson => "application/x-ndjson",
            ReadAs::JsonSeq => "application/json-seq",
            ReadAs::Xml => "application/xml",
            ReadAs::Csv => "text/csv",
            ReadAs::Yaml => "application/yaml",
            ReadAs::Icalendar => "text/calendar",
            ReadAs::Sse => "text/event-stream",
            ReadAs::Text => "text/plain",
        }
    }
}

/// Whether an expression is `$body`, and nothing else.
pub(crate) fn is_body(expression: &ExpressionSpec) -> bool {
    expression.1.is_none() && expression.0.value.trim() == "$body"
}

/// The word for the client's own method or body.
pub(super) const CLIENT: &str = "client";

impl Request {
    /// Whether it sends the client's body because that is written.
    pub(crate) fn sends_clients(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.1.is_none() && body.0.value.trim() == CLIENT)
    }

    /// Whether it sends `$body` itself, so that a body that is no value can go as it came: unless the type that is written is made
    /// of a value.
    pub(super) fn sends_body_alone(&self) -> bool {
        let alone = self.body.as_ref().is_some_and(is_body);
        let types = self.headers.iter().flatten().filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let made = |text: &Located<String>| !text.value.contains('{') && format::is_made(text.value.as_bytes());
        alone && !types.into_iter().any(|(_, (_, text))| made(text) && !format::is_parts(text.value.as_bytes()))
    }

    /// ", POST", or how else a call with this method and body differs from a GET; for `explain`.
    pub(crate) fn manner(&self) -> String {
        let method = match self.method.as_ref().map(Located::as_str) {
            Some(CLIENT) => ", with the client's method".to_owned(),
            None if self.sends_clients() => ", with the client's method".to_owned(),
            None if self.body.is_some() => ", POST".to_owned(),
            None | Some("GET") => String::new(),
            Some(method) => format!(", {method}"),
        };
        let body = if self.sends_clients() { ", with the client's body" } else { "" };
        method + body
    }

    /// Whether what it creates is read, in a step behind it. Where its answer is not the item, the word cannot stand.
    pub(crate) fn reads_back(&self) -> bool {
        self.read.is_some() && self.detach.is_none() && self.batch.is_none() && self.otherwise.is_none()
    }

    /// Reads the short form, `UPSTREAM /path`.
    pub fn short(text: Located<String>, problems: &mut Problems) -> Option<Self> {
        short(text, problems)
    }
}

/// `UPSTREAM /path`
fn short(text: Located<String>, problems: &mut Problems) -> Option<Request> {
    let Some((to, path)) = text.value.split_once(char::is_whitespace) else {
        let remedy = match text.value.contains("://") {
            true => "write an upstream's name and a path here, and its URL under `upstreams`",
            false => "write the upstream's name, a space, and a path that begins with `/`",
        };
        return problems.error(text.span, "a call in short form is `UPSTREAM /path`", remedy);
    };
    let path_at = text.value.len() - path.trim_start().len();
    let located = |at: usize, value: &str| text.part(at, value.len());
    only([("to", located(0, to)), ("path", located(path_at, path.trim()))], problems)
}

/// Whether a field is written in the file, and not a default.
pub(crate) fn is_written(place: Span) -> bool {
    place.line > 0
}

spec! {
    /// Requests several values in one call, if the API allows it. In `path`, `headers` and `body` of the call, `.` is
    /// then the list of values: `/users?ids={join(",")}`. The result is the same as with one call for each value: one
    /// item for each. A value that occurs twice is requested once. Items for other values are ignored. A value
    /// without an item fails in a `request` (`missing`, 404) and is null in a `follow`. If the call fails, all its
    /// values fail.
    ///
    /// There is no timer. A batch is sent when it is full, when no more values can come, or when no value is waiting
    /// and no other batch of the step is being sent. Values that come in the meantime form the next batch.
    pub struct Batch {
        /// The maximum number of values in one call.
        pub size: NonZeroUsize = SIZE,
        /// Where the items are in the answer. The answer is read whole, within `max_body`.
        pub items: ExpressionSpec = plain(".[]"),
        /// The value that an item belongs to; `.` is the item. It is compared as text: `"7"` equals `7`.
        pub key: ExpressionSpec = plain(".id"),
        /// A query parameter that is repeated for each value, instead of an expression in the path: `repeat: id` gives
        /// `?id=1&id=2`.
        pub repeat: Option<Located<String>>,
        /// `true`: each value gets the list of all its items, which may be empty. `false`: each value gets its first
        /// item.
        pub many: bool = false,
        /// If path and query would be longer, the values are split into several calls.
        pub max_url: Size = Size(4 << 10),
    }
}

/// The default size of a batch, which most APIs with such a call allow.
const SIZE: NonZeroUsize = NonZeroUsize::new(50).expect("more than none");

fn plain(source: &str) -> ExpressionSpec {
    ExpressionSpec::plain(Located::new(source.to_owned(), Span::default()))
}

impl Request {
    /// Whether it reads bodies whole, whatever its expressions read.
    pub(crate) fn reads_whole(&self, cx: &Compile<'_>) -> bool {
        let spreads = self.for_each.is_some() && cx.flow.item;
        self.otherwise.is_some() || self.on_status.is_some() || self.batch.is_some() || spreads
    }

    pub(crate) fn check_concurrency(&self, cx: &mut Compile<'_>) -> Option<()> {
        let Some(place) = self.concurrency.as_ref().map(|most| most.span) else { return Some(()) };
        if self.for_each.is_none() {
            let remedy = "leave it out; of calls behind `each`, its `concurrency` says how many run at once";
            return cx.problems.error(place, "`concurrency` without `for_each`", remedy);
        }
        if self.batch.is_some() {
            let remedy = "leave one out; `in_flight` of the upstream bounds its calls as well";
            return cx.problems.error(place, "`concurrency` beside `batch`", remedy);
        }
        Some(())
    }

    /// The path without a `?*` at its end, and whether it had one.
    pub(super) fn target(&self) -> (Located<String>, bool) {
        match self.path.value.strip_suffix("?*") {
            Some(path) => (self.path.part(0, path.len()), true),
            None => (self.path.clone(), false),
        }
    }

    /// ", for each of $query.ids[]"
    pub(crate) fn describe_each(&self) -> String {
        self.for_each.as_ref().map(|expression| format!(", for each of {}", expression.0)).unwrap_or_default()
    }

    pub(crate) fn describe(&self) -> String {
        let each = self.describe_each();
        let batches = self.batch.as_ref().map(Batch::describe).unwrap_or_default();
        let at_once = self.concurrency.as_ref().map(|most| format!(", at most {most} at once")).unwrap_or_default();
        format!("request {} {}{}{each}{batches}{at_once}", self.to, self.path, self.manner())
    }
}

impl Batch {
    /// ", in batches of 50"
    pub(crate) fn describe(&self) -> String {
        format!(", in batches of {}", self.size)
    }

    /// How many calls this number of values needs.
    pub(crate) fn calls(&self, values: u64) -> u64 {
        values.div_ceil(self.size.get() as u64)
    }
}
