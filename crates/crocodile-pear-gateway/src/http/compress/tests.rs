use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::body::BytesBody;
use crocodile_pear_peers::test_rng::TestRng;
use http::header::{ACCEPT_ENCODING, HeaderName};
use http_body::{Body as _, Frame};

use crate::http::compress::*;
use crate::layers::compress::Compress;

/// An act of a body when it is polled.
#[derive(Clone)]
enum Act {
    Data(Bytes),
    Wait,
    Trailers,
    Fail,
}

struct Script(VecDeque<Act>);

impl Script {
    fn of(acts: impl IntoIterator<Item = Act>) -> PulledBody {
        Box::pin(Script(acts.into_iter().collect()))
    }
}

impl http_body::Body for Script {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        Poll::Ready(match self.0.pop_front() {
            None => None,
            Some(Act::Data(data)) => Some(Ok(Frame::data(data))),
            Some(Act::Trailers) => {
                let trailers = [(ETAG, HeaderValue::from_static("\"end\""))];
                Some(Ok(Frame::trailers(HeaderMap::from_iter(trailers))))
            }
            Some(Act::Fail) => Some(Err(Error::new(Kind::Cut, "cut"))),
            Some(Act::Wait) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        })
    }
}

fn data(bytes: &[u8]) -> Act {
    Act::Data(Bytes::copy_from_slice(bytes))
}

fn compressor() -> Compressor {
    crocodile_pear::unstable::config::spec::defaults::<Compress>().ready(&mut Problems::default()).expect("on")
}

/// The answer as the client would have it.
async fn wrap(compressor: &Compressor, response: Response<PulledBody>, request: &HeaderMap) -> Response<PulledBody> {
    let mut response = response.map(AnswerBody::Pulled);
    if let Some(coded) = compressor.code(&mut response, request, None) {
        coded.await;
    }
    response.map(|body| body.into_pulled().expect("bytes"))
}

fn tell(response: Response<PulledBody>, request: &HeaderMap) -> Response<PulledBody> {
    let mut response = response.map(AnswerBody::Pulled);
    compressor().tell(&mut response, request);
    response.map(|body| body.into_pulled().expect("bytes"))
}

fn levels() -> Levels {
    LARGE
}

fn asking(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_str(value).expect("a value"))])
}

fn json(body: PulledBody) -> Response<PulledBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn field(response: &Response<PulledBody>, name: HeaderName) -> Option<&str> {
    response.headers().get(name).map(|value| value.to_str().expect("text"))
}

/// The output of a body: its bytes, its trailers, and its end.
async fn drain(mut body: PulledBody) -> (Vec<u8>, Option<HeaderMap>, Result<(), Error>) {
    let (mut bytes, mut trailers) = (Vec::new(), None);
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => bytes.extend_from_slice(&data),
            Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
            Err(error) => return (bytes, trailers, Err(error)),
        }
    }
    (bytes, trailers, Ok(()))
}

/// The readable beginning of a stream, and whether it is all of it.
fn read(coding: Coding, mut coded: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let coded = &mut coded;
    let ended = match coding {
        Coding::Gzip => flate2::read::GzDecoder::new(coded).read_to_end(&mut out),
        Coding::Deflate => flate2::read::ZlibDecoder::new(coded).read_to_end(&mut out),
        Coding::Br => brotli::Decompressor::new(coded, 4096).read_to_end(&mut out),
        Coding::Zstd => zstd::stream::read::Decoder::new(coded).expect("memory").read_to_end(&mut out),
    };
    (out, ended.is_ok())
}

/// Bodies, and how they come.
struct Bodies(TestRng);

