//! Content codings (RFC 9110, 8.4.1): decompresses bodies.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

#[cfg(feature = "brotli")]
use brotli::enc::StandardAlloc;
#[cfg(feature = "brotli")]
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use bytes::{Buf, Bytes};
#[cfg(feature = "gzip")]
use flate2::{Decompress, FlushDecompress, Status};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http_body::Frame;
#[cfg(feature = "zstd")]
use zstd::stream::raw::{DParameter, Operation};

use crate::error::{Error, Kind};
use crate::message::answer::Answer;
use crate::message::body::{AnswerBody, PulledBody};
use crate::runtime;

/// Bytes that are decoded at a time.
const CHUNK: usize = 32 << 10;

/// Bytes that are read and made before other tasks of the thread get their turn.
const SLICE: usize = 8 * CHUNK;

/// The cost of a step itself, in bytes, in addition to those that it reads and makes.
const STEP: usize = 512;

/// A body may always grow by this much; small bodies often have a high ratio.
const GROWTH: u64 = 1 << 20;

/// Beyond that, the largest ratio. Deflate cannot exceed it; a bomb in brotli can reach 660,000.
const RATIO: u64 = 1_000;

/// The largest window of zstd, 2^23 bytes (RFC 9659).
#[cfg(feature = "zstd")]
const WINDOW: u32 = 23;

/// A coding inside another can happen by accident; more is an attack.
const NESTED: usize = 2;

/// The answer with its body decompressed while it is read. An answer that is not compressed stays unchanged.
///
/// # Errors
/// `Malformed` for an unknown coding.
pub fn plain(mut answer: Answer) -> Result<Answer, Error> {
    if !answer.headers.is_coded() {
        return Ok(answer);
    }
    if !matches!(answer.body, AnswerBody::Value(_)) {
        let codings: Vec<String> = codings(&answer.headers).collect();
        if codings.len() > NESTED {
            return Err(Error::new(Kind::Malformed, "the body has too many content codings"));
        }
        for coding in codings.iter().rev() {
            let decoder = ContentDecoder::for_coding(coding)?;
            answer.body = AnswerBody::Pulled(Box::pin(DecodedBody::new(answer.body.into_pulled()?, decoder)));
        }
    }
    answer.headers.remove(CONTENT_ENCODING);
    answer.headers.remove(CONTENT_LENGTH);
    Ok(answer)
}

/// The codings of a body, in the order in which they were applied.
pub(super) fn codings(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let values = headers.get_all(CONTENT_ENCODING).iter().map(|value| value.to_str().unwrap_or("?"));
    let codings = values.flat_map(|value| value.split(',')).map(|coding| coding.trim().to_ascii_lowercase());
    codings.filter(|coding| !coding.is_empty() && coding != "identity")
}

/// The failure of a body in a coding that this build is without.
#[cfg(not(all(feature = "brotli", feature = "gzip", feature = "zstd")))]
fn unbuilt(feature: &str) -> Error {
    let detail = format!(
        "the body is compressed: it needs the feature `{feature}` of the crate crocodile-pear, which this build is without"
    );
    Error::new(Kind::Malformed, detail)
}

/// A compressed stream.
enum ContentDecoder {
    #[cfg(feature = "gzip")]
    Gzip(Decompress),
    /// The zlib format, or raw deflate, which some servers send instead. The first byte shows which.
    #[cfg(feature = "gzip")]
    Deflate(Option<Decompress>),
    #[cfg(feature = "brotli")]
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::stream::raw::Decoder<'static>),
    #[cfg(not(any(feature = "brotli", feature = "gzip", feature = "zstd")))]
    None(std::convert::Infallible),
}

/// The result of one step.
struct DecodeStep {
    read: usize,
    made: usize,
    /// The stream is complete, as far as it was read.
    ended: bool,
}

