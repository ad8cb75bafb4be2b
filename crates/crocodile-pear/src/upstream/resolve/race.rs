//! Connects to the first of several addresses that answers (RFC 8305). Addresses that did not answer lately are left for
//! last, and tried again beside others.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout, timeout_at};

/// How long one address is tried before the next is tried too (RFC 8305, 5).
const HEAD_START: Duration = Duration::from_millis(250);

/// Each further address of a connection waits half as long, but not less than this (RFC 8305, 8): of a hundred addresses
/// one may be well.
const LEAST: Duration = Duration::from_millis(10);

/// How long an address that did not answer is left for last. Each time it is tried in vain, twice as long.
const FIRST: Duration = Duration::from_secs(10);
const MOST: Duration = Duration::from_secs(600);

/// The most attempts of one connection at the same time. Where there are more addresses, an attempt leaves its place to
/// another one after a while.
const AT_ONCE: usize = 32;
const WHILE: Duration = Duration::from_millis(500);

/// The addresses that did not answer.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Mutex<HashMap<IpAddr, Silence>>>);

/// An address that did not answer.
#[derive(Clone, Copy)]
struct Silence {
    /// When it may be tried again.
    until: Instant,
    /// How long it is left for last.
    rest: Duration,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Silence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses from this turn on; those that did not answer last, the one that was silent longest first. Also one
    /// that is due to be tried again.
    fn order(&self, addresses: &[IpAddr], turn: usize) -> (Vec<IpAddr>, Option<IpAddr>) {
        let mut order: Vec<IpAddr> = (0..addresses.len()).map(|at| addresses[(at + turn) % addresses.len()]).collect();
        let mut silent = self.lock();
        if silent.is_empty() {
            return (order, None);
        }
        silent.retain(|address, _| addresses.contains(address));
        order.sort_by_key(|address| silent.get(address).map(|silence| silence.until));
        let now = Instant::now();
        let due = |silence: &Silence| silence.until <= now;
        // Where all are silent, each connection tries them anyway.
        let again = order.iter().skip(1).find(|address| silent.get(*address).is_some_and(due)).copied();
        let again = again.filter(|_| !silent.contains_key(&order[0]));
        if let Some(silence) = again.and_then(|address| silent.get_mut(&address)) {
            // No other connection tries it meanwhile.
            silence.until = now + silence.rest;
        }
        (order, again)
    }

    /// Whether it did not answer lately.
    fn has(&self, address: IpAddr) -> bool {
        self.lock().contains_key(&address)
    }

    fn answered(&self, address: IpAddr) {
        self.lock().remove(&address);
    }

    fn silent(&self, address: IpAddr) {
        let mut silent = self.lock();
        let now = Instant::now();
        let before = silent.get(&address).copied();
        // Connections that try it at the same time find out the same.
        if before.is_none_or(|before| before.until <= now || before.until == now + before.rest) {
            let rest = before.map_or(FIRST, |before| (before.rest * 2).min(MOST));
            silent.insert(address, Silence { until: now + rest, rest });
        }
    }
}

/// Tries address after address, the next one when one fails or takes too long; `None` without addresses.
pub(super) async fn race<F, T, E>(
    memory: &Memory,
    addresses: &[IpAddr],
    turn: usize,
    connect: impl Fn(IpAddr) -> F,
) -> Option<Result<T, E>>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let (order, again) = memory.order(addresses, turn);
    if let Some(address) = again {
        // No call waits for it, and its connection is not used.
        tokio::spawn(timeout(2 * HEAD_START, attempt(memory.clone(), address, connect(address))));
    }
    let mut left = VecDeque::from(order);
    let (mut running, mut failed) = (FuturesUnordered::new(), None);
    let many = addresses.len() > AT_ONCE;
    let begin = |address| {
        let attempt = attempt(memory.clone(), address, connect(address));
        async move {
            match many {
                true => timeout(WHILE, attempt).await.ok(),
                false => Some(attempt.await),
            }
        }
    };
    running.push(begin(left.pop_front()?));
    let mut wait = HEAD_START;
    let mut next = Instant::now() + wait;
    loop {
        let room = running.len() < AT_ONCE;
        let ended = match left.is_empty() || !room {
            true => running.next().await,
            false => timeout_at(next, running.next()).await.unwrap_or_default(),
        };
        match ended.flatten() {
            Some(Ok(done)) => return Some(Ok(done)),
            Some(Err(error)) => drop(failed.get_or_insert(error)),
            None if running.is_empty() && left.is_empty() => return failed.map(Err),
            None => {}
        }
        // What another connection has found out counts at once.
        let at = left.iter().position(|address| !memory.has(*address)).unwrap_or(0);
        if let Some(address) = left.remove(at) {
            running.push(begin(address));
            wait = (wait / 2).max(LEAST);
            next = Instant::now() + wait;
        }
    }
}

