//! `convert`: the answer in another format.

mod accept;
mod form;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use http_body::Frame;

use crate::config::problem::{Problems, Span};
use crate::config::spec::{Decode, Definitions, Json, Located, Node, Size};
use crate::error::{Error, Kind};
use crate::format;
use crate::format::csv::CsvRules;
pub use crate::format::csv::Formulas;
use crate::format::list::{List, NextItem, OpenedList, open};
use crate::message::answer::{Answer, of_whole, undescribe};
use crate::message::body::AnswerBody;
use crate::offload;
use crate::pipeline::flow::{Flow, Outcome};
use crate::pipeline::step::{About, Compile, MAX_BODY, ReadyStep, Shape, Spec};
use crate::request::context::Scope;
use crate::spec;
pub use form::Form;
use form::ListWriter;

/// The size of a piece, if much is in memory.
const PIECE: usize = 32 << 10;

/// How far rows are read ahead for their columns: the names come before the first row.
const AHEAD: usize = 64 << 10;

/// The formats that the end-point has, the preferred one first.
#[derive(Clone, Debug)]
pub struct Convert(ConvertSpec);

spec! {
    /// The formats to convert to, and their settings.
    pub struct ConvertSpec {
        /// The format, or a list of formats from which the client's `Accept` chooses.
        pub to: Forms,
        /// The columns of `csv`, in this order; other fields are left out. Default: the fields of the items in the
        /// first 64 KiB of the list. These items are held until then. If a later item has other fields, the answer is
        /// cut off.
        pub columns: Vec<String> = Vec::new(),
        /// How `csv` has texts that a spreadsheet takes for formulas: those that begin with `=`, `+`, `-`, `@`, a tab
        /// or a line break. Write `quote` if people open the answer in a spreadsheet and others choose its texts.
        pub formulas: Located<Formulas> = Located::new(Formulas::Keep, Span::default()),
        /// The most bytes of one item of a list, and of an answer that is read whole.
        pub max_body: Size = MAX_BODY,
    }
}

impl ConvertSpec {
    fn of(to: Forms) -> Self {
        let formulas = Located::new(Formulas::Keep, Span::default());
        ConvertSpec { to, columns: Vec::new(), formulas, max_body: MAX_BODY }
    }
}

impl Convert {
    /// Converts every answer to this format.
    pub fn to(form: Form) -> Self {
        let to = Forms(Located::new(vec![form], Span::default()));
        Convert(ConvertSpec::of(to))
    }

    /// Sets the columns of `csv`.
    pub fn set_columns(&mut self, names: Vec<String>) {
        self.0.columns = names;
    }

    /// Sets how `csv` has formulas.
    pub fn set_formulas(&mut self, formulas: Formulas) {
        self.0.formulas = formulas.into();
    }

    /// Sets the bound of an item.
    pub fn set_max_body(&mut self, bound: Size) {
        self.0.max_body = bound;
    }

    /// Whether its answers are server-sent events, whatever the client accepts.
    fn gives_events(&self) -> bool {
        matches!(self.0.to.0.value.as_slice(), [Form::Sse])
    }
}

/// A format or several.
#[derive(Clone, Debug)]
pub struct Forms(Located<Vec<Form>>);

impl Decode for Forms {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let forms = match node.as_list() {
            Some(_) => Vec::decode(node, problems)?,
            None => vec![Form::decode(node, problems)?],
        };
        if forms.is_empty() {
            return problems.error(
                node.span,
                "`convert` without a format",
                "write `convert: [json, xml]`, the preferred one first",
            );
        }
        Some(Forms(Located::new(forms, node.span)))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let form = Form::schema(definitions);
        serde_json::json!({"anyOf": [form, {"type": "array", "items": form, "minItems": 1}]})
    }
}

impl Decode for Convert {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        if node.as_map().is_some() {
            return ConvertSpec::decode(node, problems).map(Convert);
        }
        let to = Forms::decode(node, problems)?;
        Some(Convert(ConvertSpec::of(to)))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let form = Form::schema(definitions);
        serde_json::json!({
            "anyOf": [form, {"type": "array", "items": form, "minItems": 1}, ConvertSpec::schema(definitions)],
            "description": "Converts the answer to another format. If there is a list of formats, the client's `Accept` chooses \
             one (RFC 9110, 12.5.1), by default the first; a client that accepts none of them gets 406 before any \
             call is made. A list that arrives as JSON, NDJSON, CSV or server-sent events is converted item by \
             item while it arrives; an error in it cuts the answer off. Anything else, and everything that \
             becomes MessagePack, is read whole, within `max_body`. JSON stays as it is, and so does an answer \
             with a status other than 2xx.",
        })
    }
}