impl Bodies {
    /// Words, repetitions and noise, mostly short.
    fn body(&mut self) -> Vec<u8> {
        let size = match self.0.below(100) {
            0 => self.0.below(300_000),
            1..10 => self.0.below(20_000),
            _ => self.0.below(1_000),
        };
        let mut body = Vec::with_capacity(size + 64);
        while body.len() < size {
            match self.0.below(3) {
                0 => body.extend_from_slice(br#"{"id":7,"name":"Ada","city":"Lund"},"#),
                1 => body.extend((0..self.0.below(64)).map(|_| self.0.below(256) as u8).collect::<Vec<_>>()),
                _ => body.extend(std::iter::repeat_n(self.0.below(256) as u8, self.0.below(200))),
            }
        }
        body.truncate(size);
        body
    }

    /// The body in pieces, some of them late.
    fn cut(&mut self, body: &[u8]) -> Vec<Act> {
        let most = 1 + self.0.below(body.len().max(1)).max(body.len() / 20);
        let mut acts = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((1 + self.0.below(most)).min(rest.len()));
            acts.push(data(piece));
            if self.0.below(3) == 0 {
                acts.push(Act::Wait);
            }
            rest = after;
        }
        acts
    }
}

async fn survive(coding: Coding) {
    let (levels, mut dice) = (levels(), Bodies(TestRng(0x9E37_79B9_7F4A_7C15)));
    for round in 0..10_000 {
        let body = dice.body();
        let acts = dice.cut(&body);
        let encoder = Encoder::new(coding, &levels).expect("memory");
        let (coded, _, ended) = drain(Box::pin(Coded::new(Script::of(acts), encoder))).await;
        assert!(ended.is_ok());
        assert!(read(coding, &coded) == (body, true), "{coding:?}, round {round}");
    }
}

#[tokio::test]
async fn ten_thousand_bodies_survive_gzip() {
    survive(Coding::Gzip).await;
}

#[tokio::test]
async fn ten_thousand_bodies_survive_deflate() {
    survive(Coding::Deflate).await;
}

#[tokio::test]
async fn ten_thousand_bodies_survive_br() {
    survive(Coding::Br).await;
}

#[tokio::test]
async fn ten_thousand_bodies_survive_zstd() {
    survive(Coding::Zstd).await;
}

#[tokio::test]
async fn every_level_can_be_read() {
    let mut dice = Bodies(TestRng(7));
    let body: Vec<u8> = std::iter::repeat_with(|| dice.body()).take(60).flatten().collect();
    for coding in Coding::ALL {
        for level in 1..=9 {
            let levels = Levels { gzip: level, br: level, zstd: level };
            for start in [Coded::new, Coded::slow] {
                let encoder = Encoder::new(coding, &levels).expect("memory");
                let (coded, ..) = drain(Box::pin(start(Script::of(dice.cut(&body)), encoder))).await;
                assert!(read(coding, &coded) == (body.clone(), true), "{coding:?} {level}");
            }
        }
    }
}

#[tokio::test]
async fn what_other_threads_compress_arrives_in_parts_and_ends_as_it_does_here() {
    let mut dice = Bodies(TestRng(11));
    let large: Vec<u8> = std::iter::repeat_with(|| dice.body()).take(1_200).flatten().collect();
    for coding in Coding::ALL {
        let slow = || Encoder::new(coding, &levels()).expect("memory");
        let parts: Vec<Act> = large.chunks(300 << 10).map(data).collect();
        assert!(parts.len() > 2, "{}", large.len());
        let (coded, ..) = drain(Box::pin(Coded::slow(Script::of(parts), slow()))).await;
        assert!(read(coding, &coded) == (large.clone(), true), "{coding:?}");
        let (coded, trailers, _) =
            drain(Box::pin(Coded::slow(Script::of([data(b"first"), Act::Wait, Act::Trailers]), slow()))).await;
        assert_eq!(read(coding, &coded), (b"first".to_vec(), true), "{coding:?}");
        assert_eq!(trailers.expect("trailers")[ETAG], "\"end\"");
        let (coded, _, ended) = drain(Box::pin(Coded::slow(Script::of([data(b"first"), Act::Fail]), slow()))).await;
        assert_eq!(ended.expect_err("cut").kind(), Kind::Cut);
        assert_eq!(read(coding, &coded), (b"first".to_vec(), false), "{coding:?}");
        let (coded, ..) = drain(Box::pin(Coded::slow(Script::of([]), slow()))).await;
        assert_eq!(read(coding, &coded), (Vec::new(), true), "{coding:?}");
    }
}

