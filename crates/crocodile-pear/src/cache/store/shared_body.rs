//! A body that is kept once and read by many, also while it still arrives.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use crate::error::{Error, Kind};
use crate::message::body::AnswerBody;

/// The body of an entry. A clone is the same body.
#[derive(Clone)]
pub struct SharedBody(StoredBody);

#[derive(Clone)]
enum StoredBody {
    /// Here before it was shared: the usual small one, without a lock or an allocation of its own.
    Whole(Bytes),
    Pieces(Arc<BodyState>),
}

/// The state that a writer and its readers share.
struct BodyState {
    /// Set at its end; read without a lock.
    complete: OnceLock<Complete>,
    arriving: Mutex<PartialBody>,
    /// Its length, if the head had it.
    length: Option<u64>,
}

#[derive(Default)]
struct Complete {
    pieces: Pieces,
    trailers: Option<HeaderMap>,
}

/// Bytes in pieces, found by their place.
#[derive(Default)]
struct Pieces {
    list: Vec<BodyPiece>,
    end: u64,
}

struct BodyPiece {
    start: u64,
    bytes: Bytes,
}

#[derive(Default)]
struct PartialBody {
    pieces: Pieces,
    /// Small pieces gather here, so that one of many costs no allocation. They follow the pieces.
    tail: BytesMut,
    /// A place for each reader that is not at the end.
    readers: Vec<Option<ReaderPlace>>,
    free: Vec<usize>,
    /// Whether bytes that all readers have read are dropped: the body will not be kept.
    passing: bool,
    /// Bytes before this offset were dropped.
    released: u64,
    /// The writer, waiting for the slowest reader.
    room: Option<Waker>,
    end: Option<BodyEnd>,
}

/// Where a reader is, and what wakes it.
struct ReaderPlace {
    at: u64,
    waker: Option<Waker>,
}

enum BodyEnd {
    Whole(Option<HeaderMap>),
    Broken(Error),
}

/// Writes a body that arrives. Dropped before its end, it breaks the body for all readers.
pub struct BodyWriter(Arc<BodyState>);

/// Kept bytes are copied into pieces of one size, so that one body can reuse the memory of another: with pieces of
/// any size, the allocator had 400 MiB of pages for 256 MiB of bodies. A larger size loses what it saves by fewer
/// pieces.
const PIECE: usize = 4 << 10;

/// So much of a body that is not kept waits for its slowest reader.
const WINDOW: u64 = 1 << 20;

impl From<Bytes> for SharedBody {
    fn from(bytes: Bytes) -> Self {
        if bytes.len() <= PIECE {
            return SharedBody(StoredBody::Whole(bytes));
        }
        let (body, writer) = SharedBody::arriving(Some(bytes.len() as u64));
        writer.push(bytes);
        writer.finish(None);
        body
    }
}

impl SharedBody {
    /// A body that will arrive, and its writer. `length`, if it is known.
    pub fn arriving(length: Option<u64>) -> (SharedBody, BodyWriter) {
        let shared = Arc::new(BodyState { complete: OnceLock::new(), arriving: Mutex::default(), length });
        (SharedBody(StoredBody::Pieces(shared.clone())), BodyWriter(shared))
    }

    /// All of it, for one reader: it gets what is there at once, and waits for the rest.
    pub fn read(&self) -> AnswerBody {
        match (self.whole(), &self.0) {
            (None, StoredBody::Pieces(shared)) => {
                AnswerBody::Pulled(Box::pin(BodyReader::new(shared.clone(), 0, u64::MAX)))
            }
            (bytes, _) => AnswerBody::Bytes(bytes.unwrap_or_default()),
        }
    }

    /// All of it, if it is in memory in one piece and has no trailers.
    pub(crate) fn whole(&self) -> Option<Bytes> {
        match &self.0 {
            StoredBody::Whole(bytes) => Some(bytes.clone()),
            StoredBody::Pieces(shared) => shared.complete.get().and_then(Complete::whole),
        }
    }

    /// The bytes from `start` to before `end`, for one reader.
    pub fn read_range(&self, start: u64, end: u64) -> AnswerBody {
        match (self.whole(), &self.0) {
            (None, StoredBody::Pieces(shared)) => {
                AnswerBody::Pulled(Box::pin(BodyReader::new(shared.clone(), start, end)))
            }
            (bytes, _) => AnswerBody::Bytes(slice(&bytes.unwrap_or_default(), start, end)),
        }
    }

