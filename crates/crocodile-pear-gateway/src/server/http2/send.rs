//! Passes an answer to `h2`: the body is read as the client's window allows.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::http::http1::trailers;
use crocodile_pear::unstable::message::body::PulledBody;
use crocodile_pear::unstable::runtime::deadline_timer::Alarm;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{CONTENT_LENGTH, DATE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body as _, Frame};
use tokio::time::Instant;

use super::super::grpc;
use super::super::outgoing::{Outgoing, content_length, declared, is_bodiless, is_hurried, with_date, wrong_length};
use super::super::pace::TimeBalance;
use super::super::reply::{Ending, Observed, Reply};
use super::super::settings::Settings;
use super::request::framing;
use super::stream_end::{StreamOutcome, UnsentAnswer};

/// Pieces below this size are joined, if there are several.
const SMALL: usize = 4 * 1024;

/// Small pieces are joined into one frame of up to this size.
const BATCH: usize = 16 * 1024;

/// The properties of a request that decide how its answer is sent.
#[derive(Clone, Copy)]
pub struct ResponseMode {
    pub head_only: bool,
    /// Failures are reported in trailers.
    pub grpc: bool,
}

/// A body that is being sent.
pub struct BodySender {
    stream: Option<SendStream<Bytes>>,
    body: PulledBody,
    /// Data that was read but not sent.
    ahead: Bytes,
    /// The step after that data.
    next: NextFrame,
    /// How many bytes are still to come, if the head has told.
    left: Option<u64>,
    grpc: bool,
    observed: Observed,
    /// Since when the client's window has been closed.
    stalled: Option<Instant>,
    /// How long the window was closed before the next data.
    waited: Duration,
    pace: TimeBalance,
    /// Whether a minimum rate applies to the answer. Streams have none.
    hurried: bool,
    alarm: Alarm,
}

/// The step after the data that was read.
enum NextFrame {
    More,
    End,
    Trailers(HeaderMap),
    Failed(Error),
}

impl BodySender {
    /// Sends the head, and also the body if it is in memory.
    ///
    /// # Errors
    /// The state of the answer if all of it was passed on, or if nothing can be.
    pub fn new(reply: Reply, asked: ResponseMode, mut respond: SendResponse<Bytes>) -> Result<Self, StreamOutcome> {
        let Reply { response, observer, .. } = reply;
        let mut observed = Observed { observer, bytes: 0 };
        let (mut parts, body) = response.into_parts();
        let body = match Outgoing::from_body(body) {
            Ok(body) => body,
            Err(error) => return Err(fail(error, observed, &mut respond)),
        };
        let left = frame(parts.status, &mut parts.headers, body.length(), asked.head_only);
        let hurried = !asked.grpc && is_hurried(&parts.headers, &parts.extensions);
        let (whole, body) = match body {
            _ if asked.head_only || is_bodiless(parts.status) => (Some(Bytes::new()), None),
            Outgoing::Whole(bytes) => (Some(bytes), None),
            Outgoing::Pulled(body) => (None, Some(body)),
        };
        let uneven = whole.as_ref().zip(left).map(|(bytes, left)| (bytes.len() as u64, left));
        let uneven = uneven.filter(|(length, left)| length != left);
        let empty = whole.as_ref().is_some_and(Bytes::is_empty) && uneven.is_none();
        let mut head = Response::new(());
        (*head.status_mut(), *head.headers_mut()) = (parts.status, parts.headers);
        let Ok(mut stream) = respond.send_response(head, empty) else {
            observed.end(Ending::ClientGone);
            return Err(StreamOutcome::Over);
        };
        let Some(body) = body else {
            let bytes = whole.unwrap_or_default();
            let total = bytes.len() as u64;
            if !empty {
                // The whole body is in memory. `h2` buffers what exceeds the window, which takes no more memory than
                // keeping it here.
                let _ = stream.send_data(bytes, uneven.is_none());
            }
            let (how, reset) = match uneven {
                Some((length, left)) => (Ending::Failed(wrong_length(length, left)), Some(Reason::INTERNAL_ERROR)),
                None => (Ending::Whole, None),
            };
            return Err(StreamOutcome::Leaving(UnsentAnswer { stream, observed, how, total, reset }));
        };
        Ok(BodySender {
            stream: Some(stream),
            body,
            ahead: Bytes::new(),
            next: NextFrame::More,
            left,
            grpc: asked.grpc,
            observed,
            stalled: None,
            waited: Duration::ZERO,
            pace: TimeBalance::default(),
            hurried,
            alarm: Alarm::default(),
        })
    }

