//! Active health checks: a GET at an interval tells whether a server is up.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::MissedTickBehavior;

use super::clock::Clock;
use super::exchange::Exchange;
use super::moments::Moments;
use super::request::{Noted, Request};
use super::server::Change;
use super::{Call, Timeouts, Upstream, attempt};
use crate::problem::Problems;
use crate::spec;
use crate::spec::{Located, Timeout, only};

spec! {
    /// Active health checks: a GET that must be answered with a status below 400. A server that is down gets no calls, unless
    /// all are down. Written short as the path.
    pub struct HealthSpec {
        /// The path to GET. It is appended to the path of the server's URL.
        pub path: Located<String> = Located::new("/".to_owned(), Default::default()),
        /// The time between two checks.
        pub interval: Duration = Duration::from_secs(5),
        /// How long the answer may take.
        pub timeout: Duration = Duration::from_secs(2),
        /// A server that is down is up after this many successful checks in a row.
        pub healthy: NonZeroU32 = NonZeroU32::MIN.saturating_add(1),
        /// A server is down after this many failed checks in a row.
        pub unhealthy: NonZeroU32 = NonZeroU32::MIN.saturating_add(2),
    }
    short(path)
}

fn path(path: Located<String>, problems: &mut Problems) -> Option<HealthSpec> {
    only([("path", path)], problems)
}

impl HealthSpec {
    /// Reports what is wrong in the configuration.
    pub(super) fn check(&self, problems: &mut Problems) -> Option<()> {
        let path = self.path.as_str();
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            let remedy = "write it as `/health`, other characters percent-encoded";
            return problems.error(self.path.span, "this is not a path", remedy);
        }
        if self.interval.is_zero() {
            return problems.error(
                self.path.span,
                "the interval between health checks must be longer than 0",
                "write `interval: 5s`",
            );
        }
        Some(())
    }

    pub(super) fn explain(&self) -> String {
        let Self { path, interval, timeout, healthy, unhealthy } = self;
        format!(
            "health: GET {path} every {interval:?}, timeout {timeout:?}; down after {unhealthy} failed checks, up after {healthy} \
             successful ones"
        )
    }
}

/// The state that the checks have found.
#[derive(Default)]
pub(super) struct Health {
    down: AtomicBool,
    checks: AtomicU64,
    bad: AtomicU64,
}

impl Health {
    pub(super) fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// How many checks ran, and how many failed.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.checks.load(Ordering::Relaxed), self.bad.load(Ordering::Relaxed))
    }
}

impl Upstream {
    /// Checks the servers for as long as it is polled; `None` without `health`. Poll it on a thread that serves no requests:
    /// its connections are used by checks alone.
    pub fn watch(self: &Arc<Self>) -> Option<impl Future<Output = ()> + Send + 'static> {
        let rules = self.health.clone()?;
        let watches = (0..self.servers.len()).map(|at| watch(self.clone(), at, rules.clone()));
        let watches: Vec<_> = watches.collect();
        Some(async move { drop(join_all(watches).await) })
    }
}

async fn watch(upstream: Arc<Upstream>, at: usize, rules: Arc<HealthSpec>) {
    let mut ticks = tokio::time::interval(rules.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut in_a_row = 0;
    loop {
        ticks.tick().await;
        let good = check(&upstream, at, &rules).await;
        let Some(health) = upstream.servers[at].standing.as_ref().and_then(|standing| standing.health.as_ref()) else {
            return;
        };
        health.checks.fetch_add(1, Ordering::Relaxed);
        health.bad.fetch_add(u64::from(!good), Ordering::Relaxed);
        // Only checks that differ from the present state count.
        in_a_row = if good == health.is_down() { in_a_row + 1 } else { 0 };
        let enough = if good { rules.healthy } else { rules.unhealthy };
        if in_a_row >= enough.get() {
            in_a_row = 0;
            health.down.store(!good, Ordering::Relaxed);
            upstream.log(at, if good { Change::Up } else { Change::Down });
        }
    }
}

async fn check(upstream: &Arc<Upstream>, at: usize, rules: &HealthSpec) -> bool {
    let limit = Timeout::After(rules.timeout);
    let timeouts = Timeouts { connect: limit, first_byte: limit, idle: limit, call: limit };
    let mut call = Call::get(rules.path.value.clone());
    let Ok(request) = Request::new(&upstream.servers[at], &mut call, Noted::default()) else { return false };
    let (clock, moments) = (Clock::new(&timeouts, None), Moments::of_check());
    let mut exchange = Box::new(Exchange::new(upstream.clone(), at, request, clock, moments));
    // The body is dropped. Unless it is short, the connection is closed with it.
    attempt(&mut exchange, limit).await.is_ok_and(|(status, _)| status.as_u16() < 400)
}
