//! A body with what came of it before it was asked for.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::message::body::PulledBody;
use http_body::{Body, Frame, SizeHint};
use tokio::time::timeout;

/// The maximum that is read ahead, except for the last chunk.
const AHEAD: usize = 64 << 10;

/// How long the end of a short body is waited for. Most come in one piece with their heads, or at once after them; who
/// sends parts with pauses has the first of them at most so much later.
const PATIENCE: Duration = Duration::from_millis(5);

/// A body that begins with bytes at hand.
pub struct HeldBody {
    ahead: BytesMut,
    next: Option<Result<Frame<Bytes>, Error>>,
    rest: PulledBody,
    ended: bool,
}

impl HeldBody {
    /// Takes what is there. Waits a moment for the end of a body whose length it would take, and of one that does not say
    /// its length, until so many bytes have come.
    pub async fn look(body: PulledBody, length: Option<u64>, least: u64) -> Self {
        let mut held = HeldBody { ahead: BytesMut::new(), next: None, rest: body, ended: false };
        let least = match length {
            Some(length) if length > AHEAD as u64 => 0,
            Some(length) => length,
            None => least,
        };
        let enough = poll_fn(|cx| {
            held.fill(cx);
            let known = held.ended || held.next.is_some() || held.ahead.len() as u64 >= least;
            if known { Poll::Ready(()) } else { Poll::Pending }
        });
        // Whatever is there by then decides.
        let _ = timeout(PATIENCE, enough).await;
        held
    }

    fn fill(&mut self, cx: &mut Context<'_>) {
        while self.ahead.len() < AHEAD {
            let Poll::Ready(frame) = self.rest.as_mut().poll_frame(cx) else { return };
            match frame.map(|frame| frame.map(Frame::into_data)) {
                None => {
                    self.ended = true;
                    return;
                }
                Some(Ok(Ok(data))) if self.ahead.is_empty() => self.ahead = data.into(),
                Some(Ok(Ok(data))) => self.ahead.extend_from_slice(&data),
                Some(Ok(Err(other))) => return self.next = Some(Ok(other)),
                Some(Err(error)) => return self.next = Some(Err(error)),
            }
            if self.rest.is_end_stream() {
                self.ended = true;
                return;
            }
        }
    }

    /// The whole body, if that is at hand.
    pub fn whole(&self) -> Option<Bytes> {
        (self.ended && self.next.is_none()).then(|| Bytes::copy_from_slice(&self.ahead))
    }

    /// The body as it was.
    pub fn pulled(self) -> PulledBody {
        match self {
            HeldBody { ahead, next: None, rest, ended: false } if ahead.is_empty() => rest,
            held => Box::pin(held),
        }
    }
}

impl Body for HeldBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if !self.ahead.is_empty() {
            let ahead = std::mem::take(&mut self.ahead).freeze();
            return Poll::Ready(Some(Ok(Frame::data(ahead))));
        }
        if let Some(next) = self.next.take() {
            return Poll::Ready(Some(next));
        }
        if self.ended { Poll::Ready(None) } else { self.rest.as_mut().poll_frame(cx) }
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty() && self.next.is_none() && (self.ended || self.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = self.ahead.len() as u64;
        let rest = if self.ended { SizeHint::with_exact(0) } else { self.rest.size_hint() };
        let mut hint = SizeHint::new();
        // The lower one first: an upper one below it is a fault.
        hint.set_lower(rest.lower() + ahead);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + ahead);
        }
        hint
    }
}
