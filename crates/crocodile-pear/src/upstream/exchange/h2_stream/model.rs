//! Calls over HTTP/2 on a socket that is only played: it takes and gives as many bytes as chance has it.
//!
//! The clock stands still while any task can run. A call that waits for something of which nobody will wake it moves the
//! clock on to the next timer: that is what these tests look for. A call that wakes itself while it waits keeps the clock from
//! moving: these tests count how often it is polled.

use std::future::poll_fn;
use std::mem::take;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use crocodile_pear_peers::http2::{Asked as Called, converse};
use crocodile_pear_peers::played::{Pauses, Played, bounded, pause, seeds};
use crocodile_pear_peers::test_rng::TestRng;
use http::Response;
use http_body::Frame;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

use super::{H2Stream, StreamSlot};
use crate::error::Error;
use crate::upstream::connect::h2_connection::{Session, SessionSpan, StreamLimits, shake};
use crate::upstream::exchange::request::OutboundRequest;

/// A body in pieces of any size, each of which may have to be waited for.
struct Pieces {
    left: usize,
    piece: usize,
    waits: usize,
    pauses: bool,
    pause: Option<Pin<Box<Sleep>>>,
    dice: TestRng,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let (waits, piece) = (self.waits, self.piece);
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        if self.dice.rare(waits) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let length = (1 + self.dice.below(piece)).min(self.left);
        self.left -= length;
        if take(&mut self.pauses) {
            self.pause = Some(Box::pin(sleep(Pauses::EACH)));
        }
        Poll::Ready(Some(Ok(Frame::data(vec![b'y'; length].into()))))
    }
}

/// Answers with as many bytes as the path says and as many as came, before the body is there or behind it. The query says
/// where it pauses.
async fn answer((request, mut respond): Called) -> Option<()> {
    let mut left: usize = request.uri().path()[1..].parse().ok()?;
    let [mut reads, mut writes] =
        ["reads=yes", "writes=yes"].map(|side| request.uri().query().is_some_and(|query| query.contains(side)));
    let mut body = request.into_body();
    let mut send = left.is_multiple_of(2).then(|| respond.send_response(Response::new(()), false).ok()).flatten();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        left += data.len();
        pause(take(&mut reads)).await;
        body.flow_control().release_capacity(data.len()).ok()?;
    }
    let mut send = match send.take() {
        Some(send) => send,
        None => respond.send_response(Response::new(()), false).ok()?,
    };
    while left > 0 {
        send.reserve_capacity(left);
        let room = poll_fn(|cx| send.poll_capacity(cx)).await?.ok()?.min(left);
        left -= room;
        send.send_data(vec![b'x'; room].into(), false).ok()?;
        pause(take(&mut writes)).await;
    }
    send.send_data(Bytes::new(), true).ok()
}

/// Makes a call, sent and read at once, as a call is; returns how many bytes came. The query has the server's pauses; `reads` is
/// whether the call pauses after the first piece of the answer.
async fn call(slot: StreamSlot, target: String, body: Pieces, mut reads: bool) -> usize {
    let mut request = OutboundRequest::of_body(Box::pin(body));
    let head = http::Request::post(target).body(()).unwrap();
    let Ok(mut stream) = H2Stream::new(slot, head, &mut request) else { panic!("the stream was refused") };
    let head = poll_fn(|cx| {
        stream.poll_send(&mut request, cx).unwrap();
        stream.poll_head(&mut request, cx)
    });
    let Ok((status, _)) = head.await else { panic!("no head") };
    assert_eq!(status, 200);
    let mut came = 0;
    loop {
        let piece = poll_fn(|cx| {
            stream.poll_send(&mut request, cx).unwrap();
            stream.poll_body(cx)
        });
        match piece.await {
            None => return came,
            Some(frame) => came += frame.unwrap().data_ref().map_or(0, Bytes::len),
        }
        let mut paused = pin!(pause(take(&mut reads)));
        poll_fn(|cx| {
            stream.poll_send(&mut request, cx).unwrap();
            paused.as_mut().poll(cx)
        })
        .await;
    }
}

async fn play(seed: u64) {
    let mut dice = TestRng(seed);
    let (server, client) = tokio::io::duplex(dice.of(&[1 << 10, 64 << 10, 1 << 20]));
    let client = Played::new(client, &mut dice);
    let window = dice.of(&[1000, 65_535, 1 << 20, (1 << 31) - 1]);
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(window).initial_connection_window_size(window.max(65_535));
    // Their connection is served until it ends.
    let served = tokio::spawn(async move { converse(server, builder, answer).await });
    let span = SessionSpan { idle: Duration::from_secs(3600), lifetime: Duration::from_secs(7200) };
    let terms = StreamLimits { freed: Arc::new(Notify::new()), most: None };
    let (session, mut driver): (Arc<Session>, _) = shake(client, 16 << 10, span, terms).await.unwrap();
    let driven = tokio::spawn(bounded(async move { driver.until_end().await }));
    let mut pauses = Pauses::new(&mut dice);
    let calls: Vec<_> = (0..1 + dice.below(6))
        .map(|_| {
            let (size, left) = (dice.of(&[0, 1, 5000, 5001, 200_000, 2_000_001]), dice.of(&[0, 0, 1, 300_000]));
            // As many frames as a peer may send.
            let left = if window > 1000 { left } else { left.min(5000) };
            let (piece, waits) = (dice.of(&[1 << 10, 16 << 10, 256 << 10]), dice.of(&[3, 20, usize::MAX]));
            let slot = session.first().unwrap();
            let [pauses, reads, there @ ..]: [bool; 4] = pauses.throw(&mut dice);
            let [asked, answered] = there.map(|pauses| if pauses { "yes" } else { "no" });
            let target = format!("http://h/{size}?reads={asked}&writes={answered}");
            let body = Pieces { left, piece, waits, pauses, pause: None, dice: TestRng(dice.roll()) };
            async move { (size + left, bounded(call(slot, target, body, reads)).await) }
        })
        .collect();
    // The watch of the session has timers, to which the clock would move on for ever.
    let all = futures_util::future::join_all(calls);
    let (began, ended) = (Instant::now(), tokio::time::timeout(pauses.at_most + Duration::from_secs(1), all).await);
    // A call that pauses can hold the window of the others.
    assert!(began.elapsed() <= pauses.at_most, "seed {seed}: a call over HTTP/2 waited for nobody");
    for (wanted, came) in ended.expect("it ended in time") {
        assert_eq!(came, wanted, "seed {seed}");
    }
    drop(session);
    driven.abort();
    let _ = served.await;
}

#[tokio::test(start_paused = true)]
async fn a_call_over_http2_that_waits_is_woken() {
    for seed in seeds(80) {
        play(seed).await;
    }
}