    /// How long it is, if that is known already.
    pub fn length(&self) -> Option<u64> {
        match &self.0 {
            StoredBody::Whole(bytes) => Some(bytes.len() as u64),
            StoredBody::Pieces(shared) => shared.complete.get().map(|complete| complete.pieces.end).or(shared.length),
        }
    }

    /// Whether all of it is here. One that broke never is.
    pub fn is_complete(&self) -> bool {
        match &self.0 {
            StoredBody::Whole(_) => true,
            StoredBody::Pieces(shared) => shared.complete.get().is_some(),
        }
    }

    /// The fields after it, once it is here.
    pub fn trailers(&self) -> Option<&HeaderMap> {
        match &self.0 {
            StoredBody::Whole(_) => None,
            StoredBody::Pieces(shared) => shared.complete.get()?.trailers.as_ref(),
        }
    }

    /// Its bytes in order, once it is here.
    pub fn pieces(&self) -> Option<Vec<Bytes>> {
        match &self.0 {
            StoredBody::Whole(bytes) => Some(vec![bytes.clone()]),
            StoredBody::Pieces(shared) => {
                let complete = shared.complete.get()?;
                Some(complete.pieces.list.iter().map(|piece| piece.bytes.clone()).collect())
            }
        }
    }

    /// The bytes of memory that it takes beside its entry.
    pub(crate) fn cost(&self) -> usize {
        match &self.0 {
            StoredBody::Whole(bytes) => allocation(bytes.len()),
            StoredBody::Pieces(shared) => {
                let pieces = shared.complete.get().map_or(&[][..], |complete| &complete.pieces.list);
                let bytes: usize =
                    pieces.iter().map(|piece| size_of::<BodyPiece>() + allocation(piece.bytes.len())).sum();
                size_of::<BodyState>() + bytes
            }
        }
    }
}

/// The memory of these bytes, with the count of their owners.
fn allocation(length: usize) -> usize {
    if length == 0 { 0 } else { length + 48 }
}

fn slice(bytes: &Bytes, start: u64, end: u64) -> Bytes {
    let length = bytes.len() as u64;
    let (start, end) = (start.min(length), end.min(length));
    // Both are at most the length of bytes in memory.
    bytes.slice(start as usize..end.max(start) as usize)
}

impl Complete {
    /// All of it, if it is one piece.
    fn whole(&self) -> Option<Bytes> {
        match &*self.pieces.list {
            _ if self.trailers.is_some() => None,
            [] => Some(Bytes::new()),
            [piece] => Some(piece.bytes.clone()),
            _ => None,
        }
    }
}

impl Pieces {
    fn push(&mut self, bytes: Bytes) {
        let start = self.end;
        self.end += bytes.len() as u64;
        self.list.push(BodyPiece { start, bytes });
    }

    /// The bytes that follow this place, as far as they are in one piece.
    fn at(&self, place: u64) -> Option<Bytes> {
        let after = self.list.partition_point(|piece| piece.start <= place);
        let piece = self.list.get(after.checked_sub(1)?)?;
        let offset = usize::try_from(place - piece.start).ok()?;
        (offset < piece.bytes.len()).then(|| piece.bytes.slice(offset..))
    }

    /// Drops the pieces before this offset.
    fn release(&mut self, place: u64) {
        let passed = self.list.partition_point(|piece| piece.start + piece.bytes.len() as u64 <= place);
        self.list.drain(..passed);
    }
}

impl PartialBody {
    fn end(&self) -> u64 {
        self.pieces.end + self.tail.len() as u64
    }

