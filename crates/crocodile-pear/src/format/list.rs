//! The items of a list, in any format that puts one item after the other. Each item is returned while the rest still
//! arrives.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;

use super::charset::Recoder;
use super::csv::RowReader;
use super::json_seq::SequenceReader;
use super::sse::EventReader;
use super::{Declared, declared, plain};
use crate::error::Error;
use crate::json::items::{Items, Path};
use crate::message::answer::Answer;
use crate::message::body::{AnswerBody, PulledBody};

/// The most bytes that are read at once.
const PART: usize = 32 << 10;

/// Bytes that are read before other tasks of the thread get their turn: a few milliseconds of short items.
const TURN: usize = 4 * PART;

/// A body that was opened.
#[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum OpenedList {
    /// A list, to be read item by item.
    List(List),
    /// Anything else, unchanged.
    Whole(Answer),
}

/// A list while it arrives. It reads from the body only after all buffered items were taken.
pub struct List {
    reader: ItemReader,
    recoder: Recoder,
    /// Dropped at the first error.
    body: Option<PulledBody>,
    /// The bytes that have come and are not read yet.
    waiting: Bytes,
    /// The bytes that were read since other tasks had their turn.
    turn: usize,
    /// Whether its format is a stream format, which may have no end.
    stream: bool,
    count: u64,
    upstream: Option<Arc<str>>,
}

enum ItemReader {
    Json(Items),
    Sequence(SequenceReader, Items),
    Events(EventReader),
    Rows(RowReader),
}

impl ItemReader {
    fn push(&mut self, chunk: Bytes) {
        match self {
            ItemReader::Json(items) => items.push(chunk),
            ItemReader::Sequence(sequence, items) => items.push(sequence.push(&chunk)),
            ItemReader::Events(events) => events.push(chunk),
            ItemReader::Rows(rows) => rows.push(chunk),
        }
    }

    fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            ItemReader::Json(items) | ItemReader::Sequence(_, items) => Ok(items.next()?),
            ItemReader::Events(events) => events.next(),
            ItemReader::Rows(rows) => rows.next(),
        }
    }

    fn finish(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            ItemReader::Json(items) | ItemReader::Sequence(_, items) => Ok(items.finish()?),
            ItemReader::Events(_) => Ok(None),
            ItemReader::Rows(rows) => rows.finish(),
        }
    }
}

/// Opens a body that still arrives: a JSON list, JSON lines, rows or events, with items of at most `bound` bytes.
///
/// # Errors
/// Any error before the body begins, and an unknown content coding or character set.
pub async fn open(answer: Answer, bound: usize) -> Result<OpenedList, Error> {
    let answer = plain(answer)?;
    let recoder = Recoder::new(&answer.headers);
    let stream = matches!(declared(&answer), Declared::Sse | Declared::Ndjson | Declared::JsonSeq);
    let reader = match (declared(&answer), &answer.body) {
        (_, AnswerBody::Value(_) | AnswerBody::Json(_)) => return Ok(OpenedList::Whole(answer)),
        (Declared::Json, _) => return open_json(answer, recoder?, bound).await,
        (Declared::Ndjson, _) => ItemReader::Json(Items::of_lines(bound)),
        (Declared::Sse, _) => ItemReader::Events(EventReader::new(bound)),
        (Declared::JsonSeq, _) => ItemReader::Sequence(SequenceReader::default(), Items::of_lines(bound)),
        (Declared::Csv, _) => ItemReader::Rows(RowReader::new(bound, answer.lists.delimiter())),
        _ => return Ok(OpenedList::Whole(answer)),
    };
    let (recoder, upstream) = (recoder?, answer.upstream.clone());
    Ok(OpenedList::List(List::new(reader, recoder, answer.body.into_pulled()?, stream, upstream)))
}

/// Opens JSON. Only the first byte shows whether it is a list.
async fn open_json(mut answer: Answer, mut recoder: Recoder, bound: usize) -> Result<OpenedList, Error> {
    let mut body = std::mem::replace(&mut answer.body, AnswerBody::empty()).into_pulled()?;
    let mut before = Vec::new();
    let first = loop {
        match crate::message::body::data(&mut body).await.transpose()? {
            None => break None,
            Some(chunk) => {
                before.push(chunk.clone());
                let text = recoder.push(chunk)?;
                if !text.trim_ascii_start().is_empty() {
                    break Some(text);
                }
            }
        }
    };
    match first {
        Some(text) if text.trim_ascii_start().starts_with(b"[") => {
            let path = Path::parse(".[]").expect("the path of a list");
            let reader = ItemReader::Json(Items::at(Arc::new(path), bound));
            let list = List::new(reader, recoder, body, false, answer.upstream);
            Ok(OpenedList::List(List { waiting: text, ..list }))
        }
        _ => {
            let body = AnswerBody::Pulled(Box::pin(Rejoined { before: before.into_iter(), body }));
            Ok(OpenedList::Whole(Answer { body, ..answer }))
        }
    }
}

