//! Answers compressed on their way out: one stream each, delivered as their parts arrive.

mod coded;
mod deflate;
mod encoder;
mod fast;
mod gzip;
mod held;
mod media;
mod negotiate;
mod pool;
mod press;
mod recorded;
mod sample;

use crocodile_pear::unstable::cache::{Copy, Kept, Making};
use crocodile_pear::unstable::http::list;
use crocodile_pear::unstable::message::answer::OF_BYTES;
use crocodile_pear::unstable::message::body::{AnswerBody, PulledBody};
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use bytes::Bytes;
use coded::Coded;
use encoder::Encoder;
use futures_util::future::Either;
use held::HeldBody;
use recorded::Recorded;

use crate::http::response::without_length;

pub use encoder::{LARGE, Levels, SMALL};
pub use media::{MediaRange, usual};
pub use negotiate::{Coding, CodingChoice, choose};

/// The coding that a client would have.
#[derive(Clone, Copy)]
struct WantedCoding {
    coding: Coding,
    /// Whether it takes nothing else.
    asked: bool,
}

/// A body of this size is compressed within two milliseconds at the levels for small ones.
const FEW: u64 = 128 << 10;

/// The compressor for the answers of an endpoint.
#[derive(Debug)]
pub struct Compressor {
    /// The codings to offer. If a client accepts several equally, the first of these is used.
    pub codings: Vec<Coding>,
    /// A shorter body is sent as it is.
    pub min_size: u64,
    pub types: Vec<MediaRange>,
    /// For small bodies.
    pub small: Levels,
    pub large: Levels,
}

impl Compressor {
    /// Makes of an answer what the client would have. One that is whole leaves with its length, and never longer than it
    /// was; one that still comes is looked at first: then there is something to wait for. Of one that is `kept` the copy is
    /// taken, or made for all who ask later.
    pub fn code<'a>(
        &'a self,
        response: &'a mut Response<AnswerBody>,
        request: &HeaderMap,
        kept: Option<&Kept>,
    ) -> Option<impl Future<Output = ()> + Send + 'a> {
        let length = declared_length(response).or_else(|| response.body().length());
        let choice = self.offer(response, request, length);
        let (CodingChoice::Coded(coding) | CodingChoice::Only(coding)) = choice else { return None };
        let wanted = WantedCoding { coding, asked: matches!(choice, CodingChoice::Only(_)) };
        let kept = kept.filter(|kept| kept.is_all_of(response.body()));
        if kept.is_some_and(|kept| take(response, kept, wanted)) {
            return None;
        }
        let copy = kept.and_then(|kept| kept.begin(coding.word()));
        let bytes = match std::mem::replace(response.body_mut(), AnswerBody::empty()) {
            AnswerBody::Bytes(bytes) => bytes,
            AnswerBody::Json(raw) => raw.bytes().clone(),
            AnswerBody::Pulled(body) => {
                return Some(Either::Left(self.code_rest(response, body, length, wanted, copy)));
            }
            other => {
                *response.body_mut() = other;
                return None;
            }
        };
        if self.small.is_slow(coding) {
            return Some(Either::Right(self.code_elsewhere(response, bytes, wanted, copy)));
        }
        self.code_whole(response, bytes, wanted, copy);
        None
    }

    /// An encoder for a body that is whole, if it is worth it.
    fn encoder(&self, bytes: &Bytes, wanted: WantedCoding) -> Option<Encoder> {
        let worth = bytes.len() as u64 >= self.min_size.max(1) || wanted.asked;
        worth.then(|| Encoder::new(wanted.coding, &self.small)).flatten()
    }

    fn code_whole(
        &self,
        response: &mut Response<AnswerBody>,
        bytes: Bytes,
        wanted: WantedCoding,
        copy: Option<Making>,
    ) {
        let coded = self.encoder(&bytes, wanted).and_then(|mut encoder| encoder.whole(&bytes).ok());
        put(response, bytes, coded, wanted, copy);
    }

    /// Like `code_whole`, on another thread.
    async fn code_elsewhere(
        &self,
        response: &mut Response<AnswerBody>,
        bytes: Bytes,
        wanted: WantedCoding,
        copy: Option<Making>,
    ) {
        let coded = match self.encoder(&bytes, wanted) {
            Some(encoder) => pool::whole(encoder, bytes.clone()).await.ok(),
            None => None,
        };
        put(response, bytes, coded.map(Bytes::from), wanted, copy);
    }

    async fn code_rest(
        &self,
        response: &mut Response<AnswerBody>,
        body: PulledBody,
        length: Option<u64>,
        wanted: WantedCoding,
        copy: Option<Making>,
    ) {
        let held = HeldBody::look(body, length, self.min_size).await;
        if let Some(bytes) = held.whole() {
            return match self.small.is_slow(wanted.coding) {
                true => self.code_elsewhere(response, bytes, wanted, copy).await,
                false => self.code_whole(response, bytes, wanted, copy),
            };
        }
        let few = length.is_some_and(|length| length <= FEW);
        let levels = if few { &self.small } else { &self.large };
        let Some(encoder) = Encoder::new(wanted.coding, levels) else {
            *response.body_mut() = AnswerBody::Pulled(held.pulled());
            return;
        };
        describe(response.headers_mut(), wanted.coding);
        let coded = match levels.is_slow(wanted.coding) {
            true => Coded::slow(held.pulled(), encoder),
            false => Coded::new(held.pulled(), encoder),
        };
        *response.body_mut() = AnswerBody::Pulled(match copy {
            None => Box::pin(coded),
            Some(copy) => Box::pin(Recorded::new(coded, copy)),
        });
    }

    /// An upstream's answer to HEAD, which has no body, with the fields of the answer to GET. Its length is left out
    /// where it would have to be found out first (RFC 9110, 9.3.2).
    pub fn tell(&self, response: &mut Response<AnswerBody>, request: &HeaderMap) {
        // A problem of the gateway's own has its body still, which the server leaves out.
        let exact = response.body().length().filter(|length| *length > 0);
        let length = declared_length(response).or(exact);
        let choice = self.offer(response, request, length);
        if let CodingChoice::Coded(coding) | CodingChoice::Only(coding) = choice {
            describe(response.headers_mut(), coding);
            without_length(response);
        }
    }

    /// Chooses a coding for an answer whose body has this length, as far as that is known. If the choice depends on the client, the
    /// answer says so.
    fn offer(&self, response: &mut Response<AnswerBody>, request: &HeaderMap, length: Option<u64>) -> CodingChoice {
        if response.status() == StatusCode::NOT_MODIFIED {
            self.confirm(response.headers_mut(), request);
        }
        if fixed(response) {
            return CodingChoice::Plain;
        }
        let choice = negotiate::choose(request, &self.codings);
        let worth = length.is_none_or(|length| length >= self.min_size) && self.takes(response.headers());
        let asked = matches!(choice, CodingChoice::Only(_)) && length != Some(0);
        if !worth && !asked {
            return CodingChoice::Plain;
        }
        vary(response.headers_mut());
        choice
    }

    /// A 304 says what the 200 said (RFC 9110, 15.4.5): the client may choose, and the tag is the one that it was given.
    fn confirm(&self, headers: &mut HeaderMap, request: &HeaderMap) {
        if headers.contains_key(CONTENT_TYPE) && !self.takes(headers) {
            return;
        }
        vary(headers);
        let given = |weak: &HeaderValue| {
            let mut values = request.get_all(IF_NONE_MATCH).iter().map(HeaderValue::as_bytes);
            values.any(|value| value.windows(weak.len()).any(|tag| tag == weak.as_bytes()))
        };
        if let Some(weak) = weakened(headers).filter(given) {
            headers.insert(ETAG, weak);
        }
    }

    fn takes(&self, headers: &HeaderMap) -> bool {
        let Some(written) = headers.get(CONTENT_TYPE) else { return false };
        self.types.iter().any(|media| media.matches(written.as_bytes()))
    }
}

