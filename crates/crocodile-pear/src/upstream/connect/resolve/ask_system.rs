//! A question, and its answer, without the feature `dns`: the system is asked, which does not say how long an answer is good.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::known::SrvRecord;
use super::system::SystemResolver;

/// How long an answer is good.
const GOOD: Duration = Duration::from_secs(30);

/// The result of a lookup and until when it is valid, or why there is none.
pub(super) type LookupResult<T> = Result<(Arc<[T]>, Instant), String>;

pub(super) async fn addresses(system: &SystemResolver, name: &str) -> LookupResult<IpAddr> {
    system.check()?;
    let found = tokio::net::lookup_host((name, 0)).await.map_err(|error| error.to_string())?;
    let mut all: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    all.dedup();
    Ok((all.into(), Instant::now() + GOOD))
}

/// The servers of a service.
pub(super) async fn targets(_: &SystemResolver, _: &str) -> LookupResult<SrvRecord> {
    Err("SRV records need the feature `dns` of the crate crocodile-pear, which this build is without".to_owned())
}