/// The next part of a list.
pub enum NextItem {
    /// A buffered item: checked JSON.
    Item(Bytes),
    /// More must arrive before the next item.
    Wait,
    /// The list is complete.
    End,
}

impl List {
    fn new(reader: ItemReader, recoder: Recoder, body: PulledBody, stream: bool, upstream: Option<Arc<str>>) -> Self {
        List { reader, recoder, body: Some(body), waiting: Bytes::new(), turn: 0, stream, count: 0, upstream }
    }

    /// Whether the format is a stream format, which may have no end.
    pub fn is_stream(&self) -> bool {
        self.stream
    }

    /// The next buffered item.
    ///
    /// # Errors
    /// An error in the list, with the number of the item; nothing comes after it.
    pub fn at_hand(&mut self) -> Result<NextItem, Error> {
        if self.body.is_none() {
            return Ok(NextItem::End);
        }
        let item = self.reader.next();
        self.take(item).map(|item| item.map_or(NextItem::Wait, NextItem::Item))
    }

    /// Waits for more bytes. Returns the last item, if only the end of the body completes it.
    ///
    /// # Errors
    /// Same as [`List::at_hand`], and any error that ends the body early.
    pub async fn pull(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(body) = &mut self.body else { return Ok(None) };
        if self.waiting.is_empty() {
            let text = match crate::message::body::data(body).await {
                Some(chunk) => chunk.and_then(|chunk| self.recoder.push(chunk)),
                None => {
                    self.recoder.finish()?;
                    let last = self.reader.finish();
                    let last = self.take(last);
                    self.body = None;
                    return last;
                }
            };
            match text {
                Ok(text) => self.waiting = text,
                Err(error) => return self.take(Err(error)),
            }
        }
        // A body may come in one piece, and a piece may have no items or thousands of them.
        let part = self.waiting.split_to(self.waiting.len().min(PART));
        self.turn += part.len();
        self.reader.push(part);
        if self.turn >= TURN {
            self.turn = 0;
            tokio::task::yield_now().await;
        }
        Ok(None)
    }

    /// The next item; waits until it has arrived.
    ///
    /// # Errors
    /// Same as [`List::pull`].
    pub async fn item(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            match self.at_hand()? {
                NextItem::Item(item) => return Ok(Some(item)),
                NextItem::End => return Ok(None),
                NextItem::Wait => {
                    if let Some(last) = self.pull().await? {
                        return Ok(Some(last));
                    }
                }
            }
        }
    }

    fn take(&mut self, item: Result<Option<Bytes>, Error>) -> Result<Option<Bytes>, Error> {
        if let Ok(Some(_)) = item {
            self.count += 1;
        }
        item.map_err(|error| {
            self.body = None;
            let detail = format!("item {}: {}", self.count + 1, error.detail());
            super::of(Error::new(error.kind(), detail), self.upstream.as_ref())
        })
    }
}

/// A body whose beginning was already read.
struct Rejoined {
    before: std::vec::IntoIter<Bytes>,
    body: PulledBody,
}

