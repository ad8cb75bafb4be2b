//! Active health checks: a GET at an interval tells whether a server is up.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::MissedTickBehavior;

use super::attempt::{Attempt, head};
use super::authenticated_caller::Caller;
use super::call::UpstreamCall;
use super::call::clock::Clock;
use super::call::timeouts::Timeouts;
use super::health::HealthSpec;
use super::servers::Servers;
use crate::config::spec::Timeout;

/// Checks all servers for as long as it is polled.
pub(super) async fn watch(caller: Caller, rules: Arc<HealthSpec>) {
    let Some(found) = caller.service() else {
        if let Some(servers) = caller.now() {
            watch_all(&servers, &rules).await;
        }
        return;
    };
    let mut servers = found.next(None).await;
    loop {
        let next = tokio::select! {
            next = found.next(Some(&servers)) => next,
            // Without a server there is nothing to check, but there may be one later.
            () = watch_all(&servers, &rules) => found.next(Some(&servers)).await,
        };
        servers = next;
    }
}

async fn watch_all(servers: &Arc<Servers>, rules: &Arc<HealthSpec>) {
    let watches: Vec<_> = (0..servers.list.len()).map(|at| watch_one(servers.clone(), at, rules.clone())).collect();
    drop(join_all(watches).await);
}

async fn watch_one(servers: Arc<Servers>, at: usize, rules: Arc<HealthSpec>) {
    let mut ticks = tokio::time::interval(rules.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let good = check(&servers, at, &rules).await;
        let Some(health) = servers.list[at].availability.as_ref().and_then(|availability| availability.health.as_ref())
        else {
            return;
        };
        if let Some(change) = health.count(good, &rules) {
            change.log(&servers.name, &servers.list[at].address);
        }
    }
}

async fn check(servers: &Arc<Servers>, at: usize, rules: &HealthSpec) -> bool {
    let limit = Timeout::After(rules.timeout);
    let timeouts = Timeouts { connect: limit, first_byte: limit, idle: limit, call: limit };
    let call = UpstreamCall::get(rules.path.value.clone());
    let Ok(mut attempt) = Attempt::of_check(servers, at, call, Clock::new(&timeouts, None)) else { return false };
    // The body is dropped. Unless it is short, the connection is closed with it.
    head(&mut attempt.exchange, limit).await.is_ok_and(|(status, _)| status.as_u16() < 400)
}
