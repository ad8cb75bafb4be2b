//! How long a server keeps a connection: for how many requests, and for how long without one. Whether it resumes TLS sessions,
//! and what a handshake costs then.

use std::time::{Duration, Instant};

use crocodile_pear::unstable::net::tls::TlsVersion;

use crate::link::{Dial, Got, ServerClose};
use crate::trouble::{Trouble, TroubleCause};
use crate::trust::Sessions;
use crate::way::{Http, ProtocolStack};

/// Handshakes that are tried: enough for a median.
const HANDSHAKES: usize = 11;

/// A server's handling of connections of one version of HTTP.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    pub http: Http,
    pub requests: RequestCount,
    /// The time that an idle connection is kept; `None` if that was not tried.
    pub idle: Option<IdleTime>,
    pub announced: Announced,
    /// Calls at once on one connection, where the server sets a bound.
    pub streams: Option<usize>,
}

/// How many requests one connection took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCount {
    pub answered: u32,
    /// If it was the server that ended it.
    pub ended: Option<ServerClose>,
}

/// How long one connection stayed open without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTime {
    pub time: Duration,
    /// If it was the server that ended it.
    pub ended: Option<ServerClose>,
}

/// The values of the `Keep-Alive` field (RFC 2068, 19.7.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// Seconds without a request.
    pub timeout: Option<u64>,
    /// Requests that the connection takes still.
    pub max: Option<u64>,
}

/// The result with one version of TLS.
#[derive(Clone, Debug)]
pub struct Resumed {
    pub tls: TlsVersion,
    /// The handshakes that took a session up again; none, if the server does not do that.
    pub handshakes: Vec<Duration>,
}

impl ConnectionLimits {
    /// Whether a second request ever goes over the same connection.
    pub fn reusable(&self) -> bool {
        self.requests.ended.is_none() || self.requests.answered > 1
    }

    /// How long a connection is kept at most, as far as is known.
    pub fn idle_limit(&self) -> Option<Duration> {
        let seen = self.idle.filter(|idle| idle.ended.is_some()).map(|idle| idle.time);
        let said = self.announced.timeout.map(Duration::from_secs);
        seen.into_iter().chain(said).min()
    }
}

impl Announced {
    fn read(got: &Got) -> Self {
        let mut announced = Announced::default();
        let fields = got.headers.get_all("keep-alive").iter().filter_map(|field| field.to_str().ok());
        let parameters = fields.flat_map(|field| field.split(',')).filter_map(|parameter| parameter.split_once('='));
        for (name, value) in parameters {
            let value = value.trim().parse().ok();
            match name.trim().to_ascii_lowercase().as_str() {
                "timeout" => announced.timeout = value,
                "max" => announced.max = value,
                _ => {}
            }
        }
        announced
    }
}

/// Sends up to `most` requests over one connection, one after the other, until `end`.
pub async fn count(dial: &Dial, way: ProtocolStack, most: u32, end: Instant) -> Result<ConnectionLimits, Trouble> {
    let mut link = dial.open(way).await?;
    let first = link.get(dial).await?;
    let mut kept = ConnectionLimits {
        http: way.http,
        requests: RequestCount { answered: 1, ended: None },
        idle: None,
        announced: Announced::read(&first),
        streams: link.streams(),
    };
    while kept.requests.answered < most && Instant::now() < end {
        match link.get(dial).await {
            Ok(_) => kept.requests.answered += 1,
            Err(trouble) if trouble.cause == TroubleCause::Ended => {
                kept.requests.ended = Some(link.ending().await);
                break;
            }
            Err(_) if dial.is_over() => break,
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(kept)
}

/// Asks once, and waits for so long whether the server ends the connection.
pub async fn wait(dial: &Dial, way: ProtocolStack, longest: Duration) -> Result<IdleTime, Trouble> {
    let mut link = dial.open(way).await?;
    link.get(dial).await?;
    let begun = Instant::now();
    let left = dial.deadline.saturating_duration_since(begun);
    let ended = tokio::time::timeout(longest.min(left), link.ended()).await.is_ok();
    let time = begun.elapsed();
    Ok(IdleTime { time, ended: if ended { Some(link.ending().await) } else { None } })
}

pub async fn resume(dial: &Dial, way: ProtocolStack, tls: TlsVersion) -> Result<Resumed, Trouble> {
    let config = dial.config(way, Sessions::Kept);
    let mut handshakes = Vec::new();
    for number in 0..=HANDSHAKES {
        let mut link = dial.open_with(way, config.as_ref()).await?;
        handshakes.extend(link.opening.tls.filter(|_| link.opening.resumed));
        // With TLS 1.3 the ticket for the next comes with the answer. A server that did not take the first two takes none.
        if number == 2 && handshakes.is_empty() || dial.is_over() {
            break;
        }
        link.get(dial).await?;
    }
    Ok(Resumed { tls, handshakes })
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, StatusCode, Version};

    use super::*;

    #[test]
    fn what_the_server_announces_is_read() {
        let read = |fields: &[&'static str]| {
            let fields = fields.iter().map(|&field| (http::HeaderName::from_static("keep-alive"), field));
            let headers: HeaderMap = fields.map(|(name, field)| (name, HeaderValue::from_static(field))).collect();
            let (status, version, zero) = (StatusCode::OK, Version::HTTP_11, Duration::ZERO);
            let Announced { timeout, max } =
                Announced::read(&Got { status, version, headers, bytes: 0, first: zero, whole: zero });
            (timeout, max)
        };
        assert_eq!(read(&["timeout=5, max=100"]), (Some(5), Some(100)));
        assert_eq!(read(&["Timeout = 5"]), (Some(5), None));
        assert_eq!(read(&["max=3", "timeout=x"]), (None, Some(3)));
        assert_eq!(read(&["", "soon"]), (None, None));
    }
}
