//! `plain`: documents of hypermedia as plain JSON.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use http_body::Frame;

use crate::choice;
use crate::config::problem::Problems;
use crate::config::spec::{Located, Size, Texts, only};
use crate::error::Error;
use crate::format;
use crate::format::charset::Recoder;
use crate::hypermedia::plain::{Format, PlainRules, PlainStream, WriteProgress, document};
use crate::json::Data;
use crate::message::answer::Answer;
use crate::message::body::{self, AnswerBody, PulledBody};
use crate::offload;
use crate::pipeline::flow::{Awaited, Flow, Outcome, Producer};
use crate::pipeline::step::{About, Compile, MAX_BODY, ReadyStep, Spec};
use crate::request::context::Scope;
use crate::spec;

/// The size of a piece, if much is in memory.
const PIECE: usize = 32 << 10;

/// The same where each piece takes an index of all that is included.
const LARGE_PIECE: usize = 1 << 20;

/// How much more work a document may take in which one part stands for many.
const SPREAD: usize = 8;

choice! {
    /// A format of hypermedia.
    pub enum PlainFormat {
        /// HAL and HAL-FORMS.
        Hal = "hal",
        /// JSON:API.
        JsonApi = "json_api",
        /// Siren.
        Siren = "siren",
        /// Collection+JSON.
        CollectionJson = "collection_json",
        /// OData, versions 2 to 4.01.
        Odata = "odata",
        /// JSON-LD, and Hydra.
        JsonLd = "json_ld",
        /// Atom and RSS.
        Atom = "atom",
        /// The one that the content type names; if it names none, the one that the document looks like. A document of
        /// none of them stays as it is.
        Auto = "auto",
    }
}

impl PlainFormat {
    fn named(self) -> Option<Format> {
        match self {
            PlainFormat::Hal => Some(Format::Hal),
            PlainFormat::JsonApi => Some(Format::JsonApi),
            PlainFormat::Siren => Some(Format::Siren),
            PlainFormat::CollectionJson => Some(Format::CollectionJson),
            PlainFormat::Odata => Some(Format::Odata),
            PlainFormat::JsonLd => Some(Format::JsonLd),
            PlainFormat::Atom => Some(Format::Atom),
            PlainFormat::Auto => None,
        }
    }

    /// Whether parts of its documents can be told from fields.
    fn has_depth(self) -> bool {
        !matches!(self, PlainFormat::CollectionJson | PlainFormat::Odata | PlainFormat::Atom)
    }
}

spec! {
    /// Makes plain JSON of documents of hypermedia: the fields of each resource, and its related parts nested under their
    /// names. Short form: the format.
    ///
    /// | format | fields | parts |
    /// |---|---|---|
    /// | `hal` | all but `_links`, `_embedded`, `_templates` | `_embedded` |
    /// | `json_api` | `type`, `id`, `attributes` | the resources of `included` that `relationships` name; the `type` and `id` of those that are not included, or that stand within themselves |
    /// | `siren` | `properties` | sub-entities, under the last word of their relation (`customer` of `http://x.io/rels/customer`); several with the same one, and all of `item`, are a list |
    /// | `collection_json` | `data` | none |
    /// | `odata` | all but names with `@`, and those with `__` in versions 2 and 3 | expanded entities |
    /// | `json_ld` | all but names with `@`; `@id` is `id`, `@type` is `type` | nodes; those of `@graph` that others name by `@id` |
    /// | `atom` | the elements of an entry (RSS: of an item), `category` as a list of terms | none |
    ///
    /// A document that is a list becomes a list: `data` of JSON:API, `items`, OData's `value` or `d.results`, `hydra:member`,
    /// `@graph`, the entries of a feed. Its items leave while it arrives, and follow-up steps may take them by
    /// `each: .[]`. HAL and Siren have no lists of their own: the lists in `_embedded`, and the sub-entities with
    /// the relation `item`, leave while they arrive, as lists under their names. What else a list document says of
    /// itself (`meta`, counts, links) is left out.
    ///
    /// Resources of JSON:API that name others are held until the document has ended, within `max_body`; with `depth: 0` they
    /// are not. So is a document that is no list, and a feed. The items of an answer whose parts are resolved take at
    /// most 16 times `max_body`.
    ///
    /// A document that `follow` has put into an item becomes plain as well. If a field and a part have the same name, the
    /// field counts; in HAL the one that comes first. A document of another format fails; null, texts and numbers stay as
    /// they are, and so does an answer with a status other than 2xx.
    pub struct Plain {
        /// The format.
        pub format: PlainFormat,
        /// How many levels of parts are nested; deeper ones are left out, or stay identifiers. Default: all that the document
        /// has in itself, and 3 levels of those that it only names (`included`, `@graph`).
        pub depth: Option<Located<u64>>,
        /// The name under which each object keeps its links, as `{"self": "/orders/1", "customer": "/customers/7"}`; several
        /// of one relation are a list. Without it, links are left out. A field with this name stays.
        pub links: Option<String>,
        /// The names of parts that are lists also where there is one: of `hal`, `siren` and `atom`, which do not say so.
        pub lists: Option<Texts>,
        /// The most bytes of one item with its parts, and of what is held.
        pub max_body: Size = MAX_BODY,
    }
    short(short)
}

