//! `grpc_web`: gRPC for browsers, whose programs see no trailers. Calls of gRPC-Web become calls of gRPC, and the trailers
//! of an answer the last frame of its body.
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md>

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Field, Json, Node, Timeout};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::body::{AnswerBody, PulledBody};
use crocodile_pear::unstable::request::context::Scope;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::Frame;

use crate::layer::{Compile, Layer, LayerPosition, Passage, Spec, Verdict};
use crate::server::{NoMinimumRate, grpc};

const BINARY: &str = "application/grpc-web";
const TEXT: &str = "application/grpc-web-text";

/// The flag of a frame of trailers.
const TRAILERS: u8 = 0x80;

/// The fields that say how a call ended.
const STATUS: [HeaderName; 3] = [
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
];

/// `grpc_web: on`, and where it is written.
#[derive(Clone, Debug)]
pub struct GrpcWeb(Span);

impl Decode for GrpcWeb {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_plain() {
            Some("on" | "true") => Some(GrpcWeb(node.span)),
            _ => problems.error(node.span, "`grpc_web` is neither `on` nor `off`", "write `grpc_web: on`"),
        }
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({ "const": "on" })
    }
}

impl Spec for GrpcWeb {
    type Ready = GrpcWebLayer;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "grpc_web",
        "Whether endpoints that are proxies also take calls of gRPC-Web, binary and text, and pass them to their \
             upstreams as gRPC. Endpoints can override it.",
    ));

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "grpc_web",
        "Whether it also takes calls of gRPC-Web, binary and text, and passes them to the upstream as gRPC. It must \
             be a proxy, and its upstream must speak HTTP/2. Overrides the top-level setting; `off` for no.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<GrpcWebLayer>> {
        Some(Arc::new(GrpcWebLayer { place: self.0, here: cx.params.is_some() }))
    }

    fn around(ready: &Arc<GrpcWebLayer>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        let proxies = at.plan.is_some_and(|plan| plan.is_proxy());
        if !proxies && ready.here && at.plan.is_some() {
            let message = "`grpc_web` needs an endpoint that is a proxy".to_owned();
            let remedy = "write it as `POST /{*method}: UPSTREAM /{*method}`, or leave out `grpc_web`".to_owned();
            at.refused.push((ready.place, message, remedy));
        }
        proxies.then(|| ready.clone() as Arc<dyn Layer>)
    }
}

#[derive(Debug)]
pub struct GrpcWebLayer {
    place: Span,
    /// Whether that is at an endpoint.
    here: bool,
}

/// A call of gRPC-Web, among the extensions of its request.
#[derive(Clone, Copy)]
struct WebCall {
    /// Whether the client wants its answer in base64.
    text: bool,
}

/// The part of a content type behind the name: `+proto`, or nothing.
fn suffix<'a>(media: &'a str, name: &str) -> Option<&'a str> {
    let rest =
        media.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name)).map(|_| &media[name.len()..])?;
    matches!(rest.as_bytes().first(), None | Some(b'+' | b';' | b' ')).then_some(rest)
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("a part of a field is a value")
}

impl Layer for GrpcWebLayer {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        let media = scope.headers().get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let Some((encoded, rest)) = media.and_then(|media| match suffix(media, TEXT) {
            Some(rest) => Some((true, rest)),
            None => suffix(media, BINARY).map(|rest| (false, rest)),
        }) else {
            return Verdict::Pass;
        };
        let plain = value(&format!("application/grpc{rest}"));
        let accepted = scope.headers().get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
        let text = match accepted.filter(|accepted| accepted.contains(BINARY)) {
            Some(accepted) => accepted.contains(TEXT),
            None => encoded,
        };
        let timeout = grpc::timeout(scope.headers());
        scope.headers_mut().insert(CONTENT_TYPE, plain);
        scope.extensions_mut().insert(WebCall { text });
        if let Some(timeout) = timeout {
            scope.set_timeout(Timeout::After(timeout));
        }
        let passage =
            crocodile_pear::unstable::message::side_channel::Passage { trailers: true, ..scope.passage().clone() };
        scope.set_passage(passage);
        if encoded && let Some(body) = scope.take_body() {
            scope.headers_mut().remove(CONTENT_LENGTH);
            if let Ok(body) = body.into_pulled() {
                scope.put_body(AnswerBody::Pulled(Box::pin(Decoded { body, left: BytesMut::new() })));
            }
        }
        Verdict::Pass
    }

    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        let Some(WebCall { text }) = scope.extensions().get().copied() else { return Passage::Done };
        if !grpc::speaks(response.headers()) {
            fail(response);
        }
        let headers = response.headers_mut();
        let media = headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
        let rest = suffix(media, "application/grpc").unwrap_or_default();
        let media = value(&format!("{}{rest}", if text { TEXT } else { BINARY }));
        headers.insert(CONTENT_TYPE, media);
        headers.remove(CONTENT_LENGTH);
        // A status in the head, as of a call that failed at once, is a frame too: pages of other origins see no field
        // that is not exposed to them.
        let mut status = HeaderMap::new();
        for name in STATUS {
            if let Some(value) = headers.remove(&name) {
                status.insert(name, value);
            }
        }
        response.extensions_mut().insert(NoMinimumRate);
        let body = std::mem::replace(response.body_mut(), AnswerBody::empty());
        if let Ok(body) = body.into_pulled() {
            let messages = Messages::default();
            *response.body_mut() = AnswerBody::Pulled(Box::pin(Framed { body: Some(body), messages, status, text }));
        }
        Passage::Done
    }

    fn outline(&self) -> Option<String> {
        Some("takes calls of gRPC-Web as calls of gRPC".to_owned())
    }
}

