//! Failures of a probe, in the words that the gateway itself uses; and options that cannot be used.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::time::Duration;

use crocodile_pear::unstable::net::tls::refusal;
use rustls::AlertDescription;

/// An option that cannot be used. The text says why. If its value is wrong, the text also says which values are possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError(String);

impl UsageError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        UsageError(reason.into())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// A failure between the probe and the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub(crate) cause: TroubleCause,
    pub(crate) what: String,
    pub(crate) remedy: Option<String>,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Trouble {}

/// The cause, as far as the probe acts differently on it. A later one tells more about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleCause {
    /// The server does not speak this version.
    Foreign,
    /// The server closed the connection before it answered.
    Ended,
    /// The server sent broken bytes.
    Broken,
    /// The server did not answer in time.
    Silent,
    /// No connection.
    Unreachable,
    /// The server refused a handshake that it understood.
    Refused,
    /// The server's answer to a TLS handshake is not TLS.
    NotTls,
    /// Its certificate is not trusted.
    Distrusted,
}

impl Trouble {
    pub(crate) fn new(cause: TroubleCause, what: impl Into<String>) -> Self {
        Trouble { cause, what: what.into(), remedy: None }
    }

    pub(crate) fn remedy(self, remedy: impl Into<String>) -> Self {
        Trouble { remedy: Some(remedy.into()), ..self }
    }

    /// The failure of `what` to end in time.
    pub(crate) fn late(what: &str, limit: Duration) -> Self {
        Self::new(TroubleCause::Silent, format!("{what} within {}", span(limit))).remedy("`--timeout` waits longer")
    }

    pub(crate) fn connecting(error: &io::Error) -> Self {
        let what = match error.kind() {
            io::ErrorKind::ConnectionRefused => "connection refused: nothing listens there".to_owned(),
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "no route to the upstream".to_owned(),
            _ => format!("connecting failed: {error}"),
        };
        Self::new(TroubleCause::Unreachable, what)
    }

    pub(crate) fn shaking(error: &io::Error) -> Self {
        Self::tls(error).unwrap_or_else(|| Self::new(TroubleCause::Ended, "the upstream ended the TLS handshake"))
    }

    /// The reason of TLS, if it was TLS.
    fn tls(error: &io::Error) -> Option<Self> {
        let refused = refusal(error)?;
        let cause = match error.get_ref()?.downcast_ref::<rustls::Error>()? {
            rustls::Error::InvalidCertificate(_) => TroubleCause::Distrusted,
            rustls::Error::InvalidMessage(_) => TroubleCause::NotTls,
            rustls::Error::PeerIncompatible(_)
            | rustls::Error::AlertReceived(
                AlertDescription::ProtocolVersion | AlertDescription::NoApplicationProtocol,
            ) => TroubleCause::Foreign,
            rustls::Error::AlertReceived(_) => TroubleCause::Refused,
            _ => TroubleCause::Broken,
        };
        let trouble = Self::new(cause, refused.detail());
        match cause {
            TroubleCause::Distrusted => {
                Some(trouble.remedy("`--ca FILE` trusts another authority, `--insecure` measures all the same"))
            }
            _ => Some(trouble),
        }
    }

    /// With TLS 1.3 a server may object only when the request is sent.
    fn input(error: &io::Error) -> Self {
        Self::tls(error)
            .unwrap_or_else(|| Self::new(TroubleCause::Ended, "the upstream closed the connection before it answered"))
    }

    /// The failure of a request over HTTP/1.1, until the head of its answer.
    pub(crate) fn http1(error: &hyper::Error) -> Self {
        // A request that was given up because of what had come before it.
        if let Some(error) = error.source().and_then(|source| source.downcast_ref::<hyper::Error>()) {
            return Self::http1(error);
        }
        if let Some(error) = error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
            return Self::input(error);
        }
        match error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
            true => Self::new(TroubleCause::Ended, "the upstream closed the connection before it answered"),
            false => Self::new(TroubleCause::Foreign, "the upstream's answer is not HTTP/1.1"),
        }
    }

    /// The same over HTTP/2.
    pub(crate) fn http2(error: &h2::Error) -> Self {
        if let Some(error) = error.get_io() {
            return Self::input(error);
        }
        if error.is_io() || (error.is_go_away() && error.is_remote()) {
            return Self::new(TroubleCause::Ended, "the upstream closed the connection before it answered");
        }
        match (error.is_remote(), error.reason()) {
            (true, Some(reason)) => {
                Self::new(TroubleCause::Broken, format!("the upstream reset the stream: {reason:?}"))
            }
            _ => Self::new(TroubleCause::Foreign, "the upstream's answer is not HTTP/2"),
        }
    }

    /// An answer that ends before its end.
    pub(crate) fn cut() -> Self {
        Self::new(TroubleCause::Broken, "the upstream's answer ended before it was whole")
    }
}

/// A time as people say it: `5 s`, `1.2 s`, `120 ms`.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        _ if time.is_zero() || (seconds >= 1.0 && time.subsec_millis() < 50) => format!("{seconds:.0} s"),
        1.0.. => format!("{seconds:.1} s"),
        _ => format!("{} ms", milliseconds(time)),
    }
}

/// Three digits that count, without trailing noise: `0.04`, `1.23`, `12.3`, `123`.
pub fn milliseconds(time: Duration) -> String {
    let time = time.as_secs_f64() * 1_000.0;
    match time {
        99.95.. => format!("{time:.0}"),
        9.995.. => format!("{time:.1}"),
        _ => format!("{time:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_that_count() {
        let shown = |micros| milliseconds(Duration::from_micros(micros));
        let wanted =
            [(38, "0.04"), (1_234, "1.23"), (9_999, "10.0"), (12_345, "12.3"), (99_960, "100"), (123_456, "123")];
        for (micros, wanted) in wanted {
            assert_eq!(shown(micros), wanted);
        }
        let told = |millis| span(Duration::from_millis(millis));
        assert_eq!([0, 80, 1_000, 1_240, 5_010].map(told), ["0 s", "80.0 ms", "1 s", "1.2 s", "5 s"]);
    }
}
