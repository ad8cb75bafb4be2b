//! `as` of a call: the format of its answer, whatever the answer says.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http_body::Frame;

use super::spec::ReadAs;
use crate::error::Error;
use crate::format;
use crate::message::answer::Answer;
use crate::message::body::{AnswerBody, PulledBody};

/// The guards that stand before a JSON document so that browsers cannot run it as a script.
const GUARDS: [&[u8]; 6] = [b")]}'", b"while(1);", b"while (1);", b"for(;;);", b"for (;;);", b"{}&&"];

/// The longest of these, with the line end behind it.
const LONGEST: usize = 16;

/// The answer in this format. An answer with another status than 2xx keeps its type: it may be an error page.
pub(super) fn relabel(mut answer: Answer, read_as: ReadAs) -> Answer {
    if !answer.is_usable() || !matches!(answer.body, AnswerBody::Bytes(_) | AnswerBody::Pulled(_)) {
        return answer;
    }
    let charset = answer.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).and_then(charset);
    let media = match charset {
        Some(charset) => HeaderValue::try_from(format!("{}; {charset}", read_as.media())).ok(),
        None => None,
    };
    answer.headers.insert(CONTENT_TYPE, media.unwrap_or_else(|| HeaderValue::from_static(read_as.media())));
    if read_as == ReadAs::Json
        && let Ok(mut plain) = format::plain(answer_of(&mut answer))
    {
        if let Ok(body) = plain.body.into_pulled() {
            plain.headers.remove(CONTENT_LENGTH);
            plain.body = AnswerBody::Pulled(Box::pin(Unguarded { body, begun: Some(BytesMut::new()) }));
            return plain;
        }
        return answer;
    }
    answer
}

/// The answer, taken out.
fn answer_of(answer: &mut Answer) -> Answer {
    std::mem::replace(answer, Answer::new(answer.status, http::HeaderMap::new(), AnswerBody::empty()))
}

fn charset(media: &str) -> Option<String> {
    let parameter =
        media.split(';').skip(1).map(str::trim).find(|text| text.to_ascii_lowercase().starts_with("charset="));
    parameter.map(str::to_owned)
}

/// A body without the guard that it begins with.
struct Unguarded {
    body: PulledBody,
    /// The bytes that came first, until it is known whether they are a guard.
    begun: Option<BytesMut>,
}

/// The length of the guard with the blanks around it; 0 without a guard.
fn unguard(begun: &[u8]) -> usize {
    let blank = begun.len() - begun.trim_ascii_start().len();
    let Some(guard) = GUARDS.iter().find(|guard| begun[blank..].starts_with(guard)) else { return 0 };
    let end = blank + guard.len();
    end + begun[end..].iter().take_while(|byte| b",\r\n".contains(byte)).count()
}

impl http_body::Body for Unguarded {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        loop {
            let frame = ready!(this.body.as_mut().poll_frame(cx));
            let Some(begun) = &mut this.begun else { return Poll::Ready(frame) };
            match frame {
                // A document this short has no use for trailers.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        begun.extend_from_slice(&data);
                        if begun.len() < LONGEST {
                            continue;
                        }
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if begun.is_empty() => return Poll::Ready(None),
                None => {}
            }
            let whole = this.begun.take().unwrap_or_default().freeze();
            return Poll::Ready(Some(Ok(Frame::data(whole.slice(unguard(&whole)..)))));
        }
    }
}
