//! Several answers, one after another.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::StreamExt;
use http::header::HeaderMap;
use http_body::Frame;

use crate::error::Error;
use crate::jq;
use crate::message::answer::Answer;
use crate::message::body::{AnswerBody, PulledBody};
use crate::pipeline::flow::{Flow, Order, Outcome};
use crate::pipeline::step::status::{failure, refuse};

/// Several answers as one: whichever comes first goes first, and goes whole before the next.
pub(super) async fn first_come(flow: Flow) -> Outcome {
    let mut answers = Box::pin(flow.drive(Order::Arrival, |producer| producer.outcome)).filter_map(std::future::ready);
    let first = match answers.next().await? {
        Ok(first) if first.is_usable() => first,
        Ok(refused) => return Some(Err(refuse(refused).await)),
        Err(error) => return Some(Err(error)),
    };
    let body = match first.body.into_pulled() {
        Ok(body) => body,
        Err(error) => return Some(Err(error)),
    };
    let headers = first.headers.get(http::header::CONTENT_TYPE).cloned();
    let headers = HeaderMap::from_iter(headers.map(|media| (http::header::CONTENT_TYPE, media)));
    let body = Sequence { current: Some(body), rest: answers };
    let answer = Answer::new(first.status, headers, AnswerBody::Pulled(Box::pin(body)));
    Some(Ok(Answer { names: first.names, ..answer }))
}

/// The bodies of several answers, one after another; chunks of two are never mixed.
struct Sequence<S> {
    current: Option<PulledBody>,
    rest: S,
}

impl<S: futures_util::Stream<Item = Result<Answer, Error>> + Unpin> http_body::Body for Sequence<S> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            if let Some(current) = &mut self.current {
                match std::task::ready!(current.as_mut().poll_frame(cx)) {
                    Some(Ok(frame)) if frame.is_trailers() => continue,
                    Some(frame) => return Poll::Ready(Some(frame)),
                    None => self.current = None,
                }
            }
            match std::task::ready!(self.rest.poll_next_unpin(cx)) {
                None => return Poll::Ready(None),
                Some(next) => match next.and_then(usable).and_then(|answer| answer.body.into_pulled()) {
                    Ok(body) => self.current = Some(body),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                },
            }
        }
    }
}

/// The answer, unless its status is that of a failure: that is no part of a whole.
fn usable(answer: Answer) -> Result<Answer, Error> {
    if answer.is_usable() {
        return Ok(answer);
    }
    let error = failure(answer.status, &answer.headers, &jq::null().into());
    Err(answer.upstream.iter().fold(error, Error::of_upstream))
}