impl Spec for Convert {
    fn about(&self) -> About {
        About { needs_items: true, gives_events: self.gives_events(), ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let ConvertSpec { to: Forms(to), columns, formulas, max_body } = self.0;
        let words: Vec<&str> = to.value.iter().map(|form| form.word()).collect();
        let waits = if to.value.iter().any(|form| form.streams()) {
            "a list streams item by item; what is none, or becomes MessagePack, is read whole"
        } else {
            "the answer is read whole: MessagePack says first how many items there are"
        };
        cx.explain(format!("convert to {}", words.join(" or ")), Some(waits), 0);
        if let Some(word) = words.iter().find(|word| !format::is_built(word)) {
            return cx.problems.error(to.span, format::needs(word), "build with it, or leave the format out");
        }
        if !columns.is_empty() && !to.value.contains(&Form::Csv) {
            let remedy = "leave them out, or add `csv`";
            return cx.problems.error(to.span, "there are `columns`, and no `csv`", remedy);
        }
        if formulas.span.line > 0 && !to.value.contains(&Form::Csv) {
            let remedy = "leave it out, or add `csv`";
            return cx.problems.error(formulas.span, "`formulas` is for `csv`", remedy);
        }
        if cx.flow.shape != Shape::One {
            let remedy = "put `merge` or `concatenate` before it";
            return cx.problems.error_here("`convert` takes one answer, but gets several", remedy);
        }
        let rows = CsvRules { columns, formulas: formulas.value };
        let written = ConvertedBody { rows, max_body: max_body.bytes() };
        Some(Arc::new(Converting { forms: to.value, written: Arc::new(written) }))
    }
}

struct Converting {
    forms: Vec<Form>,
    written: Arc<ConvertedBody>,
}

/// How formats are written.
struct ConvertedBody {
    rows: CsvRules,
    max_body: usize,
}

impl ReadyStep for Converting {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let Some((form, media)) = accept::choose(&self.forms, scope.headers()) else {
            let words: Vec<&str> = self.forms.iter().map(|form| form.media()[0]).collect();
            let error = Error::new(Kind::NotAcceptable, format!("available: {}", words.join(", ")));
            return Flow::one(scope.next_producer(), std::future::ready(Some(Err(error.at_step("convert")))));
        };
        let target = ConvertTarget { form, media, negotiated: self.forms.len() > 1 };
        let written = self.written.clone();
        flow.map(move |producer| {
            let written = written.clone();
            producer.then(move |outcome| convert(outcome, target, written))
        })
    }
}

/// The form that an answer gets.
#[derive(Clone, Copy)]
struct ConvertTarget {
    form: Form,
    media: &'static str,
    negotiated: bool,
}

async fn convert(outcome: Outcome, target: ConvertTarget, written: Arc<ConvertedBody>) -> Outcome {
    let answer = match outcome? {
        Ok(answer) if answer.is_usable() => answer,
        other => return Some(other),
    };
    let converted = converted(answer, target, written).await.map_err(|error| error.at_step("convert"));
    Some(converted.map(|mut answer| {
        if target.negotiated {
            answer.headers.append(VARY, HeaderValue::from_static("accept"));
        }
        answer
    }))
}

async fn converted(mut answer: Answer, target: ConvertTarget, written: Arc<ConvertedBody>) -> Result<Answer, Error> {
    if target.form == Form::Json && format::is_json(&answer) {
        return Ok(answer);
    }
    let (names, upstream, accepted) = (answer.names.take(), answer.upstream.clone(), answer.accepted);
    let (status, mut headers) = (answer.status, answer.headers.clone());
    let opened = if target.form.streams() { open(answer, written.max_body).await? } else { OpenedList::Whole(answer) };
    let body = match opened {
        OpenedList::List(list) => pieces(list, target.form, &written).await?,
        OpenedList::Whole(answer) => {
            let data = format::data(answer, written.max_body).await?;
            let weight = data.weight();
            let write = move || {
                let mut out = Vec::new();
                target.form.write(data.clone(), &written.rows, &mut out).map(|()| out)
            };
            AnswerBody::Bytes(offload::run(weight, write).await?.into())
        }
    };
    describe(&mut headers, target);
    Ok(Answer { names, upstream, accepted, ..Answer::new(of_whole(status), headers, body) })
}