    fn push(&mut self, bytes: Bytes) {
        if self.passing {
            self.flush();
            return self.pieces.push(bytes);
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PIECE - self.tail.len()));
            rest = later;
            if now.len() == PIECE {
                self.pieces.push(Bytes::copy_from_slice(now));
                continue;
            }
            self.tail.extend_from_slice(now);
            if self.tail.len() == PIECE {
                self.flush();
            }
        }
    }

    /// The tail becomes a piece, of its size.
    fn flush(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(Bytes::copy_from_slice(&self.tail));
            self.tail.clear();
        }
    }

    fn at(&self, place: u64) -> Option<Bytes> {
        if place < self.pieces.end {
            return self.pieces.at(place);
        }
        let rest = self.tail.get(usize::try_from(place - self.pieces.end).ok()?..)?;
        (!rest.is_empty()).then(|| Bytes::copy_from_slice(rest))
    }

    /// Where the slowest reader is; at the end if there is no reader.
    fn slowest(&self) -> u64 {
        self.readers.iter().flatten().map(|place| place.at).min().unwrap_or(self.end())
    }

    fn register(&mut self, at: u64) -> usize {
        let place = Some(ReaderPlace { at, waker: None });
        match self.free.pop() {
            Some(free) => {
                self.readers[free] = place;
                free
            }
            None => {
                self.readers.push(place);
                self.readers.len() - 1
            }
        }
    }

    fn wakers(&mut self) -> Vec<Waker> {
        self.readers.iter_mut().flatten().filter_map(|place| place.waker.take()).collect()
    }

    /// Drops what all have read, if the body is not kept.
    fn pass(&mut self) {
        if self.passing {
            self.released = self.slowest();
            self.pieces.release(self.released);
        }
    }
}