/// Makes a failure of gRPC of an answer that is none.
fn fail(response: &mut Response<AnswerBody>) {
    grpc::dress(response);
    if !grpc::speaks(response.headers()) {
        let status = match response.status() {
            status if status.is_success() => StatusCode::BAD_GATEWAY,
            status => status,
        };
        let detail = format!("the answer is none of gRPC: its status is {}", response.status().as_u16());
        *response = Response::new(AnswerBody::empty());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response.headers_mut().extend(grpc::trailers(status, &detail));
    }
}

/// The body of a request, decoded from base64. Each piece that the client encoded for itself may end in padding.
struct Decoded {
    body: PulledBody,
    /// Less than four characters.
    left: BytesMut,
}

impl Decoded {
    fn decode(&mut self, data: &[u8]) -> Result<Bytes, Error> {
        let broken = || Error::new(Kind::BadRequest, "the body of the call is not base64");
        self.left.extend_from_slice(data);
        let whole = self.left.split_to(self.left.len() / 4 * 4);
        let mut made = BytesMut::with_capacity(whole.len());
        let mut rest = &whole[..];
        while !rest.is_empty() {
            // A group with padding ends a part that was encoded for itself.
            let end = rest.iter().position(|sign| *sign == b'=').map_or(rest.len(), |at| (at / 4 + 1) * 4);
            let (part, after) = rest.split_at(end.min(rest.len()));
            made.extend_from_slice(&BASE64_STANDARD.decode(part).map_err(|_| broken())?);
            rest = after;
        }
        Ok(made.freeze())
    }
}

