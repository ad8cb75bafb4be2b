//! Converts bytes to values and back, by content type.

#[cfg(feature = "charsets")]
pub mod charset;
#[cfg(not(feature = "charsets"))]
#[path = "format/charset/absent.rs"]
pub mod charset;
#[cfg(feature = "csv")]
pub mod csv;
#[cfg(not(feature = "csv"))]
#[path = "format/csv/absent.rs"]
pub mod csv;
pub mod declared;
mod decode;
pub mod form;
mod icalendar;
mod json_seq;
pub mod list;
pub mod msgpack;
pub mod ndjson;
pub mod sse;
mod text;
pub mod typed;
#[cfg(feature = "xml")]
pub mod xml;
#[cfg(not(feature = "xml"))]
#[path = "format/xml/absent.rs"]
pub mod xml;
#[cfg(feature = "yaml")]
pub mod yaml;
#[cfg(not(feature = "yaml"))]
#[path = "format/yaml/absent.rs"]
pub mod yaml;

use std::future::{self, Ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::error::Error;
#[cfg(not(all(feature = "charsets", feature = "csv", feature = "xml", feature = "yaml")))]
use crate::error::Kind;
use crate::http::http1::AnswerFields;
use crate::json::Raw;
use crate::json::value::{self, Value};
use crate::json::{self, Data};
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::message::xml_lists::Lists;
use crate::offload::{self, Work};

use declared::{Declared, by_status, by_type, declared};
pub use decode::plain;
pub use text::{Text, explain};

impl Declared {
    /// Parses a body that is in memory.
    fn read(self, headers: &AnswerFields, lists: Lists, bytes: Bytes) -> Work<Data> {
        let here = || parse(self, headers, &lists, bytes.clone());
        let lent = || {
            let (headers, lists, bytes) = (headers.clone(), lists.clone(), bytes.clone());
            move || parse(self, &headers, &lists, bytes.clone())
        };
        offload::run_or(self.weight(&bytes), here, lent)
    }
}

/// The message about a format that this build is without.
pub(crate) fn needs(feature: &str) -> String {
    let what = match feature {
        "charsets" => "a character set other than UTF-8".to_owned(),
        format => format.to_uppercase(),
    };
    format!("{what} needs the feature `{feature}` of the crate crocodile-pear, which this build is without")
}

/// Whether this build has the format of this feature.
pub(crate) fn is_built(feature: &str) -> bool {
    let built = [("csv", cfg!(feature = "csv")), ("xml", cfg!(feature = "xml")), ("yaml", cfg!(feature = "yaml"))];
    !built.contains(&(feature, false))
}

/// The failure of a body in a format that this build is without.
#[cfg(not(all(feature = "charsets", feature = "csv", feature = "xml", feature = "yaml")))]
fn unbuilt(feature: &str) -> Error {
    Error::new(Kind::Malformed, needs(feature))
}

/// Whether an answer is JSON, judged without reading its body.
pub fn is_json(answer: &Answer) -> bool {
    matches!(answer.body, AnswerBody::Value(_) | AnswerBody::Json(_)) || declared(answer) == Declared::Json
}

/// Whether the bytes of an answer are a JSON document, judged by its head.
pub fn is_document(answer: &Answer) -> bool {
    let coded = || answer.headers.is_coded() && decode::codings(&answer.headers).next().is_some();
    let bare = !matches!(answer.body, AnswerBody::Value(_)) && !coded();
    bare && matches!(by_type(answer.headers.media()), Declared::Json | Declared::Nothing)
}

/// Whether these header fields say that a body is JSON.
pub fn is_json_type(headers: &HeaderMap) -> bool {
    by_type(media(headers)) == Declared::Json
}

/// How a body of a client can be used: as a value, or as its bytes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// The type is that of a text, or of a format that is read.
    Value,
    /// The bytes are a text, but of a type that is not read: an image, an archive, a multipart form.
    Text,
    /// The bytes are no text either.
    Bytes,
}

