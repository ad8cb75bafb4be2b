//! Answers compressed on their way out: one stream each, delivered as their parts arrive.

mod coded;
mod encoder;
mod fast;
mod gzip;
mod held;
mod media;
mod negotiate;
mod pool;
mod press;
mod sample;

use crocodile_pear::flow::{OF_BYTES, Pulled, Whole};
use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Located, Size};
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body;

use coded::Coded;
use encoder::Encoder;
use held::Held;
use media::Media;
use negotiate::Choice;

pub use negotiate::Coding;

spec! {
    /// Compresses answers for clients that ask for it with `Accept-Encoding`. Written short as `on`, with every default,
    /// or `off`. What arrives is delivered: whenever nothing more is at hand, the client can decode all that has come so
    /// far. An answer that is compressed already, is a part (206), or says `no-transform` is handed on as it is. An
    /// answer under way holds about 0.3 MiB, with zstd 0.7 MiB; one of more than 1 MiB another 1 MiB while cores that rest
    /// help with it. Leave it off where secrets and what a client may choose come in one answer: the length of a
    /// compressed one tells of both.
    pub struct Compress {
        /// What is offered. Where a client likes several equally, it gets the first of these.
        pub codings: Vec<Coding> = Coding::ALL.to_vec(),
        /// A shorter body is sent as it is. For the end of one of unknown length, and of one known to be of 64 KiB at
        /// most, 5 ms are waited, no longer.
        pub min_size: Size = Size(1 << 10),
        /// The content types that are worth it: `text/html`, `text/*`, or `*+json` for all that end like this.
        pub types: Vec<Located<String>> = media::usual(),
        /// The level of gzip and deflate, 1 (fast) to 9 (small). Unless set, 6 for a body known to be of 128 KiB at most,
        /// and 1 for others.
        pub gzip: Option<Located<u32>>,
        /// The level of br, 0 (fast) to 11 (small). Unless set, 3 for such a small body, and 1 for others. At 0 and 1,
        /// nothing is found again of what was delivered before.
        pub br: Option<Located<u32>>,
        /// The level of zstd, 1 (fast) to 19 (small). Unless set, 3 for such a small body, and 1 for others.
        pub zstd: Option<Located<u32>>,
    }
    short(switch)
}

fn switch(text: Located<String>, problems: &mut Problems) -> Option<Compress> {
    let codings = match text.as_str() {
        "on" | "true" => Coding::ALL.to_vec(),
        "off" | "false" => Vec::new(),
        other => {
            return problems.error(text.span, format!("found `{other}`, wanted `on`, `off` or a map"), "write `on`");
        }
    };
    let (gzip, br, zstd) = (None, None, None);
    Some(Compress { codings, min_size: Size(1 << 10), types: media::usual(), gzip, br, zstd })
}

impl Compress {
    /// Checks levels and types; nothing where nothing is offered.
    pub fn compile(&self, problems: &mut Problems) -> Option<Compressor> {
        let mut levels = |small: Levels| Levels {
            gzip: level(self.gzip.as_ref(), small.gzip, 1, 9, problems),
            br: level(self.br.as_ref(), small.br, 0, 11, problems),
            zstd: level(self.zstd.as_ref(), small.zstd, 1, 19, problems),
        };
        let (small, large) = (levels(SMALL), levels(LARGE));
        let types = self.types.iter().filter_map(|written| Media::parse(written, problems)).collect();
        let codings = self.codings.clone();
        (!codings.is_empty()).then_some(Compressor { codings, min_size: self.min_size.0, types, small, large })
    }
}

fn level(written: Option<&Located<u32>>, usual: u32, least: u32, most: u32, problems: &mut Problems) -> u32 {
    let Some(written) = written else { return usual };
    // Told once, though it is read for small bodies and for others.
    if !(least..=most).contains(&written.value) && !problems.found_within(written.span) {
        let message = format!("there is no level {written}");
        let _ = problems.error::<()>(written.span, message, format!("levels are {least} to {most}"));
    }
    written.value.clamp(least, most)
}

/// How hard each coding tries.
#[derive(Clone, Copy, Debug)]
struct Levels {
    gzip: u32,
    br: u32,
    zstd: u32,
}

/// A body of this size is compressed within two milliseconds at the levels for small ones.
const FEW: u64 = 128 << 10;

/// What makes small bodies small.
const SMALL: Levels = Levels { gzip: 6, br: 3, zstd: 3 };

/// For bodies that are larger, or of unknown length: speed before size.
const LARGE: Levels = Levels { gzip: 1, br: 1, zstd: 1 };