#[tokio::test]
async fn a_whole_body_that_other_threads_compress_can_be_read() {
    let row = br#"{"id":7,"name":"Ada","city":"Lund"}"#;
    for size in [0, 1, pool::LOAD, pool::LOAD + 1, 3 * pool::LOAD] {
        let body: Vec<u8> = row.iter().copied().cycle().take(size).collect();
        for coding in Coding::ALL {
            let encoder = Encoder::new(coding, &levels()).expect("memory");
            let coded = pool::whole(encoder, body.clone().into()).await.expect("no error");
            assert!(read(coding, &coded) == (body.clone(), true), "{coding:?} {size}");
        }
    }
}

#[tokio::test]
async fn no_core_compresses_at_a_slow_level() {
    let mut body = Coded::slow(Script::of([data(b"first"), Act::Wait, data(b"second")]), brotli_of_level(11));
    let busy = pool::all_places().await;
    for _ in 0..10 {
        let frame = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx))).await;
        assert!(frame.is_pending(), "something is made while all threads for it are busy");
    }
    drop(busy);
    let (made, _, end) = drain(Box::pin(body)).await;
    end.expect("no error");
    assert_eq!(read(Coding::Br, &made), (b"firstsecond".to_vec(), true));
}

fn brotli_of_level(level: u32) -> Encoder {
    Encoder::new(Coding::Br, &Levels { br: level, ..levels() }).expect("memory")
}