/// How these bytes, uncompressed, can be used.
pub fn readable(headers: &HeaderMap, bytes: &Bytes) -> Readable {
    let media = media(headers);
    if by_type(media) != Declared::Other {
        return Readable::Value;
    }
    let text = charset::any(&headers.clone().into(), bytes).is_ok() && std::str::from_utf8(bytes).is_ok();
    let kind = media.and_then(|media| media.get(..5)).unwrap_or_default();
    match kind.eq_ignore_ascii_case(b"text/") {
        // A text in a character set that its type names.
        true if text || charset::named(&headers.clone().into()).is_some() => Readable::Value,
        false if text => Readable::Text,
        _ => Readable::Bytes,
    }
}

/// Whether a body of this type is made from a value, so that it cannot be bytes that were not made for it.
pub fn is_made(media: &[u8]) -> bool {
    typed::is_multipart(media) || !matches!(by_type(Some(media)), Declared::Other | Declared::Nothing)
}

/// Whether a body of this type is a form of several parts.
pub fn is_parts(media: &[u8]) -> bool {
    typed::is_multipart(media)
}

/// Whether these header fields say that a body is a form.
pub fn is_form(headers: &HeaderMap) -> bool {
    by_type(media(headers)) == Declared::Form
}

fn media(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes)
}

/// The value of an answer's body, at most `bound` bytes. The content type decides: JSON, XML, YAML, NDJSON, CSV,
/// MessagePack, iCalendar, a form and server-sent events are parsed. Other text is a string, bytes that are not text a `data:` URL
/// (RFC 2397), an empty body null.
///
/// # Errors
/// `Malformed` for a body that does not match its type, `Oversized`, and any error that ends the body early.
pub async fn value(answer: Answer, bound: usize) -> Result<Value, Error> {
    data(answer, bound).await.map(Data::into_value)
}

/// Like [`value()`], for callers that may not need the values: JSON is checked, but not parsed yet.
///
/// # Errors
/// Same as [`value()`].
pub fn data(answer: Answer, bound: usize) -> DataReading {
    let upstream = answer.upstream.clone();
    DataReading { upstream, work: read(answer, bound) }
}

/// An answer's body while it is being read to data.
pub struct DataReading {
    upstream: Option<Arc<str>>,
    work: Work<Data>,
}

impl Future for DataReading {
    type Output = Result<Data, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let read = ready!(self.work.poll_unpin(cx));
        Poll::Ready(read.map_err(|error| of(error, self.upstream.as_ref())))
    }
}

/// An answer's head, and the [`data`] of its body.
///
/// # Errors
/// Same as [`value()`].
pub async fn open(answer: Answer, bound: usize) -> Result<(Answer, Data), Error> {
    let upstream = answer.upstream.clone();
    let mut answer = plain(answer).map_err(|error| of(error, upstream.as_ref()))?;
    let data = match std::mem::replace(&mut answer.body, AnswerBody::empty()) {
        AnswerBody::Value(value) => value.into(),
        AnswerBody::Json(raw) => raw.into(),
        body => {
            let told = |error| of(error, upstream.as_ref());
            let bytes = body.collect(bound).await.map_err(told)?;
            let read = declared(&answer).read(&answer.headers, answer.lists.clone(), bytes);
            read.await.map_err(told)?
        }
    };
    Ok((answer, data))
}

/// Like [`open`], without waiting, if the body is already a value or JSON; otherwise the unchanged answer.
///
/// # Errors
/// The answer.
pub fn open_here(mut answer: Answer) -> Result<(Answer, Data), Answer> {
    if answer.headers.is_coded() {
        return Err(answer);
    }
    match std::mem::replace(&mut answer.body, AnswerBody::empty()) {
        AnswerBody::Value(value) => Ok((answer, value.into())),
        AnswerBody::Json(raw) => Ok((answer, raw.into())),
        body => Err(Answer { body, ..answer }),
    }
}