impl ContentDecoder {
    fn for_coding(coding: &str) -> Result<Self, Error> {
        match coding {
            #[cfg(feature = "gzip")]
            "gzip" | "x-gzip" => Ok(ContentDecoder::Gzip(Decompress::new_gzip(15))),
            #[cfg(feature = "gzip")]
            "deflate" => Ok(ContentDecoder::Deflate(None)),
            #[cfg(feature = "brotli")]
            "br" => {
                let alloc = StandardAlloc::default;
                // Strict: rejects windows larger than 16 MiB.
                Ok(ContentDecoder::Brotli(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc()))))
            }
            #[cfg(feature = "zstd")]
            "zstd" => zstd().map(ContentDecoder::Zstd).map_err(|error| Error::new(Kind::Internal, error.to_string())),
            #[cfg(not(feature = "gzip"))]
            "gzip" | "x-gzip" | "deflate" => Err(unbuilt("gzip")),
            #[cfg(not(feature = "brotli"))]
            "br" => Err(unbuilt("brotli")),
            #[cfg(not(feature = "zstd"))]
            "zstd" => Err(unbuilt("zstd")),
            _ => Err(Error::new(Kind::Malformed, "the body is in a content coding that is not known")),
        }
    }

    /// Decodes some bytes; `None` if they are invalid in the coding.
    fn step(&mut self, bytes: &[u8], out: &mut [u8]) -> Option<DecodeStep> {
        match self {
            #[cfg(feature = "gzip")]
            ContentDecoder::Gzip(stream) => {
                let step = inflate(stream, bytes, out)?;
                if step.ended {
                    // Another member may follow (RFC 1952, 2.2).
                    *stream = Decompress::new_gzip(15);
                }
                Some(step)
            }
            #[cfg(feature = "gzip")]
            ContentDecoder::Deflate(stream) => {
                let wrapped = bytes.first().is_some_and(|first| first & 0x0f == 8 && first >> 4 <= 7);
                inflate(stream.get_or_insert_with(|| Decompress::new(wrapped)), bytes, out)
            }
            #[cfg(feature = "brotli")]
            ContentDecoder::Brotli(stream) => unbrotli(stream, bytes, out),
            #[cfg(feature = "zstd")]
            ContentDecoder::Zstd(stream) => {
                let status = stream.run_on_buffers(bytes, out).ok()?;
                Some(DecodeStep { read: status.bytes_read, made: status.bytes_written, ended: status.remaining == 0 })
            }
            #[cfg(not(any(feature = "brotli", feature = "gzip", feature = "zstd")))]
            ContentDecoder::None(never) => match *never {},
        }
    }

    /// Whether another stream may follow after the end of one.
    fn goes_on(&self) -> bool {
        match self {
            #[cfg(feature = "gzip")]
            ContentDecoder::Gzip(_) => true,
            #[cfg(feature = "zstd")]
            ContentDecoder::Zstd(_) => true,
            _ => false,
        }
    }
}

#[cfg(feature = "zstd")]
fn zstd() -> std::io::Result<zstd::stream::raw::Decoder<'static>> {
    let mut stream = zstd::stream::raw::Decoder::new()?;
    stream.set_parameter(DParameter::WindowLogMax(WINDOW))?;
    Ok(stream)
}

#[cfg(feature = "gzip")]
fn inflate(stream: &mut Decompress, bytes: &[u8], out: &mut [u8]) -> Option<DecodeStep> {
    let before = (stream.total_in(), stream.total_out());
    let status = stream.decompress(bytes, out, FlushDecompress::None).ok()?;
    let read = (stream.total_in() - before.0) as usize;
    let made = (stream.total_out() - before.1) as usize;
    Some(DecodeStep { read, made, ended: status == Status::StreamEnd })
}

#[cfg(feature = "brotli")]
fn unbrotli(
    stream: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    bytes: &[u8],
    out: &mut [u8],
) -> Option<DecodeStep> {
    let (mut left, mut read, mut room, mut made, mut total) = (bytes.len(), 0, out.len(), 0, 0);
    let result = BrotliDecompressStream(&mut left, &mut read, bytes, &mut room, &mut made, out, &mut total, stream);
    match result {
        BrotliResult::ResultFailure => None,
        result => Some(DecodeStep { read, made, ended: matches!(result, BrotliResult::ResultSuccess) }),
    }
}