fn describe(headers: &mut HeaderMap, target: ConvertTarget) {
    undescribe(headers);
    for name in [CONTENT_ENCODING, CONTENT_DISPOSITION] {
        headers.remove(name);
    }
    let media = match target.form.names_charset() {
        true => HeaderValue::try_from(format!("{}; charset=utf-8", target.media)),
        false => Ok(HeaderValue::from_static(target.media)),
    };
    headers.insert(CONTENT_TYPE, media.expect("a media type is visible letters"));
    if target.form == Form::Sse {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
}

/// A list, converted as it arrives. Its first piece is awaited: what fails until then still has a status.
async fn pieces(list: List, form: Form, written: &ConvertedBody) -> Result<AnswerBody, Error> {
    let mut list = ListConversion { list, writer: ListWriter::new(form, &written.rows), ended: false };
    let Some(first) = list.piece().await? else { return Ok(AnswerBody::empty()) };
    if list.ended {
        return Ok(AnswerBody::Bytes(first));
    }
    let rest = stream::unfold(Some(list), |list| async {
        let mut list = list?;
        match list.piece().await {
            Ok(piece) => piece.map(|piece| (Ok(piece), Some(list))),
            Err(error) => Some((Err(error.at_step("convert")), None)),
        }
    });
    let first = stream::once(std::future::ready(Ok(first)));
    Ok(AnswerBody::Pulled(Box::pin(ConvertedPieces(first.chain(rest).boxed()))))
}

struct ListConversion {
    list: List,
    writer: ListWriter,
    ended: bool,
}

impl ListConversion {
    /// The part that can be sent now; where there is none, the one that can be sent next.
    async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        let mut out = Vec::new();
        if self.writer.looks_ahead() {
            self.look_ahead(&mut out).await?;
        }
        while !self.ended && out.len() < PIECE {
            match self.list.at_hand()? {
                NextItem::Item(item) => self.write(item, &mut out).await?,
                NextItem::Wait if out.is_empty() => {
                    if let Some(last) = self.list.pull().await? {
                        self.write(last, &mut out).await?;
                    }
                }
                NextItem::Wait => break,
                NextItem::End => {
                    self.ended = true;
                    self.writer.finish(&mut out)?;
                }
            }
        }
        Ok(Some(Bytes::from(out)).filter(|out| !out.is_empty()))
    }
}

impl ListConversion {
    async fn write(&mut self, item: Bytes, out: &mut Vec<u8>) -> Result<(), Error> {
        if item.len() <= offload::SMALL {
            return self.writer.write(&item, out);
        }
        let (weight, writer) = (item.len(), self.writer.clone());
        let write = move || {
            let (mut writer, mut text) = (writer.clone(), Vec::new());
            writer.write(&item, &mut text).map(|()| (writer, text))
        };
        let (writer, text) = offload::run(weight, write).await?;
        self.writer = writer;
        out.extend_from_slice(&text);
        Ok(())
    }

    /// Takes the items of which the columns are made.
    async fn look_ahead(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let (mut items, mut length) = (Vec::new(), 0);
        while length < AHEAD
            && let Some(item) = self.list.item().await?
        {
            length += item.len();
            items.push(item);
        }
        let (weight, writer) = (length, self.writer.clone());
        let write = move || {
            let (mut writer, mut text) = (writer.clone(), Vec::new());
            writer.write_first(&items, &mut text).map(|()| (writer, text))
        };
        let (writer, text) = offload::run(weight, write).await?;
        self.writer = writer;
        out.extend_from_slice(&text);
        Ok(())
    }
}

/// Pieces as a body.
struct ConvertedPieces(BoxStream<'static, Result<Bytes, Error>>);

impl http_body::Body for ConvertedPieces {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.0.poll_next_unpin(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