/// Parses the bytes of an answer with this head, at most `bound` of them.
///
/// # Errors
/// Same as [`value()`].
pub fn document(status: StatusCode, headers: &AnswerFields, lists: Lists, bytes: Bytes, bound: usize) -> Work<Data> {
    if headers.is_coded() {
        let answer = Answer::new(status, headers.clone(), AnswerBody::Bytes(bytes));
        return read(Answer { lists, ..answer }, bound);
    }
    by_status(status, headers.media()).read(headers, lists, bytes)
}

/// The unchanged answer with its body in memory, and the [`data`] of that body.
///
/// # Errors
/// Same as [`value()`].
pub async fn peek(answer: Answer, bound: usize) -> Result<(Answer, Data), Error> {
    let (body, copy) = match answer.body {
        AnswerBody::Value(value) => (AnswerBody::Value(value.clone()), AnswerBody::Value(value)),
        AnswerBody::Json(raw) => (AnswerBody::Json(raw.clone()), AnswerBody::Json(raw)),
        body => {
            let bytes = body.collect(bound).await.map_err(|error| of(error, answer.upstream.as_ref()))?;
            (AnswerBody::Bytes(bytes.clone()), AnswerBody::Bytes(bytes))
        }
    };
    let copy = Answer::new(answer.status, answer.headers.clone(), copy);
    let (upstream, lists) = (answer.upstream.clone(), answer.lists.clone());
    let data = data(Answer { upstream, lists, ..copy }, bound).await?;
    Ok((Answer { body, ..answer }, data))
}

fn of(error: Error, upstream: Option<&Arc<str>>) -> Error {
    match upstream {
        Some(upstream) => error.of_upstream(upstream),
        None => error,
    }
}

/// Reads a body in memory at once.
fn read(answer: Answer, bound: usize) -> Work<Data> {
    let answer = match plain(answer) {
        Ok(answer) => answer,
        Err(error) => return Either::Left(future::ready(Err(error))),
    };
    let declared = declared(&answer);
    match answer.body {
        AnswerBody::Value(value) => Either::Left(future::ready(Ok(value.into()))),
        AnswerBody::Json(raw) => Either::Left(future::ready(Ok(raw.into()))),
        AnswerBody::Bytes(bytes) if bytes.len() <= bound => declared.read(&answer.headers, answer.lists, bytes),
        body => Either::Right(Box::pin(async move {
            let bytes = body.collect(bound).await?;
            declared.read(&answer.headers, answer.lists, bytes).await
        })),
    }
}

/// Checks a JSON document.
///
/// # Errors
/// `Malformed` for bytes that are not JSON.
pub async fn check(bytes: Bytes) -> Result<Raw, Error> {
    offload::run(Declared::Json.weight(&bytes), move || Ok(Raw::check(&bytes)?)).await
}

fn parse(declared: Declared, headers: &AnswerFields, lists: &Lists, bytes: Bytes) -> Result<Data, Error> {
    match declared {
        Declared::Json | Declared::Nothing | Declared::Other if bytes.is_empty() => Ok(value::null().into()),
        Declared::Json => Ok(Raw::check(&charset::recode(headers, bytes)?)?.into()),
        Declared::Nothing => match Raw::check(&json::unmarked(bytes.clone())) {
            Ok(raw) => Ok(raw.into()),
            Err(_) => charset::any(headers, &bytes).map(|text| value::string(&text).into()),
        },
        Declared::Other => charset::any(headers, &bytes).map(|text| value::string(&text).into()),
        Declared::Form => form::read(&charset::text(headers, &bytes)?).map(Data::Value),
        other => structured(other, headers, lists, bytes).map(Data::Json),
    }
}