    /// Continues sending until the answer ends.
    pub fn poll(&mut self, settings: &Settings, cx: &mut Context<'_>) -> Poll<StreamOutcome> {
        loop {
            let Some(stream) = &mut self.stream else { return Poll::Ready(StreamOutcome::Over) };
            if let Poll::Ready(reason) = stream.poll_reset(cx) {
                self.observed.end(reason.map_or(Ending::ClientGone, Ending::ClientReset));
                return Poll::Ready(StreamOutcome::Over);
            }
            let pulling = self.ahead.is_empty() && matches!(self.next, NextFrame::More);
            if self.ahead.is_empty() && !pulling {
                return Poll::Ready(self.finish());
            }
            // Reads from the body only when the window is open. Once bytes have left, one piece is read although it is closed: that
            // may be the end, which needs no window. Some clients open the window again only after the end.
            stream.reserve_capacity(self.ahead.len().max(1));
            if stream.capacity() == 0 {
                match stream.poll_capacity(cx) {
                    Poll::Ready(Some(Ok(_))) => continue,
                    Poll::Ready(_) => {
                        self.observed.end(Ending::ClientGone);
                        return Poll::Ready(StreamOutcome::Over);
                    }
                    Poll::Pending if pulling && self.observed.bytes > 0 => {}
                    Poll::Pending => return self.poll_stalled(settings, cx),
                }
            }
            if let Some(since) = self.stalled.take() {
                self.waited += since.elapsed();
            }
            if pulling {
                ready!(self.pull(cx));
                continue;
            }
            let part = self.ahead.split_to(stream.capacity().min(self.ahead.len()));
            let last = self.ahead.is_empty() && matches!(self.next, NextFrame::End);
            self.observed.bytes += part.len() as u64;
            if let Some(rate) = settings.min_rate.as_ref().filter(|_| self.hurried && !self.waited.is_zero()) {
                self.pace.moved(std::mem::take(&mut self.waited), part.len() as u64, rate, settings.write);
            }
            if stream.send_data(part, last).is_err() {
                self.observed.end(Ending::ClientGone);
                return Poll::Ready(StreamOutcome::Over);
            }
            if last {
                return Poll::Ready(self.finish_stream(Ending::Whole, None));
            }
        }
    }

    /// The client's window is closed: checks for how long.
    fn poll_stalled(&mut self, settings: &Settings, cx: &mut Context<'_>) -> Poll<StreamOutcome> {
        let since = *self.stalled.get_or_insert_with(Instant::now);
        let mut due = since + settings.write;
        if let Some(rate) = settings.min_rate.as_ref().filter(|_| self.hurried) {
            due = due.min(self.pace.due(since, rate));
        }
        if self.alarm.poll(due, cx).is_pending() {
            return Poll::Pending;
        }
        if let Some(stream) = &mut self.stream {
            stream.send_reset(Reason::CANCEL);
        }
        self.observed.end(Ending::ClientSlow);
        Poll::Ready(StreamOutcome::Over)
    }

    /// Reads what is available, and joins small pieces up to one frame.
    fn pull(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut small = BytesMut::new();
        loop {
            let frame = match self.body.as_mut().poll_frame(cx) {
                Poll::Pending if self.ahead.is_empty() && small.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(frame) => frame,
            };
            let Some(data) = self.accept(frame) else { break };
            if self.body.is_end_stream() {
                self.next = self.whole();
            }
            let (first, more) = (self.ahead.is_empty() && small.is_empty(), matches!(self.next, NextFrame::More));
            if first && (data.len() >= SMALL || !more) {
                self.ahead = data;
                break;
            }
            if first {
                self.ahead = data;
                continue;
            }
            if small.is_empty() {
                small.extend_from_slice(&self.ahead);
            }
            small.extend_from_slice(&data);
            if small.len() >= BATCH || !more {
                break;
            }
        }
        if !small.is_empty() {
            self.ahead = small.freeze();
        }
        Poll::Ready(())
    }

