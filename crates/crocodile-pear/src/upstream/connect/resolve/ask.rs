//! A question, and its answer.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::{RData, Record};

use super::known::SrvRecord;
use super::system::SystemResolver;

/// How long a name of the file `hosts` is good: until the file changes.
const LASTING: Duration = Duration::from_secs(3600);

/// The result of a lookup and until when it is valid, or why there is none.
pub(super) type LookupResult<T> = Result<(Arc<[T]>, Instant), String>;

pub(super) async fn addresses(system: &SystemResolver, name: &str) -> LookupResult<IpAddr> {
    if let Some(found) = system.hosts.find(name) {
        return Ok((alternate(found.into_iter()), Instant::now() + LASTING));
    }
    let found = system.resolver()?.lookup_ip(name).await.map_err(|error| system.error_text(&error))?;
    Ok((alternate(found.iter()), found.valid_until()))
}

/// The servers of a service.
pub(super) async fn targets(system: &SystemResolver, name: &str) -> LookupResult<SrvRecord> {
    let found = system.resolver()?.srv_lookup(name).await.map_err(|error| system.error_text(&error))?;
    let target = |record: &Record| match &record.data {
        RData::SRV(srv) => Some(SrvRecord {
            priority: srv.priority,
            host: srv.target.to_ascii().trim_end_matches('.').into(),
            port: srv.port,
            weight: srv.weight,
        }),
        _ => None,
    };
    let targets = found.answers().iter().filter_map(target);
    // A service whose only target is the root is not offered here (RFC 2782).
    let mut targets: Vec<SrvRecord> = targets.filter(|target| !target.host.is_empty()).collect();
    // By priority; else sorted so that the order of the answer does not matter.
    targets.sort_unstable();
    targets.dedup_by(|one, other| (&one.host, one.port) == (&other.host, other.port));
    Ok((targets.into(), found.valid_until()))
}

impl SystemResolver {
    fn resolver(&self) -> Result<&TokioResolver, String> {
        self.resolver.as_ref().map_err(Clone::clone)
    }

    fn error_text(&self, error: &dyn std::error::Error) -> String {
        match self.guessed {
            true => format!("{error}; `/etc/resolv.conf` names no DNS server, and 127.0.0.1 was asked"),
            false => error.to_string(),
        }
    }
}

/// IPv6 and IPv4 alternating (RFC 8305, 4), each once, sorted so that the order of the answer does not matter.
fn alternate(found: impl Iterator<Item = IpAddr>) -> Arc<[IpAddr]> {
    let mut all: Vec<IpAddr> = found.collect();
    all.sort_unstable();
    all.dedup();
    let (four, six): (Vec<IpAddr>, Vec<IpAddr>) = all.into_iter().partition(IpAddr::is_ipv4);
    let most = four.len().max(six.len());
    (0..most).flat_map(|at| [six.get(at), four.get(at)]).flatten().copied().collect()
}