/// Converts a format other than JSON to JSON.
fn structured(declared: Declared, headers: &AnswerFields, lists: &Lists, bytes: Bytes) -> Result<Raw, Error> {
    match declared {
        Declared::Xml => xml::read(&bytes, charset::named(headers), lists),
        Declared::Ndjson => ndjson::read(&charset::recode(headers, bytes)?),
        Declared::JsonSeq => ndjson::read(&json_seq::SequenceReader::default().push(&charset::recode(headers, bytes)?)),
        Declared::Sse => sse::read(&charset::text(headers, &bytes)?),
        Declared::Msgpack => msgpack::read(&bytes),
        Declared::Csv => csv::read(&charset::text(headers, &bytes)?, lists.delimiter()),
        Declared::Yaml => yaml::read(&charset::text(headers, &bytes)?),
        Declared::Calendar => icalendar::read(&charset::text(headers, &icalendar::unfold(&bytes))?),
        Declared::Json | Declared::Form | Declared::Other | Declared::Nothing => Ok(Raw::check(&bytes)?),
    }
}

/// Appends the body to `out` as JSON text. JSON is checked, and its bytes are copied.
///
/// # Errors
/// Same as [`value()`].
pub fn splice(answer: Answer, bound: usize, lines: LineBreaks, out: &mut Vec<u8>) -> Splicing<'_> {
    let upstream = answer.upstream.clone();
    let told = move |error| of(error, upstream.as_ref());
    let answer = match plain(answer) {
        Ok(answer) => answer,
        Err(error) => return Either::Left(future::ready(Err(told(error)))),
    };
    match append_now(&answer, bound, lines, out) {
        Some(done) => Either::Left(future::ready(done.map_err(told))),
        // Boxed, so that complete answers do not carry the space for it.
        None => Either::Right(Box::pin(async move { append(answer, bound, lines, out).await.map_err(told) })),
    }
}

/// Like [`splice`], without waiting, if the body is in memory, not compressed, and small.
pub fn splice_here(answer: &Answer, bound: usize, lines: LineBreaks, out: &mut Vec<u8>) -> Option<Result<(), Error>> {
    if answer.headers.is_coded() {
        return None;
    }
    append_now(answer, bound, lines, out)
}

/// An answer's body while it is being appended to a text.
pub type Splicing<'a> = Either<Ready<Result<(), Error>>, BoxFuture<'a, Result<(), Error>>>;

/// Appends a small body in memory at once.
fn append_now(answer: &Answer, bound: usize, lines: LineBreaks, out: &mut Vec<u8>) -> Option<Result<(), Error>> {
    match &answer.body {
        AnswerBody::Value(value) => Some(json::write(value, out).map_err(Error::from)),
        AnswerBody::Json(raw) if lines == LineBreaks::Kept || raw.bytes().len() / 8 <= offload::SMALL => {
            lines.append(raw.bytes(), out);
            Some(Ok(()))
        }
        AnswerBody::Bytes(bytes) if bytes.len() <= bound => {
            let declared = declared(answer);
            let small = declared.weight(bytes) <= offload::SMALL;
            small.then(|| append_bytes(declared, &answer.headers, &answer.lists, bytes.clone(), lines, out))
        }
        _ => None,
    }
}

async fn append(answer: Answer, bound: usize, lines: LineBreaks, out: &mut Vec<u8>) -> Result<(), Error> {
    let declared = declared(&answer);
    let (headers, known, bytes) = (answer.headers, answer.lists, answer.body.collect(bound).await?);
    let weight = declared.weight(&bytes);
    if weight <= offload::SMALL {
        return append_bytes(declared, &headers, &known, bytes, lines, out);
    }
    let made = offload::run(weight, move || {
        let mut made = Vec::new();
        append_bytes(declared, &headers, &known, bytes.clone(), lines, &mut made).map(|()| made)
    });
    out.extend_from_slice(&made.await?);
    Ok(())
}

fn append_bytes(
    declared: Declared,
    headers: &AnswerFields,
    lists: &Lists,
    bytes: Bytes,
    lines: LineBreaks,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    if bytes.is_empty() {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match declared {
        Declared::Json => {
            let bytes = charset::recode(headers, bytes)?;
            json::check(&bytes)?;
            lines.append(&bytes, out);
        }
        Declared::Nothing if json::check(&json::unmarked(bytes.clone())).is_ok() => {
            lines.append(&json::unmarked(bytes), out);
        }
        Declared::Nothing | Declared::Other => json::write_string(&charset::any(headers, &bytes)?, out),
        Declared::Form => json::write(&form::read(&charset::text(headers, &bytes)?)?, out)?,
        other => lines.append(structured(other, headers, lists, bytes)?.bytes(), out),
    }
    Ok(())
}

/// Whether JSON text may keep its line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineBreaks {
    /// The line ends as they arrived.
    Kept,
    /// Without line ends, because a line end ends an item in NDJSON and SSE.
    Joined,
}