    /// Takes in a frame of the body; returns its data, if any.
    fn accept(&mut self, frame: Option<Result<Frame<Bytes>, Error>>) -> Option<Bytes> {
        let frame = match frame {
            None => {
                self.next = self.whole();
                return None;
            }
            Some(Err(error)) => {
                self.next = NextFrame::Failed(error);
                return None;
            }
            Some(Ok(frame)) => frame,
        };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                self.next = match (self.whole(), frame.into_trailers()) {
                    (NextFrame::End, Ok(trailers)) => {
                        trailers::pass(trailers, |_| true).map_or(NextFrame::End, NextFrame::Trailers)
                    }
                    (next, _) => next,
                };
                return None;
            }
        };
        let length = data.len() as u64;
        match self.left {
            Some(left) if left < length => {
                self.next = NextFrame::Failed(wrong_length(length, left));
                return None;
            }
            Some(left) => self.left = Some(left - length),
            None => {}
        }
        Some(data)
    }

    /// The step after the last byte.
    fn whole(&self) -> NextFrame {
        match self.left {
            Some(left @ 1..) => NextFrame::Failed(wrong_length(0, left)),
            _ => NextFrame::End,
        }
    }

    /// All bytes have been passed to `h2`: says how the answer ends.
    fn finish(&mut self) -> StreamOutcome {
        let Some(stream) = &mut self.stream else { return StreamOutcome::Over };
        match std::mem::replace(&mut self.next, NextFrame::End) {
            NextFrame::More | NextFrame::End => {
                let _ = stream.send_data(Bytes::new(), true);
                self.finish_stream(Ending::Whole, None)
            }
            NextFrame::Trailers(trailers) => {
                let _ = stream.send_trailers(trailers);
                self.finish_stream(Ending::Whole, None)
            }
            NextFrame::Failed(error) if self.grpc => {
                let _ = stream.send_trailers(grpc::trailers(error.status(), error.detail()));
                self.finish_stream(Ending::Failed(error), None)
            }
            NextFrame::Failed(error) => self.finish_stream(Ending::Failed(error), Some(Reason::INTERNAL_ERROR)),
        }
    }

    fn finish_stream(&mut self, how: Ending, reset: Option<Reason>) -> StreamOutcome {
        let Some(stream) = self.stream.take() else { return StreamOutcome::Over };
        let total = self.observed.bytes;
        let observed = Observed { observer: self.observed.observer.take(), bytes: total };
        StreamOutcome::Leaving(UnsentAnswer { stream, observed, how, total, reset })
    }
}

/// Fails a stream of which no byte was sent.
fn fail(error: Error, mut observed: Observed, respond: &mut SendResponse<Bytes>) -> StreamOutcome {
    tracing::error!(%error, "an answer could not be written");
    respond.send_reset(Reason::INTERNAL_ERROR);
    observed.end(Ending::Failed(error));
    StreamOutcome::Over
}

/// Removes fields that HTTP/2 forbids and sets the length if it is known. Returns how many bytes must follow, if the
/// head says so.
fn frame(status: StatusCode, headers: &mut HeaderMap, length: Option<u64>, head_only: bool) -> Option<u64> {
    if headers.keys().any(framing) {
        let gone: Vec<HeaderName> = headers.keys().filter(|name| framing(name)).cloned().collect();
        for name in gone {
            headers.remove(name);
        }
    }
    let declared = declared(headers);
    let said = content_length(status, declared, length);
    match said {
        Some(length) if declared != Some(length) => drop(headers.insert(CONTENT_LENGTH, length.into())),
        Some(_) => {}
        None => drop(headers.remove(CONTENT_LENGTH)),
    }
    if !headers.contains_key(DATE) {
        headers.insert(DATE, with_date(Instant::now(), HeaderValue::clone));
    }
    said.filter(|_| !head_only && !is_bodiless(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_has_no_body_promises_none() {
        for (status, said) in [(200, Some("5")), (204, None), (205, Some("0")), (304, Some("5"))] {
            let status = StatusCode::from_u16(status).expect("a status");
            let mut headers = HeaderMap::from_iter([(CONTENT_LENGTH, 5.into())]);
            let follows = frame(status, &mut headers, Some(5), false);
            assert_eq!(headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()), said, "{status}");
            assert_eq!((follows, is_bodiless(status)), ((status == 200).then_some(5), status != 200), "{status}");
        }
    }
}