/// Connects, and remembers whether the address answered. A refusal is an answer that costs no time.
async fn attempt<T, E>(memory: Memory, address: IpAddr, connect: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let mut connect = pin!(connect);
    let connected = match timeout(HEAD_START, &mut connect).await {
        Ok(connected) => connected,
        Err(_) => {
            memory.silent(address);
            connect.await
        }
    };
    if connected.is_ok() {
        memory.answered(address);
    }
    connected
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    fn addresses(count: u8) -> Vec<IpAddr> {
        (1..=count).map(|last| IpAddr::from([10, 0, 0, last])).collect()
    }

    /// Only this one answers, after this time.
    async fn attempt(address: IpAddr, well: IpAddr, after: u64) -> Result<IpAddr, &'static str> {
        match address == well {
            true => sleep(Duration::from_millis(after)).await,
            false => std::future::pending().await,
        }
        Ok(address)
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_a_hundred_is_found_and_remembered() {
        let (memory, all) = (Memory::default(), addresses(100));
        let well = all[99];
        let begun = Instant::now();
        assert_eq!(race(&memory, &all, 0, |address| attempt(address, well, 1)).await, Some(Ok(well)));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        for turn in 0..200 {
            let begun = Instant::now();
            assert_eq!(race(&memory, &all, turn, |address| attempt(address, well, 1)).await, Some(Ok(well)));
            assert_eq!(begun.elapsed(), Duration::from_millis(1), "{turn}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_due_is_tried_beside_another_one() {
        let (memory, all) = (Memory::default(), addresses(2));
        let [silent, well] = [all[0], all[1]];
        let silently = |address| attempt(address, well, 1);
        assert_eq!(race(&memory, &all, 0, silently).await, Some(Ok(well)));
        for rest in [10, 20, 40, 80, 160, 320, 600, 600] {
            advance(Duration::from_secs(rest)).await;
            let begun = Instant::now();
            assert_eq!(race(&memory, &all, 0, silently).await, Some(Ok(well)));
            assert_eq!(begun.elapsed(), Duration::from_millis(1), "{rest}");
            // It is tried for as long as that takes, and is silent again.
            sleep(HEAD_START).await;
            assert!(memory.has(silent));
        }
        advance(MOST).await;
        let both = |address| async move { Ok::<IpAddr, &str>(address) };
        assert_eq!(race(&memory, &all, 0, both).await, Some(Ok(well)));
        tokio::task::yield_now().await;
        assert_eq!(race(&memory, &all, 0, both).await, Some(Ok(silent)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_failure_is_told_when_all_fail() {
        let (memory, all) = (Memory::default(), addresses(3));
        let fails = |address: IpAddr| async move { Err::<(), String>(address.to_string()) };
        assert_eq!(race(&memory, &all, 1, fails).await, Some(Err("10.0.0.2".to_owned())));
        assert_eq!(race(&memory, &[], 0, fails).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_refuses_is_no_delay() {
        let (memory, all) = (Memory::default(), addresses(2));
        let second = all[1];
        let begun = Instant::now();
        let connect = |address| async move { if address == second { Ok(address) } else { Err("refused") } };
        assert_eq!(race(&memory, &all, 0, connect).await, Some(Ok(second)));
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