fn short(text: Located<String>, problems: &mut Problems) -> Option<Plain> {
    only([("format", text)], problems)
}

impl Plain {
    /// Plain JSON of documents of this format.
    pub fn of(format: PlainFormat) -> Self {
        Plain { format, depth: None, links: None, lists: None, max_body: MAX_BODY }
    }
}

impl Spec for Plain {
    fn about(&self) -> About {
        About { needs_items: true, replaces: true, ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        if let (Some(depth), false) = (&self.depth, self.format.has_depth()) {
            let message = format!("`depth` is for formats with parts, and `{}` has none", self.format.word());
            return cx.problems.error(depth.span, message, "leave it out");
        }
        let waits = match self.format {
            PlainFormat::Atom => "a feed is read whole",
            PlainFormat::JsonApi if self.depth.as_ref().is_none_or(|depth| depth.value > 0) => {
                "resources that name others wait for the end of the document; lists of others stream item by item"
            }
            PlainFormat::Auto => {
                "a list streams item by item if the content type names its format; other documents are read whole"
            }
            _ => "a list streams item by item; what is none is read whole",
        };
        cx.explain(format!("plain JSON of {}", self.format.word()), Some(waits), 0);
        let depth = self.depth.map(|depth| usize::try_from(depth.value).unwrap_or(usize::MAX));
        let lists = self.lists.map(|names| names.0.into_iter().map(|name| name.value).collect()).unwrap_or_default();
        let rules =
            |format| PlainRules { format, depth, links: self.links.clone(), lists, bound: self.max_body.bytes() };
        let named = self.format.named();
        Some(Arc::new(Simplifying { rules: Arc::new(rules(named.unwrap_or(Format::Hal))), auto: named.is_none() }))
    }
}

/// The step.
struct Simplifying {
    rules: Arc<PlainRules>,
    /// Whether each answer has a format of its own.
    auto: bool,
}

impl ReadyStep for Simplifying {
    fn run(self: Arc<Self>, flow: Flow, _: &Arc<Scope>) -> Flow {
        let (rules, auto) = (self.rules.clone(), self.auto);
        flow.map(move |producer| {
            let outcome = match producer.outcome {
                Awaited::Here(Some(Ok(answer))) if answer.is_usable() => match here(answer, &rules, auto) {
                    Ok(outcome) => Awaited::Here(Some(outcome)),
                    Err(answer) => Awaited::later(simplify(Some(Ok(*answer)), rules.clone(), auto)),
                },
                Awaited::Here(outcome) => Awaited::Here(outcome),
                Awaited::Later(outcome) => {
                    let rules = rules.clone();
                    Awaited::later(async move { simplify(outcome.await, rules, auto).await })
                }
            };
            Producer { outcome, ..producer }
        })
    }
}

/// An item that is small and in memory; any other is given back.
fn here(answer: Answer, rules: &Arc<PlainRules>, auto: bool) -> Result<Result<Answer, Error>, Box<Answer>> {
    let chosen = choose(&answer, rules, auto);
    let (answer, item) = format::open_here(answer).map_err(Box::new)?;
    match offload::attempt(weight(&item, rules), || made(&item, chosen.as_ref(), rules)) {
        Some(made) => Ok(made.map(|data| with(answer, data)).map_err(|error| error.at_step("plain"))),
        None => Err(Box::new(Answer { body: item.into(), ..answer })),
    }
}

async fn simplify(outcome: Outcome, rules: Arc<PlainRules>, auto: bool) -> Outcome {
    let answer = match outcome? {
        Ok(answer) if answer.is_usable() => answer,
        other => return Some(other),
    };
    Some(simplified(answer, rules, auto).await.map_err(|error| error.at_step("plain")))
}

/// The rules of an answer whose content type says what it is, or whose format is written.
fn choose(answer: &Answer, rules: &Arc<PlainRules>, auto: bool) -> Option<Arc<PlainRules>> {
    if !auto {
        return Some(rules.clone());
    }
    let odata = || answer.headers.contains_key("odata-version").then_some(Format::Odata);
    let format = answer.headers.media().and_then(Format::of_media).or_else(odata)?;
    Some(Arc::new(PlainRules { format, ..PlainRules::clone(rules) }))
}

async fn simplified(answer: Answer, rules: Arc<PlainRules>, auto: bool) -> Result<Answer, Error> {
    let chosen = choose(&answer, &rules, auto);
    if let Some(rules) = &chosen
        && rules.format.streams()
        && format::is_json(&answer)
        && !matches!(answer.body, AnswerBody::Value(_) | AnswerBody::Json(_))
        && !answer.body.is_empty()
    {
        return stream(answer, rules.clone()).await;
    }
    let text = format::Text::from_answer(&answer);
    let (answer, item) = format::open(answer, rules.bound).await?;
    let weight = weight(&item, &rules);
    let made = offload::run(weight, move || made(&item, chosen.as_ref(), &rules)).await;
    made.map(|data| with(answer, data)).map_err(|error| format::explain(text.as_ref(), error))
}

fn weight(item: &Data, rules: &PlainRules) -> usize {
    let many = if matches!(rules.format, Format::JsonApi | Format::JsonLd) { SPREAD } else { 1 };
    item.weight() / 8 * many
}

fn made(item: &Data, chosen: Option<&Arc<PlainRules>>, rules: &PlainRules) -> Result<Data, Error> {
    let Some(raw) = item.raw() else { return Ok(item.clone()) };
    let found = match chosen {
        Some(rules) => return document(rules, &raw).map(Data::from),
        None => Format::of_shape(&raw),
    };
    match found {
        Some(format) => document(&PlainRules { format, ..rules.clone() }, &raw).map(Data::from),
        None => Ok(item.clone()),
    }
}

fn with(mut answer: Answer, data: Data) -> Answer {
    answer.redescribe();
    answer.headers.remove(CONTENT_DISPOSITION);
    answer.body = data.into();
    answer
}

/// A document that becomes plain while it arrives. Its first piece is awaited: what fails until then still has a status.
async fn stream(answer: Answer, rules: Arc<PlainRules>) -> Result<Answer, Error> {
    let mut answer = format::plain(answer)?;
    let recoder = Recoder::new(&answer.headers)?;
    let upstream = answer.upstream.clone();
    let body = std::mem::replace(&mut answer.body, AnswerBody::empty()).into_pulled()?;
    let name = move |error: Error| match &upstream {
        Some(upstream) => error.of_upstream(upstream),
        None => error,
    };
    let mut reading = PlainReading { stream: PlainStream::new(rules), recoder, body, ended: false, over: false };
    let first = reading.piece().await.map_err(&name)?;
    answer.redescribe();
    answer.headers.remove(CONTENT_DISPOSITION);
    answer.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if reading.over {
        answer.body = AnswerBody::Bytes(first);
        return Ok(answer);
    }
    let rest = stream::unfold(Some((reading, name)), |reading| async {
        let (mut reading, name) = reading?;
        if reading.over {
            return None;
        }
        match reading.piece().await {
            Ok(piece) => Some((Ok(piece), Some((reading, name)))),
            Err(error) => Some((Err(name(error).at_step("plain")), None)),
        }
    });
    let first = stream::once(std::future::ready(Ok(first)));
    answer.body = AnswerBody::Pulled(Box::pin(PlainPieces(first.chain(rest).boxed())));
    Ok(answer)
}

struct PlainReading {
    stream: PlainStream,
    recoder: Recoder,
    body: PulledBody,
    /// Whether the document has arrived.
    ended: bool,
    /// Whether all of it was written.
    over: bool,
}

impl PlainReading {
    /// The bytes that can be sent now, or the next ones that can be.
    async fn piece(&mut self) -> Result<Bytes, Error> {
        let mut out = Vec::new();
        loop {
            if self.ended {
                self.rest(&mut out).await?;
                return Ok(out.into());
            }
            match self.stream.write(PIECE, &mut out)? {
                WriteProgress::More => return Ok(out.into()),
                WriteProgress::Heavy => self.settle(&mut out).await?,
                WriteProgress::Wait if !out.is_empty() => return Ok(out.into()),
                WriteProgress::Wait => match body::data(&mut self.body).await {
                    Some(chunk) => self.stream.push(self.recoder.push(chunk?)?),
                    None => {
                        self.recoder.finish()?;
                        self.stream.finish(&mut out)?;
                        self.ended = true;
                    }
                },
            }
        }
    }

    /// Writes a large part.
    async fn settle(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let (weight, stream) = (self.stream.weight(), self.stream.clone());
        let write = move || {
            let (mut stream, mut text) = (stream.clone(), Vec::new());
            stream.settle(&mut text).map(|()| (stream, text))
        };
        let (stream, text) = offload::run(weight, write).await?;
        self.stream = stream;
        out.extend_from_slice(&text);
        Ok(())
    }

    async fn rest(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let (weight, stream) = (self.stream.weight().saturating_mul(SPREAD), self.stream.clone());
        let write = move || {
            let (mut stream, mut text) = (stream.clone(), Vec::new());
            stream.rest(LARGE_PIECE, &mut text).map(|written| (stream, text, written))
        };
        let (stream, text, written) = offload::run(weight, write).await?;
        self.stream = stream;
        self.over = written != WriteProgress::More;
        out.extend_from_slice(&text);
        Ok(())
    }
}

/// Pieces as a body.
struct PlainPieces(BoxStream<'static, Result<Bytes, Error>>);

impl http_body::Body for PlainPieces {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.0.poll_next_unpin(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