/// A body that is decoded as it is pulled.
struct DecodedBody {
    inner: PulledBody,
    decoder: ContentDecoder,
    came: Bytes,
    /// The decoder may have more output buffered.
    full: bool,
    /// The input so far is complete; also true before any input.
    ended: bool,
    read: u64,
    made: u64,
    /// Bytes that were read and made since other tasks had their turn.
    turn: usize,
    /// The output buffer of a step that made nothing, for the next step.
    room: Vec<u8>,
}

impl DecodedBody {
    fn new(inner: PulledBody, decoder: ContentDecoder) -> Self {
        DecodedBody {
            inner,
            decoder,
            came: Bytes::new(),
            full: false,
            ended: true,
            read: 0,
            made: 0,
            turn: 0,
            room: Vec::new(),
        }
    }

    /// Decodes some of the input.
    fn step(&mut self) -> Result<Option<Bytes>, Error> {
        let malformed = || Error::new(Kind::Malformed, "the body is not valid in its content coding");
        if self.ended && self.read > 0 && !self.decoder.goes_on() {
            return Err(malformed());
        }
        let mut out = match self.room.is_empty() {
            true => vec![0; CHUNK],
            false => std::mem::take(&mut self.room),
        };
        let step = self.decoder.step(&self.came, &mut out).ok_or_else(malformed)?;
        if step.read == 0 && step.made == 0 && !step.ended && !self.came.is_empty() {
            return Err(malformed());
        }
        self.came.advance(step.read);
        self.full = step.made == out.len() && !step.ended;
        self.ended = step.ended;
        self.read += step.read as u64;
        self.made += step.made as u64;
        // A step costs even if it makes nothing, as for an empty member of gzip or a skipped frame of zstd.
        self.turn += step.made + step.read + STEP;
        if self.made > GROWTH && self.made > self.read.saturating_mul(RATIO) {
            return Err(Error::new(Kind::Oversized, format!("the body grows more than {RATIO} times when decoded")));
        }
        if step.made == 0 {
            self.room = out;
            return Ok(None);
        }
        out.truncate(step.made);
        Ok(Some(out.into()))
    }
}

