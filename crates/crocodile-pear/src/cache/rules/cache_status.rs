//! `Cache-Status` (RFC 9211): what became of a request at a cache.

use http::HeaderValue;
use http::StatusCode;
use http::header::{HeaderMap, HeaderName};

use super::policy::{ReuseTerms, UncachedReason};
use crate::http::date::Moment;
use crate::telemetry::request_record::CacheResult;

/// `cache-status`
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Why a request went further (RFC 9211, 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// This cache does not serve such requests.
    Bypass,
    Method,
    /// No entry of this URL exists.
    UriMiss,
    /// Entries of the URL exist, but none for such a request.
    VaryMiss,
    /// The request asked for it.
    Request,
    /// The entry is stale.
    Stale,
    /// Only a part of what it asked for is kept.
    Partial,
}

impl ForwardReason {
    fn word(self) -> &'static str {
        match self {
            ForwardReason::Bypass => "bypass",
            ForwardReason::Method => "method",
            ForwardReason::UriMiss => "uri-miss",
            ForwardReason::VaryMiss => "vary-miss",
            ForwardReason::Request => "request",
            ForwardReason::Stale => "stale",
            ForwardReason::Partial => "partial",
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
pub enum Happened {
    /// The request was answered from the cache.
    Hit,
    Forwarded {
        why: ForwardReason,
        /// The status of the upstream's answer, if the client got another one.
        status: Option<StatusCode>,
        /// Whether the answer is kept, or why not.
        stored: Result<(), Option<UncachedReason>>,
        /// Whether it went together with others.
        collapsed: bool,
    },
}

/// Adds a cache's line to an answer, behind those of caches before it.
pub fn append(headers: &mut HeaderMap, cache: &str, happened: Happened, terms: Option<&ReuseTerms>, now: Moment) {
    let mut line = String::with_capacity(64);
    line.push_str(cache);
    match happened {
        Happened::Hit => line.push_str("; hit"),
        Happened::Forwarded { why, status, stored, collapsed } => {
            line.push_str("; fwd=");
            line.push_str(why.word());
            if let Some(status) = status {
                line.push_str("; fwd-status=");
                line.push_str(status.as_str());
            }
            match stored {
                Ok(()) => line.push_str("; stored"),
                Err(Some(reason)) => {
                    line.push_str("; detail=");
                    line.push_str(reason.word());
                }
                Err(None) => {}
            }
            if collapsed {
                line.push_str("; collapsed");
            }
        }
    }
    if let Some(terms) = terms {
        let age = terms.age(now).as_secs();
        let mut digits = itoa::Buffer::new();
        let left = i64::try_from(terms.fresh.as_secs()).unwrap_or(i64::MAX) - i64::try_from(age).unwrap_or(i64::MAX);
        line.push_str("; ttl=");
        line.push_str(digits.format(left));
    }
    if let Ok(line) = HeaderValue::from_maybe_shared(bytes::Bytes::from(line)) {
        headers.append(CACHE_STATUS, line);
    }
}

/// The outcome in the last line, which is that of the cache nearest to the client.
pub fn result(headers: &HeaderMap) -> Option<CacheResult> {
    let line = headers.get_all(CACHE_STATUS).iter().next_back()?.to_str().ok()?;
    let says = |word: &str| line.split("; ").any(|part| part == word);
    let begins = |word: &str| line.split("; ").any(|part| part.starts_with(word));
    Some(match line {
        _ if says("hit") && begins("ttl=-") => CacheResult::Stale,
        _ if says("hit") => CacheResult::Hit,
        _ if says("collapsed") => CacheResult::Collapsed,
        _ if says("fwd-status=304") => CacheResult::Revalidated,
        _ => CacheResult::Miss,
    })
}

#[cfg(test)]
mod tests {
    use super::super::cache_status::*;

    #[test]
    fn what_is_told_can_be_read() {
        let forwarded = |why, status, collapsed| Happened::Forwarded { why, status, stored: Ok(()), collapsed };
        for (happened, wanted) in [
            (Happened::Hit, CacheResult::Hit),
            (forwarded(ForwardReason::UriMiss, None, false), CacheResult::Miss),
            (forwarded(ForwardReason::UriMiss, None, true), CacheResult::Collapsed),
            (forwarded(ForwardReason::Stale, Some(StatusCode::NOT_MODIFIED), false), CacheResult::Revalidated),
        ] {
            let mut headers = HeaderMap::new();
            append(&mut headers, "test", happened, None, Moment::now());
            assert_eq!(result(&headers), Some(wanted));
        }
        assert_eq!(result(&HeaderMap::new()), None);
        let stale = HeaderMap::from_iter([(CACHE_STATUS, HeaderValue::from_static("test; hit; ttl=-3"))]);
        assert_eq!(result(&stale), Some(CacheResult::Stale));
    }
}