/// Rows, noise and repetitions, of a few input blocks of brotli's: as large as what is compressed at once.
#[test]
fn a_body_that_is_whole_can_be_read() {
    let (mut dice, levels) = (TestRng(0x5DEE_CE66), Levels { gzip: 6, br: 3, zstd: 3 });
    for round in 0..200 {
        let size = dice.below(64 << 10);
        let mut body = Vec::new();
        while body.len() < size {
            let run = 1 + dice.below(2_000);
            match dice.below(3) {
                0 => body.extend(br#"{"id":7,"name":"Ada","city":"Lund"},"#.iter().cycle().take(run)),
                1 => body.extend((0..run).map(|_| dice.below(256) as u8).collect::<Vec<_>>()),
                _ => body.extend(std::iter::repeat_n(dice.below(256) as u8, run)),
            }
        }
        for coding in Coding::ALL {
            let coded = Encoder::new(coding, &levels).expect("memory").whole(&body).expect("no error");
            assert!(read(coding, &coded) == (body.clone(), true), "{coding:?}, round {round}");
        }
    }
}

#[tokio::test]
async fn a_part_can_be_read_before_the_next_is_there() {
    for coding in Coding::ALL {
        let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
        let parts = futures_util::stream::unfold(receiver, async |mut receiver| {
            let part = receiver.recv().await?;
            Some((Ok::<_, Error>(Frame::data(part)), receiver))
        });
        let inner: PulledBody = Box::pin(http_body_util::StreamBody::new(parts));
        let mut body = Coded::new(inner, Encoder::new(coding, &levels()).expect("memory"));
        let (mut received, mut sent) = (Vec::new(), Vec::new());
        for line in 1..=10 {
            let part = format!("{{\"line\":{line}}}\n");
            sent.extend_from_slice(part.as_bytes());
            sender.send(part.into()).await.expect("room");
            while read(coding, &received) != (sent.clone(), false) {
                let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.expect("more").expect("no error");
                received.extend_from_slice(&frame.into_data().expect("data"));
            }
        }
    }
}

#[tokio::test]
async fn what_keeps_coming_is_not_flushed() {
    let row = br#"{"id":1,"name":"Ada Lund","city":"Lund","active":true}"#;
    let size = async |acts: Vec<Act>, coding| {
        let encoder = Encoder::new(coding, &levels()).expect("memory");
        drain(Box::pin(Coded::new(Script::of(acts), encoder))).await.0.len()
    };
    for coding in Coding::ALL {
        let burst = size(vec![data(row); 500], coding).await;
        let trickle = size([data(row), Act::Wait].into_iter().cycle().take(1000).collect(), coding).await;
        assert!(burst * 5 < trickle, "{coding:?}: {burst}, {trickle}");
    }
}

#[tokio::test]
async fn a_body_that_fails_never_ends_well() {
    for coding in Coding::ALL {
        let encoder = Encoder::new(coding, &levels()).expect("memory");
        let body = Coded::new(Script::of([data(b"first"), Act::Fail]), encoder);
        let (coded, _, ended) = drain(Box::pin(body)).await;
        assert_eq!(ended.expect_err("cut").kind(), Kind::Cut);
        assert_eq!(read(coding, &coded), (b"first".to_vec(), false), "{coding:?}");
    }
}

#[tokio::test]
async fn trailers_come_after_the_end_of_the_stream() {
    let encoder = Encoder::new(Coding::Gzip, &levels()).expect("memory");
    let body = Coded::new(Script::of([data(b"first"), Act::Trailers]), encoder);
    let (coded, trailers, _) = drain(Box::pin(body)).await;
    assert_eq!(read(Coding::Gzip, &coded), (b"first".to_vec(), true));
    assert_eq!(trailers.expect("trailers")[ETAG], "\"end\"");
}

#[tokio::test]
async fn a_large_chunk_lets_others_have_their_turn() {
    let encoder = Encoder::new(Coding::Gzip, &levels()).expect("memory");
    let mut body = Coded::new(Script::of([data(&vec![b'a'; 10 * SLICE])]), encoder);
    let mut turns = 0;
    poll_fn(|cx| {
        while let Poll::Ready(frame) = Pin::new(&mut body).poll_frame(cx) {
            if frame.is_none() {
                return Poll::Ready(());
            }
        }
        turns += 1;
        Poll::Pending
    })
    .await;
    assert!(turns >= 9, "{turns}");
}

/// 64 KiB, as `coded` has it.
const SLICE: usize = 64 << 10;

#[tokio::test]
async fn noise_is_stored_and_what_comes_after_it_is_not() {
    let mut dice = TestRng(3);
    let noise: Vec<u8> = (0..1 << 20).map(|_| dice.below(256) as u8).collect();
    let text = br#"{"id":7,"name":"Ada","city":"Lund"},"#.repeat(40_000);
    for coding in Coding::ALL {
        let chunks = noise.chunks(32 << 10).chain(text.chunks(32 << 10)).map(data);
        let encoder = Encoder::new(coding, &levels()).expect("memory");
        let (coded, ..) = drain(Box::pin(Coded::new(Script::of(chunks), encoder))).await;
        assert!((noise.len()..noise.len() + noise.len() / 10).contains(&coded.len()), "{coding:?}: {}", coded.len());
        assert!(read(coding, &coded) == ([&noise[..], &text].concat(), true), "{coding:?}");
    }
}

#[tokio::test]
async fn an_answer_at_hand_leaves_with_its_length() {
    let text = br#"{"id":7,"name":"Ada"},"#.repeat(100);
    let mut response = json(Box::pin(BytesBody::new(text.clone().into())));
    response.headers_mut().insert(CONTENT_LENGTH, text.len().into());
    response.headers_mut().insert(ETAG, HeaderValue::from_static("\"v1\""));
    response.headers_mut().insert(VARY, HeaderValue::from_static("origin"));
    let response = wrap(&compressor(), response, &asking("gzip")).await;
    assert_eq!(field(&response, CONTENT_ENCODING), Some("gzip"));
    assert_eq!(field(&response, ETAG), Some("W/\"v1\""));
    assert_eq!(field(&response, CONTENT_LENGTH), None);
    let varies: Vec<_> = response.headers().get_all(VARY).iter().collect();
    assert_eq!(varies, ["origin", "accept-encoding"]);
    let told = response.body().size_hint().exact();
    let (coded, ..) = drain(response.into_body()).await;
    assert_eq!((told, read(Coding::Gzip, &coded)), (Some(coded.len() as u64), (text, true)));
}

#[tokio::test]
async fn who_does_not_ask_gets_the_answer_as_it_is_and_learns_that_others_may_not() {
    let text = Bytes::from(vec![b'a'; 2000]);
    for headers in [HeaderMap::new(), asking("identity"), asking("gzip;q=0")] {
        let response = wrap(&compressor(), json(Box::pin(BytesBody::new(text.clone()))), &headers).await;
        assert_eq!((field(&response, CONTENT_ENCODING), field(&response, VARY)), (None, Some("accept-encoding")));
        assert_eq!(drain(response.into_body()).await.0, text);
    }
}

#[tokio::test]
async fn what_must_not_be_changed_is_not() {
    let with = |status: StatusCode, name: HeaderName, value: &'static str| {
        let mut response = json(Box::pin(BytesBody::new(Bytes::from(vec![b'a'; 2000]))));
        *response.status_mut() = status;
        response.headers_mut().insert(name, HeaderValue::from_static(value));
        response
    };
    let ok = StatusCode::OK;
    for response in [
        with(StatusCode::PARTIAL_CONTENT, ETAG, "\"v\""),
        with(ok, CONTENT_RANGE, "bytes 0-1999/4000"),
        with(ok, CONTENT_ENCODING, "br"),
        with(ok, CACHE_CONTROL, "public, No-Transform"),
        with(ok, CONTENT_TYPE, "image/png"),
        with(ok, CONTENT_LENGTH, "1023"),
    ] {
        let before = response.headers().clone();
        let after = wrap(&compressor(), response, &asking("gzip")).await;
        assert_eq!(*after.headers(), before);
    }
}