impl http_body::Body for Decoded {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            match ready!(crocodile_pear::unstable::message::body::poll_data(&mut self.body, cx)) {
                Some(Ok(data)) => match self.decode(&data) {
                    Ok(made) if made.is_empty() => {}
                    made => return Poll::Ready(Some(made.map(Frame::data))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.left.is_empty() => return Poll::Ready(None),
                None => {
                    self.left.clear();
                    let error = Error::new(Kind::BadRequest, "the base64 of the call is cut off");
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

/// The messages of an answer, as far as they have come: a flag, a length, and so many bytes each.
#[derive(Default)]
struct Messages {
    /// The flag and the length, until both are known.
    head: Vec<u8>,
    /// The rest of a message.
    left: usize,
}

impl Messages {
    /// How many of these bytes are of messages. The byte behind them is the flag of a frame that no message has: a browser would take
    /// it for the end of the call.
    fn take(&mut self, data: &[u8]) -> usize {
        let mut at = 0;
        while at < data.len() {
            let rest = &data[at..];
            if self.left > 0 {
                let taken = rest.len().min(self.left);
                (self.left, at) = (self.left - taken, at + taken);
                continue;
            }
            if self.head.is_empty() && rest[0] & TRAILERS != 0 {
                break;
            }
            self.head.push(rest[0]);
            at += 1;
            if let [_, length @ ..] = &*self.head
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                self.left = u32::from_be_bytes(length) as usize;
                self.head.clear();
            }
        }
        at
    }

    /// Whether the last one has come to its end.
    fn are_whole(&self) -> bool {
        self.left == 0 && self.head.is_empty()
    }
}

/// The body of an answer: the messages as they come, then the trailers as a frame.
struct Framed {
    /// `None` after the last frame.
    body: Option<PulledBody>,
    messages: Messages,
    /// The status, if the head has it.
    status: HeaderMap,
    text: bool,
}

impl Framed {
    fn data(&self, data: Bytes) -> Frame<Bytes> {
        Frame::data(if self.text { BASE64_STANDARD.encode(&data).into() } else { data })
    }

    fn end(&mut self, trailers: HeaderMap) -> Frame<Bytes> {
        self.body = None;
        let mut all = std::mem::take(&mut self.status);
        all.extend(trailers);
        if !all.contains_key(&STATUS[0]) {
            all.extend(grpc::trailers(StatusCode::BAD_GATEWAY, "the call ended without a status"));
        }
        let mut text = Vec::new();
        for (name, value) in &all {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        let mut frame = BytesMut::with_capacity(5 + text.len());
        frame.put_u8(TRAILERS);
        frame.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        frame.extend_from_slice(&text);
        self.data(frame.freeze())
    }
}

impl http_body::Body for Framed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let (trailers, fault) = match ready!(body.as_mut().poll_frame(cx)) {
            None => (HeaderMap::new(), None),
            Some(Err(error)) => (grpc::trailers(error.status(), error.detail()), Some(error)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(mut data) => {
                    let taken = self.messages.take(&data);
                    if taken == data.len() {
                        return Poll::Ready(Some(Ok(self.data(data))));
                    }
                    data.truncate(taken);
                    let fault = "a message of the upstream has the flag of trailers";
                    let last = self.end(grpc::trailers(StatusCode::BAD_GATEWAY, fault));
                    let last = last.into_data().unwrap_or_default();
                    // Text is encoded in parts, so both can stand side by side.
                    let first = self.data(data).into_data().unwrap_or_default();
                    return Poll::Ready(Some(Ok(Frame::data([first, last].concat().into()))));
                }
                Err(frame) => (frame.into_trailers().unwrap_or_default(), None),
            },
        };
        if !self.messages.are_whole() {
            // Its client would take the trailers for the rest of the message.
            self.body = None;
            let cut = || Error::new(Kind::Cut, "the upstream ended the call within a message");
            return Poll::Ready(Some(Err(fault.unwrap_or_else(cut))));
        }
        Poll::Ready(Some(Ok(self.end(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_body::Body as _;

    use super::*;

    /// The bytes that a client of gRPC-Web gets of these parts of an answer, and whether it ends well.
    async fn framed(parts: &[&[u8]]) -> (Vec<u8>, bool) {
        let parts: Vec<_> = parts.iter().map(|part| Ok(Frame::data(Bytes::copy_from_slice(part)))).collect();
        let body: PulledBody = Box::pin(http_body_util::StreamBody::new(futures_util::stream::iter(parts)));
        let mut status = HeaderMap::new();
        status.insert("grpc-status", HeaderValue::from_static("0"));
        let mut framed = Framed { body: Some(body), messages: Messages::default(), status, text: false };
        let mut all = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut framed).poll_frame(cx)).await {
            match frame {
                Ok(frame) => all.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Err(_) => return (all, false),
            }
        }
        (all, true)
    }

    const MESSAGES: &[u8] = b"\0\0\0\0\x03abc\x01\0\0\0\0\0\0\0\0\x01\0\x80";

    #[tokio::test]
    async fn messages_pass_however_they_are_cut_and_trailers_follow() {
        let whole = &MESSAGES[..MESSAGES.len() - 1];
        for size in 1..=whole.len() {
            let (all, well) = framed(&whole.chunks(size).collect::<Vec<_>>()).await;
            let end = &all[whole.len()..];
            assert!(well && all.starts_with(whole) && end == b"\x80\0\0\0\x10grpc-status: 0\r\n", "{size}");
        }
    }

    #[tokio::test]
    async fn no_message_of_an_upstream_becomes_trailers() {
        for size in 1..=MESSAGES.len() {
            let mut bad = MESSAGES.to_vec();
            bad.extend_from_slice(b"\0\0\0\x0fgrpc-status: 7\r\n");
            let (all, well) = framed(&bad.chunks(size).collect::<Vec<_>>()).await;
            let end = String::from_utf8_lossy(&all[MESSAGES.len() - 1..]).into_owned();
            assert!(well && end.contains("the flag of trailers") && !end.contains("status: 7"), "{size}: {end}");
        }
    }

    #[tokio::test]
    async fn a_message_that_is_cut_off_is_no_end_of_a_call() {
        for end in [3, 6, 10] {
            let (all, well) = framed(&[&MESSAGES[..end]]).await;
            assert!(!well && all == MESSAGES[..end], "{end}");
        }
    }
}
