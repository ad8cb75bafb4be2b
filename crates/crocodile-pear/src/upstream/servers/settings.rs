//! The configuration of an upstream, checked.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;

use super::balance::BalanceSpec;
use super::retry::RetrySpec;
use crate::config::carried_state::Carry;
use crate::config::spec;
use crate::message::xml_lists::Lists;
use crate::net::protocol::Protocol;
use crate::net::tls::TlsSettings;
use crate::resilience::breaker::BreakerSpec;
use crate::upstream::call::forward::Forward;
use crate::upstream::call::public::PublicSpec;
use crate::upstream::call::rewrite::RewriteSpec;
use crate::upstream::call::timeouts::Timeouts;
use crate::upstream::connect::connections::Connections;
use crate::upstream::connect::location::{DnsService, Location};
use crate::upstream::connect::resolve::Resolver;
use crate::upstream::health::HealthSpec;
use crate::upstream::health::eject::{EjectSpec, Ejection};
use crate::upstream::program::Program;

/// The configuration of an upstream.
#[derive(Clone, Debug)]
pub struct UpstreamSettings {
    /// Its name in the configuration; the only thing about it that clients may learn.
    pub name: Arc<str>,
    /// Its servers, at least one.
    pub servers: Vec<Location>,
    /// The DNS service whose servers they are (SRV). The only entry of `servers` says the scheme and the base path then.
    pub service: Option<DnsService>,
    /// Which versions of HTTP are used.
    pub protocol: Protocol,
    /// TLS settings for `https`.
    pub tls: TlsSettings,
    /// The DNS resolver; the system's unless set.
    pub resolver: Option<Resolver>,
    /// How long each phase of a call may take.
    pub timeouts: Timeouts,
    /// The parts of the client's request that its calls take along.
    pub forward: Arc<Forward>,
    /// Whether header fields of its answers that point into it point to the gateway instead.
    pub rewrite: RewriteSpec,
    /// Further addresses of its servers, as their own documents write them. No call is made to them.
    pub origins: Vec<Uri>,
    /// How links in bodies are mapped that lead into it, if they are.
    pub links: Option<Arc<PublicSpec>>,
    /// The elements that are lists, in answers that are XML.
    pub lists: Lists,
    /// The largest body of unknown length that is read before a call, to send its length, in bytes.
    pub buffer: Option<usize>,
    /// The most calls in flight, over all cores.
    pub in_flight: Option<usize>,
    /// Limits of the connection pool.
    pub connections: Connections,
    /// The largest head of an answer, in bytes.
    pub max_head: usize,
    /// Retries. Unless set, an upstream with several servers has the defaults of the spec, and one with a single server
    /// has no retries.
    pub retry: Option<RetrySpec>,
    /// Circuit breaker of each server.
    pub breaker: Option<BreakerSpec>,
    /// Load balancing over several servers.
    pub balance: BalanceSpec,
    /// Active health checks; they run while [`ReadyUpstream::watch`](crate::upstream::ReadyUpstream::watch) is polled.
    pub health: Option<HealthSpec>,
    /// The state that it takes over from the configuration before.
    pub carry: Carry,
    /// The parts that a program puts around and below its calls.
    pub program: Option<Arc<Program>>,
}

impl UpstreamSettings {
    /// The defaults for an upstream at `url`.
    pub fn new(name: impl Into<Arc<str>>, url: Uri) -> Self {
        UpstreamSettings {
            name: name.into(),
            servers: vec![Location { url, weight: 1, socket: None }],
            service: None,
            protocol: Protocol::Auto,
            tls: TlsSettings::default(),
            resolver: None,
            timeouts: Timeouts::default(),
            forward: Arc::default(),
            rewrite: RewriteSpec::On,
            origins: Vec::new(),
            links: None,
            lists: Lists::default(),
            buffer: None,
            in_flight: None,
            connections: Connections::default(),
            max_head: 64 * 1024,
            retry: None,
            breaker: None,
            balance: spec::defaults(),
            health: None,
            carry: Carry::default(),
            program: None,
        }
    }

    /// Whether there may be more than one server.
    pub(crate) fn has_several(&self) -> bool {
        self.servers.len() > 1 || self.service.is_some()
    }

    /// When a request is retried: where one of several servers fails, another can answer.
    pub(crate) fn retries(&self) -> Option<RetrySpec> {
        self.retry.clone().or_else(|| self.has_several().then(spec::defaults))
    }

    /// When a server is ejected; a single one never is.
    pub(crate) fn ejection(&self) -> Option<&EjectSpec> {
        match &self.balance.eject {
            Ejection::After(rules) if self.has_several() => Some(rules),
            _ => None,
        }
    }

    /// The effects of these settings on a call, as `explain` prints them.
    pub(crate) fn outline(&self) -> Vec<String> {
        let by = || self.balance.by.word().replace('_', " ");
        let several = |count: usize| format!("{count} servers, {}", by());
        let eject = |rules: &EjectSpec| {
            let EjectSpec { failures, first, most } = rules;
            format!("a server is ejected after {failures} failures in a row, for {first:?} up to {most:?}")
        };
        let silence = |silence: Duration| {
            format!("a server that answers no call for {silence:?} while others answer counts as failed")
        };
        let alone = !self.has_several();
        let service = |DnsService(name): &DnsService| format!("the servers of the SRV records of {name}, {}", by());
        let parts = [
            self.service.as_ref().map(service),
            Some(self.servers.len()).filter(|count| *count > 1).map(several),
            self.balance.silence.duration().filter(|_| !alone).map(silence),
            self.buffer.map(|most| format!("bodies of unknown length are read first, up to {most} bytes")),
            self.in_flight.map(|most| format!("at most {most} calls in flight")),
            self.connections.open.map(|most| format!("at most {most} connections to a server from each core")),
            self.retries().as_ref().map(RetrySpec::explain),
            self.breaker.as_ref().map(BreakerSpec::explain),
            self.ejection().map(eject),
            self.health.as_ref().map(HealthSpec::explain),
        ];
        parts.into_iter().flatten().collect()
    }
}