#[test]
fn a_304_has_the_tag_that_the_client_was_given() {
    for (given, wanted) in [("W/\"v1\"", "W/\"v1\""), ("\"v1\"", "\"v1\""), ("\"v0\", W/\"v1\"", "W/\"v1\"")] {
        let mut response = Response::new(Box::pin(BytesBody::new(Bytes::new())) as PulledBody);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().insert(ETAG, HeaderValue::from_static("\"v1\""));
        let mut request = asking("gzip");
        request.insert(IF_NONE_MATCH, HeaderValue::from_static(given));
        let response = tell(response, &request);
        assert_eq!((field(&response, ETAG), field(&response, VARY)), (Some(wanted), Some("accept-encoding")));
        assert_eq!(field(&response, CONTENT_ENCODING), None);
    }
}

#[tokio::test]
async fn small_bodies_never_grow() {
    let mut dice = TestRng(11);
    for size in [0, 1, 20, 200, 1023, 1024, 1500, 4000, 30_000] {
        for text in [vec![b'a'; size], (0..size).map(|_| dice.below(256) as u8).collect()] {
            for coding in Coding::ALL {
                let acts = text.chunks(700).map(data);
                let response = wrap(&compressor(), json(Script::of(acts)), &asking(coding.word())).await;
                let (sent, ..) = drain(response.into_body()).await;
                assert!(sent.len() <= text.len(), "{coding:?} {size}");
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_refuses_the_plain_answer_gets_a_coded_one() {
    let response =
        wrap(&compressor(), json(Box::pin(BytesBody::new("{}".into()))), &asking("gzip, identity;q=0")).await;
    assert_eq!(field(&response, CONTENT_ENCODING), Some("gzip"));
    assert_eq!(read(Coding::Gzip, &drain(response.into_body()).await.0), (b"{}".to_vec(), true));
}

#[tokio::test]
async fn an_answer_to_head_says_what_get_would() {
    let mut response = json(Box::pin(BytesBody::new(Bytes::new())));
    response.headers_mut().insert(CONTENT_LENGTH, 55_205.into());
    let response = tell(response, &asking("br"));
    assert_eq!(field(&response, CONTENT_ENCODING), Some("br"));
    assert_eq!((field(&response, CONTENT_LENGTH), response.body().size_hint().exact()), (None, None));
}

#[tokio::test]
async fn what_is_too_dense_is_stored_in_the_coding_that_head_tells_of() {
    let mut dice = TestRng(5);
    let noise: Vec<u8> = (0..100_000).map(|_| dice.below(256) as u8).collect();
    let response = wrap(&compressor(), json(Script::of(noise.chunks(8_000).map(data))), &asking("gzip")).await;
    assert_eq!(field(&response, CONTENT_ENCODING), Some("gzip"));
    let (coded, ..) = drain(response.into_body()).await;
    assert!(coded.len() < noise.len() + 200, "{}", coded.len());
    assert!(read(Coding::Gzip, &coded) == (noise, true));
}

/// The response for a body whose halves come 2 ms after each other.
async fn late(compressor: Compressor, text: &'static [u8], told: Option<usize>) -> Response<PulledBody> {
    let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(2);
    let parts = futures_util::stream::unfold(receiver, async |mut receiver| {
        let part = receiver.recv().await?;
        Some((Ok::<_, Error>(Frame::data(part)), receiver))
    });
    let upstream = async move {
        for half in text.chunks(text.len().div_ceil(2)) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            sender.send(Bytes::from_static(half)).await.expect("room");
        }
    };
    let mut response = json(Box::pin(http_body_util::StreamBody::new(parts)));
    response.headers_mut().extend(told.map(|length| (CONTENT_LENGTH, length.into())));
    let headers = asking("gzip");
    tokio::join!(wrap(&compressor, response, &headers), upstream).0
}

#[tokio::test(start_paused = true)]
async fn a_short_body_whose_end_comes_later_is_not_coded() {
    let text = br#"{"id":1,"name":"Ada Ada Ada"}"#;
    // More than is looked at ahead: the end is waited for all the same.
    let patient = Compressor { min_size: 1 << 20, ..compressor() };
    for compressor in [compressor(), patient] {
        let response = late(compressor, text, None).await;
        assert_eq!(field(&response, CONTENT_ENCODING), None);
        assert_eq!(drain(response.into_body()).await.0, text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_of_known_length_that_comes_later_is_coded_whole() {
    let text = "abcde ".repeat(500).leak().as_bytes();
    let response = late(compressor(), text, Some(text.len())).await;
    assert_eq!(field(&response, CONTENT_ENCODING), Some("gzip"));
    assert!(response.body().size_hint().exact().is_some_and(|length| length < 100));
    let mut dice = TestRng(17);
    let noise = (0..3000).map(|_| dice.below(256) as u8).collect::<Vec<_>>().leak();
    let response = late(compressor(), noise, Some(noise.len())).await;
    assert_eq!(field(&response, CONTENT_ENCODING), None);
    assert!(drain(response.into_body()).await.0 == noise);
}

#[tokio::test]
async fn a_large_answer_is_the_same_whoever_compresses_it() {
    let mut dice = Bodies(TestRng(13));
    let mut text = Vec::new();
    while text.len() < 6 << 20 {
        text.extend_from_slice(&dice.body());
    }
    for coding in Coding::ALL {
        for pause in [3, 40, 10_000] {
            let chunks = text.chunks(31_000).enumerate().flat_map(|(at, chunk)| {
                let wait = (at % pause == pause - 1).then_some(Act::Wait);
                wait.into_iter().chain([data(chunk)])
            });
            let encoder = Encoder::new(coding, &levels()).expect("memory");
            let (coded, ..) = drain(Box::pin(Coded::new(Script::of(chunks), encoder))).await;
            assert!(read(coding, &coded) == (text.clone(), true), "{coding:?} {pause}");
        }
    }
}

/// The thesis: 16,563 bytes with gzip.
#[tokio::test]
async fn fifty_users_are_no_larger_compressed_than_in_the_thesis() {
    let users = crocodile_pear_demo::fifty_users().await;
    let on = crocodile_pear::unstable::config::spec::defaults::<Compress>();
    let compressor = on.ready(&mut Problems::default()).expect("on");
    for (coding, most) in [("gzip", 16_563), ("deflate", 16_563), ("br", 16_563), ("zstd", 16_000)] {
        let mut response = http::Response::new(AnswerBody::Bytes(users.clone()));
        response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
        let accepted = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(coding))]);
        assert!(compressor.code(&mut response, &accepted, None).is_none(), "the body is complete");
        let size = response.body().length().expect("bytes") as usize;
        assert!(size <= most, "{coding}: {size}");
    }
}