/// Makes a coded body that of the answer, if it is smaller or nothing else is taken.
fn put(
    response: &mut Response<AnswerBody>,
    bytes: Bytes,
    coded: Option<Bytes>,
    wanted: WantedCoding,
    copy: Option<Making>,
) {
    if let (Some(mut copy), Some(coded)) = (copy, &coded) {
        copy.push(coded);
        copy.finish(None);
    }
    let coded = coded.filter(|coded| coded.len() < bytes.len() || wanted.asked);
    if coded.is_some() {
        describe(response.headers_mut(), wanted.coding);
    }
    *response.body_mut() = AnswerBody::Bytes(coded.unwrap_or(bytes));
}

/// Gives the copy in this coding, if there is one; the answer as it is, where that would not be smaller.
fn take(response: &mut Response<AnswerBody>, kept: &Kept, wanted: WantedCoding) -> bool {
    match kept.copy(wanted.coding.word()) {
        Some(Copy::Made(body)) => {
            describe(response.headers_mut(), wanted.coding);
            *response.body_mut() = body.read();
            true
        }
        Some(Copy::Useless) => !wanted.asked,
        None => false,
    }
}

/// Whether an answer must be handed on as it is: it has no body, is a part, is coded, or forbids it.
fn fixed(response: &Response<AnswerBody>) -> bool {
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    let headers = response.headers();
    bodiless.contains(&response.status())
        || response.status().is_informational()
        || response.status() == StatusCode::PARTIAL_CONTENT
        || headers.contains_key(CONTENT_RANGE)
        || headers.get_all(CONTENT_ENCODING).iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
        || list::has(headers, &CACHE_CONTROL, "no-transform")
}

/// The length that an answer says it has.
fn declared_length(response: &Response<AnswerBody>) -> Option<u64> {
    response.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The client's `Accept-Encoding` has made this answer what it is (RFC 9110, 12.5.5).
fn vary(headers: &mut HeaderMap) {
    if !list::varies(headers, "accept-encoding") {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
}

fn describe(headers: &mut HeaderMap, coding: Coding) {
    OF_BYTES.iter().for_each(|name| drop(headers.remove(name)));
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.word()));
    // The same representation in other bytes (RFC 9110, 8.8.1).
    if let Some(weak) = weakened(headers) {
        headers.insert(ETAG, weak);
    }
}

/// The answer's strong tag as a weak one.
fn weakened(headers: &HeaderMap) -> Option<HeaderValue> {
    let strong = headers.get(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\""))?;
    HeaderValue::from_bytes(&[b"W/", strong.as_bytes()].concat()).ok()
}

#[cfg(test)]
mod tests;
