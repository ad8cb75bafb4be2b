//! Why the store cannot be asked, in words for operators.

use std::borrow::Cow;

use redis::{ErrorKind, RedisError};

/// Why the store cannot be asked.
pub(super) type OutageReason = Cow<'static, str>;

/// The answer takes longer than a request may wait.
pub(super) const LATE: OutageReason = Cow::Borrowed("it does not answer in time");

/// The reason of an error. It quotes what the server says, never the configuration.
pub(super) fn from_error(error: &RedisError) -> OutageReason {
    match error.code() {
        Some("OOM") => "it is out of memory (OOM): `maxmemory` is reached, and nothing may be evicted".into(),
        Some("READONLY") => "it is a read-only replica (READONLY)".into(),
        Some("WRONGPASS") => "it refuses the password (WRONGPASS)".into(),
        Some("NOAUTH") => "it needs a password (NOAUTH)".into(),
        Some("NOPERM") => "its user may not do what is needed (NOPERM)".into(),
        Some("LOADING") => "it is loading its data (LOADING)".into(),
        Some("MASTERDOWN") => "it is a replica that has lost its primary (MASTERDOWN)".into(),
        Some("MISCONF") => "it cannot save to its disk, and takes no writes (MISCONF)".into(),
        Some(code @ ("MOVED" | "ASK" | "CLUSTERDOWN" | "CROSSSLOT")) => {
            format!("it is a node of a cluster ({code}); a cluster is not supported").into()
        }
        _ => of_connection(error),
    }
}

fn of_connection(error: &RedisError) -> OutageReason {
    match error.kind() {
        ErrorKind::AuthenticationFailed => "it refuses the user or the password".into(),
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => "what it answers is not the protocol of Redis".into(),
        _ if error.is_connection_refusal() => "connection refused".into(),
        _ if error.is_timeout() => LATE,
        _ if error.is_connection_dropped() => "it closed the connection".into(),
        _ => error.to_string().into(),
    }
}