impl LineBreaks {
    fn append(self, checked: &Bytes, out: &mut Vec<u8>) {
        match self {
            LineBreaks::Kept => out.extend_from_slice(&json::trim(checked)),
            LineBreaks::Joined => json::compact(checked, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::CONTENT_TYPE;

    /// A head with this content type.
    pub fn of(content_type: &'static str) -> AnswerFields {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]).into()
    }

    #[test]
    fn json_is_known_by_its_type_or_its_suffix() {
        for json in ["application/json", "application/json; charset=utf-8", "application/problem+json", "text/JSON"] {
            assert_eq!(by_type(of(json).media()), Declared::Json, "{json}");
        }
        assert_eq!(by_type(of("application/rss+xml; charset=utf-8").media()), Declared::Xml);
        assert_eq!(by_type(of("TEXT/CSV").media()), Declared::Csv);
        assert_eq!(by_type(of("application/openapi+yaml").media()), Declared::Yaml);
        assert_eq!(by_type(of("text/x-yaml").media()), Declared::Yaml);
        assert_eq!(by_type(of("application/x-www-form-urlencoded").media()), Declared::Form);
        for other in ["text/html", "image/svg+xml", "application/xhtml+xml", "application/notjson"] {
            assert_eq!(by_type(of(other).media()), Declared::Other, "{other}");
        }
        assert_eq!(by_type(of("application/json-seq").media()), Declared::JsonSeq);
        assert_eq!(by_type(None), Declared::Nothing);
    }

    /// Otherwise a client could ask and leave again and again, and a helper thread would read each body to its end.
    #[test]
    fn what_nobody_waits_for_is_not_read_to_its_end() {
        for (media, before, item, after) in [
            ("application/xml", "<r>", "<a b='c'>d</a>", "</r>"),
            ("text/csv", "a,b\n", "some text,2\n", ""),
            ("application/yaml", "", "- some text\n", ""),
            ("text/calendar", "BEGIN:VCALENDAR\n", "X-A:some text\n", "END:VCALENDAR\n"),
            ("application/x-ndjson", "", "{\"a\":[1,2]}\n", ""),
            ("application/json-seq", "", "\u{1e}{\"a\":[1,2]}\n", ""),
            ("application/x-www-form-urlencoded", "x=y", "&a=some+text", ""),
            ("text/event-stream", "", "data: some text\n\n", ""),
        ] {
            let text = [before, &item.repeat((300 << 10) / item.len()), after].concat();
            let (headers, bytes) = (of(media), Bytes::from(text));
            // The body is not made a value, because that would also notice that nobody waits.
            let read = || parse(by_type(headers.media()), &headers, &Lists::default(), bytes.clone());
            assert!(read().is_ok(), "{media}: {:?}", read().err());
            assert!(offload::gives_up(read), "{media}");
        }
    }

    #[test]
    fn json_in_another_character_set_is_read() {
        let read = |media, bytes: &'static [u8]| {
            parse(by_type(of(media).media()), &of(media), &Lists::default(), Bytes::from_static(bytes))
                .map(Data::into_value)
        };
        let value = read("application/json; charset=iso-8859-1", b"\"\xe5\"").expect("sound");
        assert_eq!(value::as_str(&value), Some("å"));
        assert!(read("application/json", b"\"\xe5\"").is_err());
        assert!(read("application/json; charset=nonsense", b"1").is_err());
        assert!(read("text/csv; charset=utf-8", b"a\n\xe5\n").is_err());
    }
}