impl BodyState {
    fn arriving(&self) -> MutexGuard<'_, PartialBody> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what has arrived, and wakes the waiting readers outside the lock.
    fn change(&self, change: impl FnOnce(&mut PartialBody)) {
        let wakers = {
            let mut arriving = self.arriving();
            change(&mut arriving);
            arriving.wakers()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn end(&self, end: BodyEnd) {
        if self.complete.get().is_some() {
            return;
        }
        self.change(|arriving| {
            if arriving.end.is_some() {
                return;
            }
            arriving.flush();
            arriving.tail = BytesMut::new();
            match end {
                BodyEnd::Whole(trailers) if !arriving.passing => {
                    let mut pieces = std::mem::take(&mut arriving.pieces);
                    pieces.list.shrink_to_fit();
                    let _ = self.complete.set(Complete { pieces, trailers });
                }
                end => arriving.end = Some(end),
            }
        });
    }
}

impl BodyWriter {
    /// The next bytes have arrived.
    pub fn push(&self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.0.change(|arriving| {
                arriving.push(bytes);
                arriving.pass();
            });
        }
    }

    /// How many bytes have arrived.
    pub fn written(&self) -> u64 {
        self.0.arriving().end()
    }

    /// How many read it now.
    pub fn readers(&self) -> usize {
        self.0.arriving().readers.iter().flatten().count()
    }

    /// The body will not be kept: bytes that all readers have read are dropped. No new reader may begin.
    pub fn pass(&self) {
        let mut arriving = self.0.arriving();
        arriving.passing = true;
        arriving.pass();
    }

    /// Waits, where the body is not kept, until its slowest reader is near.
    pub async fn room(&self) {
        std::future::poll_fn(|cx| self.poll_room(cx)).await;
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut arriving = self.0.arriving();
        if !arriving.passing || arriving.end() - arriving.slowest() < WINDOW {
            return Poll::Ready(());
        }
        arriving.room = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ends the body, with the trailers after it.
    pub fn finish(self, trailers: Option<HeaderMap>) {
        self.0.end(BodyEnd::Whole(trailers));
    }

    /// Breaks the body off.
    pub fn fail(self, error: Error) {
        self.0.end(BodyEnd::Broken(error));
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        self.0.end(BodyEnd::Broken(Error::new(Kind::Cut, "the answer was not read to its end")));
    }
}

/// A reader of a body, from one offset to another.
struct BodyReader {
    shared: Arc<BodyState>,
    at: u64,
    end: u64,
    /// Its place among the readers, while the body arrives.
    place: Option<usize>,
    /// Whether the trailers are still to come.
    trailers: bool,
    over: bool,
}

impl BodyReader {
    fn new(shared: Arc<BodyState>, at: u64, end: u64) -> Self {
        let mut arriving = shared.arriving();
        let place = (shared.complete.get().is_none()).then(|| arriving.register(at));
        drop(arriving);
        BodyReader { shared, at, end, place, trailers: end == u64::MAX, over: false }
    }

    fn give(&mut self, mut bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        bytes.truncate(most);
        self.at += bytes.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn release_place(&mut self) {
        if let Some(place) = self.place.take() {
            let waker = {
                let mut arriving = self.shared.arriving();
                arriving.readers[place] = None;
                arriving.free.push(place);
                arriving.room.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }
    }

    fn finish(&mut self, trailers: Option<HeaderMap>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.over = true;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn poll_arriving(&mut self, place: usize, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let shared = self.shared.clone();
        let mut arriving = shared.arriving();
        if shared.complete.get().is_some() {
            drop(arriving);
            return self.poll_complete();
        }
        if let Some(bytes) = arriving.at(self.at) {
            let read = self.give(bytes);
            if let Some(place) = &mut arriving.readers[place] {
                place.at = self.at;
            }
            let waker = arriving.passing.then(|| arriving.room.take()).flatten();
            drop(arriving);
            waker.into_iter().for_each(Waker::wake);
            return read;
        }
        match &arriving.end {
            _ if self.at < arriving.released => {
                self.over = true;
                Poll::Ready(Some(Err(Error::new(Kind::Cut, "the beginning of the answer was not kept"))))
            }
            Some(BodyEnd::Broken(error)) => {
                let error = error.clone();
                self.over = true;
                Poll::Ready(Some(Err(error)))
            }
            Some(BodyEnd::Whole(trailers)) => {
                let trailers = trailers.clone().filter(|_| self.trailers);
                drop(arriving);
                self.finish(trailers)
            }
            None => {
                if let Some(place) = &mut arriving.readers[place] {
                    place.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    fn poll_complete(&mut self) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let shared = self.shared.clone();
        let Some(complete) = shared.complete.get() else { return self.finish(None) };
        match complete.pieces.at(self.at) {
            Some(bytes) => self.give(bytes),
            None => self.finish(complete.trailers.clone().filter(|_| self.trailers)),
        }
    }
}

impl http_body::Body for BodyReader {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        if this.at >= this.end {
            return this.finish(None);
        }
        match this.place {
            Some(place) if this.shared.complete.get().is_none() => this.poll_arriving(place, cx),
            _ => this.poll_complete(),
        }
    }

    fn is_end_stream(&self) -> bool {
        let ended =
            |complete: &Complete| self.at >= complete.pieces.end && !(self.trailers && complete.trailers.is_some());
        self.over || self.at >= self.end || self.shared.complete.get().is_some_and(ended)
    }

    fn size_hint(&self) -> SizeHint {
        let known = self.shared.complete.get().map(|complete| complete.pieces.end).or(self.shared.length);
        match known {
            Some(length) => SizeHint::with_exact(length.min(self.end).saturating_sub(self.at)),
            None => SizeHint::new(),
        }
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        self.release_place();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use futures_util::FutureExt;
    use futures_util::future::poll_fn;
    use http::HeaderValue;

    use super::super::shared_body::*;
    use crate::message::body::PulledBody;

    fn pulled(body: &SharedBody) -> PulledBody {
        body.read().into_pulled().expect("it is pulled")
    }

    /// The next bytes, if they are there; `Ok(None)` at the end.
    fn next(body: &mut PulledBody) -> Option<Result<Option<Bytes>, Error>> {
        let frame = poll_fn(|cx| body.as_mut().poll_frame(cx)).now_or_never()?;
        Some(frame.transpose().map(|frame| frame.and_then(|frame| frame.into_data().ok())))
    }

    fn rest(body: &mut PulledBody) -> Vec<u8> {
        let mut read = Vec::new();
        while let Some(Ok(Some(bytes))) = next(body) {
            read.extend_from_slice(&bytes);
        }
        read
    }

    fn text(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 31 % 251) as u8).collect()
    }

    #[test]
    fn readers_at_different_places_read_the_same() {
        for piece in [1, 100, 5_000, 40_000] {
            let text = text(100_000);
            let (body, writer) = SharedBody::arriving(None);
            let (mut early, mut lazy) = (pulled(&body), pulled(&body));
            let mut read = Vec::new();
            for (at, bytes) in text.chunks(piece).enumerate() {
                writer.push(Bytes::copy_from_slice(bytes));
                if at % 3 == 0 {
                    read.extend(rest(&mut early));
                }
            }
            let mut late = pulled(&body);
            read.extend(rest(&mut early));
            assert!(next(&mut early).is_none(), "it is not at its end");
            writer.finish(None);
            assert!(matches!(next(&mut early), Some(Ok(None))));
            assert!(read == text && rest(&mut late) == text && rest(&mut lazy) == text, "pieces of {piece}");
            let range = body.read_range(50_000, 50_010).into_pulled().map(|mut body| rest(&mut body));
            assert_eq!(range.ok().as_deref(), Some(&text[50_000..50_010]));
            assert_eq!((body.length(), body.is_complete()), (Some(100_000), true));
        }
    }

    #[test]
    fn a_small_body_is_whole_in_the_end() {
        let (body, writer) = SharedBody::arriving(Some(6));
        writer.push(Bytes::from_static(b"one"));
        writer.push(Bytes::from_static(b"two"));
        writer.finish(None);
        let AnswerBody::Bytes(bytes) = body.read() else { panic!("it is pulled") };
        assert_eq!(&*bytes, b"onetwo");
        let AnswerBody::Bytes(again) = body.read() else { panic!("it is pulled") };
        assert_eq!(bytes.as_ptr(), again.as_ptr());
    }

    #[test]
    fn a_broken_body_breaks_all_readers_and_is_never_complete() {
        let (body, writer) = SharedBody::arriving(None);
        let mut readers: Vec<PulledBody> = (0..3).map(|_| pulled(&body)).collect();
        writer.push(Bytes::from_static(b"half"));
        drop(writer);
        for reader in readers.iter_mut().chain([&mut pulled(&body)]) {
            assert!(matches!(next(reader), Some(Ok(Some(bytes))) if &*bytes == b"half"));
            assert!(matches!(next(reader), Some(Err(_))));
            assert!(matches!(next(reader), Some(Ok(None))));
        }
        assert!(!body.is_complete());
    }

    #[test]
    fn trailers_are_for_all_readers() {
        let (body, writer) = SharedBody::arriving(None);
        let mut early = pulled(&body);
        let fields: HeaderMap = [(http::header::ETAG, HeaderValue::from_static("\"x\""))].into_iter().collect();
        writer.push(Bytes::from_static(b"text"));
        writer.finish(Some(fields.clone()));
        for reader in [&mut early, &mut pulled(&body)] {
            assert!(matches!(next(reader), Some(Ok(Some(_)))));
            let frame = poll_fn(|cx| reader.as_mut().poll_frame(cx)).now_or_never().flatten();
            let trailers = frame.and_then(Result::ok).and_then(|frame| frame.into_trailers().ok());
            assert_eq!(trailers.as_ref(), Some(&fields));
            assert!(reader.is_end_stream());
        }
    }

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_thousand_waiting_readers_are_woken_once_a_piece() {
        let (body, writer) = SharedBody::arriving(None);
        let mut readers: Vec<PulledBody> = (0..1000).map(|_| pulled(&body)).collect();
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        for _ in 0..10 {
            for reader in &mut readers {
                // Asked twice, as by a `select!`; woken once.
                assert!(reader.as_mut().poll_frame(&mut cx).is_pending());
                assert!(reader.as_mut().poll_frame(&mut cx).is_pending());
            }
            writer.push(Bytes::from_static(b"piece"));
            for reader in &mut readers {
                assert!(reader.as_mut().poll_frame(&mut cx).is_ready());
            }
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 10_000);
        assert_eq!(writer.readers(), 1000);
        drop(readers);
        assert_eq!(writer.readers(), 0);
    }

    #[test]
    fn a_body_that_is_not_kept_passes_at_the_pace_of_its_slowest_reader() {
        const PIECE: usize = 32 << 10;
        let (body, writer) = SharedBody::arriving(None);
        let (mut fast, mut slow) = (pulled(&body), pulled(&body));
        writer.pass();
        let mut pushed = 0;
        while writer.room().now_or_never().is_some() {
            writer.push(Bytes::from(text(PIECE)));
            pushed += PIECE;
            rest(&mut fast);
        }
        assert!((WINDOW as usize..WINDOW as usize + PIECE).contains(&pushed), "{pushed}");
        assert!(matches!(next(&mut slow), Some(Ok(Some(_)))));
        assert!(writer.room().now_or_never().is_some(), "its slowest reader has moved");
        rest(&mut slow);
        writer.push(Bytes::from(text(PIECE)));
        assert!(matches!(next(&mut pulled(&body)), Some(Err(_))), "its beginning is gone");
        drop(slow);
        writer.finish(None);
        assert_eq!(rest(&mut fast).len(), PIECE);
        assert!(!body.is_complete());
    }
}