impl http_body::Body for DecodedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        loop {
            if this.turn >= SLICE {
                this.turn = 0;
                runtime::wake_after_sockets(cx.waker());
                return Poll::Pending;
            }
            if this.full || !this.came.is_empty() {
                match this.step() {
                    Ok(None) => continue,
                    Ok(Some(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            match ready!(this.inner.as_mut().poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => this.came = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if this.ended => return Poll::Ready(None),
                None => {
                    let error = Error::new(Kind::Cut, "the body ended before its content coding did");
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

#[cfg(all(feature = "brotli", feature = "gzip", feature = "zstd"))]
#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use futures_util::stream;
    use http::{HeaderMap, HeaderValue, StatusCode};
    use http_body_util::StreamBody;

    use super::*;
    use crate::runtime::beside;

    fn encode(coding: &str, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            "gzip" => {
                let mut stream = flate2::write::GzEncoder::new(&mut out, Compression::new(9));
                stream.write_all(bytes).and_then(|()| stream.finish().map(drop)).expect("memory");
            }
            "deflate" => {
                let mut stream = flate2::write::ZlibEncoder::new(&mut out, Compression::new(9));
                stream.write_all(bytes).and_then(|()| stream.finish().map(drop)).expect("memory");
            }
            "raw" => {
                let mut stream = flate2::write::DeflateEncoder::new(&mut out, Compression::new(9));
                stream.write_all(bytes).and_then(|()| stream.finish().map(drop)).expect("memory");
            }
            "br" => brotli::CompressorWriter::new(&mut out, 4096, 5, 20).write_all(bytes).expect("memory"),
            _ => out = zstd::stream::encode_all(bytes, 3).expect("memory"),
        }
        out
    }

    fn answer(coding: &'static str, coded: &[u8], chunk: usize) -> Answer {
        let chunks: Vec<_> = coded.chunks(chunk).map(|part| Ok(Frame::data(Bytes::copy_from_slice(part)))).collect();
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(coding))]);
        let body = AnswerBody::Pulled(Box::pin(StreamBody::new(stream::iter(chunks))));
        Answer::new(StatusCode::OK, headers, body)
    }

    async fn read(coding: &'static str, coded: &[u8], chunk: usize) -> Result<Bytes, Kind> {
        let answer = plain(answer(coding, coded, chunk)).map_err(|error| error.kind())?;
        assert!(!answer.headers.contains_key(CONTENT_ENCODING));
        answer.body.collect(16 << 20).await.map_err(|error| error.kind())
    }

    const CODINGS: [(&str, &str); 5] =
        [("gzip", "gzip"), ("deflate", "deflate"), ("deflate", "raw"), ("br", "br"), ("zstd", "zstd")];

    #[tokio::test]
    async fn every_coding_is_read_however_it_is_cut() {
        let text = br#"{"id":7,"name":"Ada","city":"Lund"},"#.repeat(3_000);
        for (coding, made) in CODINGS {
            let coded = encode(made, &text);
            for chunk in [1, 7, 100, 100_000] {
                assert_eq!(read(coding, &coded, chunk).await.as_deref(), Ok(&text[..]), "{made} {chunk}");
            }
            assert_eq!(read(coding, b"", 1).await.as_deref(), Ok(&b""[..]), "{made}");
        }
    }

    #[tokio::test]
    async fn what_is_cut_or_broken_is_refused() {
        for (coding, made) in CODINGS {
            let coded = encode(made, &b"text ".repeat(100));
            assert_eq!(read(coding, &coded[..coded.len() - 1], 7).await, Err(Kind::Cut), "{made}");
            assert!(read(coding, &[coded.as_slice(), b"more"].concat(), 7).await.is_err(), "{made}");
            assert!(read(coding, b"\xff\xff this is something else", 7).await.is_err(), "{made}");
        }
        assert_eq!(read("sdch", b"x", 1).await, Err(Kind::Malformed));
        assert_eq!(read("gzip, gzip, gzip", b"x", 1).await, Err(Kind::Malformed));
    }

    #[tokio::test]
    async fn members_and_codings_may_follow_each_other() {
        let two = [encode("gzip", b"one "), encode("gzip", b"two")].concat();
        assert_eq!(read("gzip", &two, 5).await.as_deref(), Ok(&b"one two"[..]));
        let nested = encode("br", &encode("gzip", b"text"));
        assert_eq!(read("gzip, br", &nested, 5).await.as_deref(), Ok(&b"text"[..]));
    }

    #[tokio::test]
    async fn what_decodes_to_nothing_does_not_hold_the_core() {
        let skipped = b"\x50\x2a\x4d\x18\0\0\0\0".to_vec();
        for (coding, nothing) in [("gzip", encode("gzip", b"")), ("zstd", encode("zstd", b"")), ("zstd", skipped)] {
            let coded = [nothing.repeat(100_000), encode(coding, b"text")].concat();
            let (text, turns) = beside(read(coding, &coded, coded.len())).await;
            assert_eq!(text.as_deref(), Ok(&b"text"[..]));
            assert!(turns > 100, "{coding}: {turns}");
        }
    }

    #[tokio::test]
    async fn a_bomb_is_refused_while_it_is_read() {
        let zeroes = vec![0; 64 << 20];
        for (coding, made) in CODINGS {
            assert_eq!(read(coding, &encode(made, &zeroes), 512).await, Err(Kind::Oversized), "{made}");
        }
    }
}