/// What compresses the answers of an endpoint.
#[derive(Debug)]
pub struct Compressor {
    codings: Vec<Coding>,
    min_size: u64,
    types: Vec<Media>,
    small: Levels,
    large: Levels,
}

impl Compressor {
    /// The same answer as the client would have it. What is at hand is looked at first: an answer that is whole by then
    /// leaves with its length, and never longer than it was.
    pub async fn wrap(&self, mut response: Response<Pulled>, request: &HeaderMap) -> Response<Pulled> {
        let length = told(&response).or_else(|| response.body().size_hint().exact());
        let choice = self.offer(&mut response, request, length);
        let (Choice::Coded(coding) | Choice::Only(coding)) = choice else { return response };
        let asked = matches!(choice, Choice::Only(_));
        let (parts, body) = response.into_parts();
        let held = Held::look(body, length, self.min_size).await;
        let whole = held.whole();
        let plain = whole.as_ref().is_some_and(|bytes| (bytes.len() as u64) < self.min_size.max(1));
        let mut response = Response::from_parts(parts, ());
        if plain && !asked {
            return response.map(|()| held.pulled());
        }
        let few = whole.is_some() || length.is_some_and(|length| length <= FEW);
        let levels = if few { &self.small } else { &self.large };
        let Some(mut encoder) = Encoder::new(coding, levels) else { return response.map(|()| held.pulled()) };
        match whole {
            None => {
                describe(response.headers_mut(), coding);
                response.map(|()| Box::pin(Coded::new(held.pulled(), encoder)) as Pulled)
            }
            Some(bytes) => match encoder.whole(&bytes) {
                Ok(coded) if coded.len() < bytes.len() || asked => {
                    describe(response.headers_mut(), coding);
                    response.map(|()| Box::pin(Whole::new(coded)) as Pulled)
                }
                _ => response.map(|()| Box::pin(Whole::new(bytes)) as Pulled),
            },
        }
    }

    /// An upstream's answer to HEAD, which has no body, with the fields of the answer to GET. Its length is left out
    /// where it would have to be found out first (RFC 9110, 9.3.2).
    pub fn tell(&self, mut response: Response<Pulled>, request: &HeaderMap) -> Response<Pulled> {
        // A problem of the gateway's own has its body still, which the server leaves out.
        let exact = response.body().size_hint().exact().filter(|length| *length > 0);
        let length = told(&response).or(exact);
        let choice = self.offer(&mut response, request, length);
        let (Choice::Coded(coding) | Choice::Only(coding)) = choice else { return response };
        describe(response.headers_mut(), coding);
        untold(response)
    }

    /// What becomes of an answer whose body has this length, as far as that is known. Where a client may choose, the
    /// answer says so.
    fn offer(&self, response: &mut Response<Pulled>, request: &HeaderMap, length: Option<u64>) -> Choice {
        if response.status() == StatusCode::NOT_MODIFIED {
            self.confirm(response.headers_mut(), request);
        }
        if fixed(response) {
            return Choice::Plain;
        }
        let choice = negotiate::choose(request, &self.codings);
        let worth = length.is_none_or(|length| length >= self.min_size) && self.takes(response.headers());
        let asked = matches!(choice, Choice::Only(_)) && length != Some(0);
        if !worth && !asked {
            return Choice::Plain;
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

/// Whether an answer must be handed on as it is: it has no body, is a part, is coded, or forbids it.
fn fixed(response: &Response<Pulled>) -> bool {
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    let headers = response.headers();
    let directives = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut directives = directives.flat_map(|value| value.split(','));
    bodiless.contains(&response.status())
        || response.status() == StatusCode::PARTIAL_CONTENT
        || headers.contains_key(CONTENT_RANGE)
        || headers.get_all(CONTENT_ENCODING).iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
        || directives.any(|directive| directive.trim().eq_ignore_ascii_case("no-transform"))
}

/// The length that an answer says it has.
fn told(response: &Response<Pulled>) -> Option<u64> {
    response.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// An answer to HEAD that says no length, without one being made of its having no body: GET's may have one.
pub fn untold(response: Response<Pulled>) -> Response<Pulled> {
    if response.headers().contains_key(CONTENT_LENGTH) || !response.body().is_end_stream() {
        return response;
    }
    response.map(|_| Box::pin(held::Untold) as Pulled)
}

/// The client's `Accept-Encoding` has made this answer what it is (RFC 9110, 12.5.5).
fn vary(headers: &mut HeaderMap) {
    let values = headers.get_all(VARY).iter().filter_map(|value| value.to_str().ok());
    let mut names = values.flat_map(|value| value.split(',')).map(str::trim);
    if !names.any(|name| name == "*" || name.eq_ignore_ascii_case("accept-encoding")) {
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