impl http_body::Body for Rejoined {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match self.before.next() {
            Some(chunk) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            None => self.body.as_mut().poll_frame(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::of;
    use crate::runtime::beside;

    /// An answer whose body arrives in these pieces.
    fn answer(media: &'static str, pieces: Vec<Bytes>) -> Answer {
        let body =
            Rejoined { before: pieces.into_iter(), body: Box::pin(crate::message::body::BytesBody::new(Bytes::new())) };
        Answer::new(http::StatusCode::OK, of(media), AnswerBody::Pulled(Box::pin(body)))
    }

    async fn items(media: &'static str, text: &str, size: usize) -> Vec<Bytes> {
        let pieces = text.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
        let Ok(OpenedList::List(mut list)) = open(answer(media, pieces), 1000).await else { panic!("no list: {text}") };
        let mut items = Vec::new();
        loop {
            match list.at_hand().expect("sound") {
                NextItem::Item(item) => items.push(item),
                NextItem::End => return items,
                // A second poll returns the same.
                NextItem::Wait => match list.at_hand() {
                    Ok(NextItem::Wait) => items.extend(list.pull().await.expect("sound")),
                    _ => panic!("{text}"),
                },
            }
        }
    }

    #[tokio::test]
    async fn every_list_comes_out_of_pieces() {
        for (media, text, wanted) in [
            ("application/json", " [ 1,{\"a\":\"b\"}, \"c\" ] ", &["1", "{\"a\":\"b\"}", "\"c\""][..]),
            ("application/json", "[]", &[]),
            ("application/x-ndjson", "1\n\n{\"a\": 2}", &["1", "{\"a\": 2}"]),
            ("application/json-seq", "\x1e1\n\x1e{\"a\":\n2}\n", &["1", "{\"a\": 2}"]),
            (
                "text/csv; charset=utf-8",
                "a,b\r\n1,\"2\"\r\n3,4",
                &["{\"a\":\"1\",\"b\":\"2\"}", "{\"a\":\"3\",\"b\":\"4\"}"],
            ),
            ("text/event-stream", "data: 1\n\n", &["{\"event\":\"message\",\"data\":1}"]),
        ] {
            for size in 1..=text.len() {
                assert_eq!(items(media, text, size).await, wanted, "{media} in pieces of {size}");
            }
        }
    }

    /// The test takes minutes if each byte makes the reader begin again.
    #[tokio::test]
    async fn a_long_item_in_pieces_of_a_byte_is_read_once() {
        let long = "x".repeat(200_000);
        for (media, text) in [
            ("application/json", format!("[\"{long}\"]")),
            ("application/json", format!("[{{\"{long}\":1}}]")),
            ("application/json", format!("[{}1]", " ".repeat(long.len()))),
            ("application/json", format!("[\"{}\"]", "\\\"".repeat(long.len() / 2))),
            ("application/x-ndjson", format!("\"{long}\"\n")),
            ("application/json-seq", format!("\x1e\"{long}\"\n")),
            ("text/csv", format!("a\n{long}\n")),
            ("text/csv", format!("a\n\"{}\"\n", "\"\"".repeat(long.len() / 2))),
            ("text/event-stream", format!("data: {long}\n\n")),
            ("text/event-stream", format!(": {long}\n\ndata: 1\n\n")),
        ] {
            let pieces = text.as_bytes().chunks(1).map(Bytes::copy_from_slice).collect();
            let Ok(OpenedList::List(mut list)) = open(answer(media, pieces), 1 << 20).await else {
                panic!("no list: {media}")
            };
            assert!(list.item().await.expect("sound").is_some(), "{media}");
            assert!(list.item().await.expect("sound").is_none(), "{media}");
        }
    }

    #[tokio::test]
    async fn a_long_list_in_one_piece_does_not_hold_the_core() {
        // So long that there are four turns.
        const LONG: usize = 4 * TURN;
        for (media, before, part) in [
            ("application/json", "[1", ",1"),
            ("application/x-ndjson", "1\n", "\n"),
            ("application/json-seq", "\x1e1\n", "\x1e\n"),
            ("text/csv", "a,b\n", "1,2\n"),
            ("text/csv", "a,b\n", "\n"),
            ("text/event-stream", "data: 1\n\n", ":\n"),
            ("text/event-stream", "data: 1\n\n", "data: 1\n\n"),
        ] {
            let end = if before.starts_with('[') { "]" } else { "" };
            let text = [before, &part.repeat(LONG / part.len()), end].concat();
            let ((), turns) = beside(async {
                let Ok(OpenedList::List(mut list)) = open(answer(media, vec![text.into()]), 1000).await else {
                    panic!("no list: {media}")
                };
                while list.item().await.expect("sound").is_some() {}
            })
            .await;
            assert!(turns >= LONG / TURN, "{media}, {part:?}: {turns}");
        }
    }

    #[tokio::test]
    async fn what_is_no_list_stays_whole() {
        for text in ["  {\"a\": [1]}", "1", "", "  "] {
            let pieces = text.as_bytes().chunks(1).map(Bytes::copy_from_slice).collect();
            let Ok(OpenedList::Whole(whole)) = open(answer("application/json", pieces), 1000).await else {
                panic!("{text}")
            };
            assert_eq!(whole.body.collect(100).await.expect("read"), text);
        }
    }
}
