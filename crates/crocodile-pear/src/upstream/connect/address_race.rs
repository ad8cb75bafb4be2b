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

/// The known addresses. Addresses that were not tried, or not long enough, are not in it.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<HashMap<IpAddr, AddressStanding>>>);

/// How an address did when it was tried last.
#[derive(Clone, Copy)]
enum AddressStanding {
    Answered,
    Silent(SilentAddress),
}

/// An address that did not answer.
#[derive(Clone, Copy)]
struct SilentAddress {
    /// When it may be tried again.
    until: Instant,
    /// How long it is left for last.
    rest: Duration,
}

impl AddressStanding {
    fn silence(self) -> Option<SilentAddress> {
        match self {
            AddressStanding::Answered => None,
            AddressStanding::Silent(silence) => Some(silence),
        }
    }
}

impl SilentAddress {
    /// Silent from now on, for longer than before.
    fn after(before: Option<SilentAddress>, now: Instant) -> Self {
        let rest = before.map_or(FIRST, |before| (before.rest * 2).min(MOST));
        SilentAddress { until: now + rest, rest }
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, AddressStanding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses from this turn on. Once one was silent, those that have answered come first, and those that were
    /// silent last, the one that was silent longest first. Also one to try beside: it is due, or nothing is known of it.
    fn order(&self, addresses: &[IpAddr], turn: usize) -> (Vec<IpAddr>, Option<IpAddr>) {
        let mut order: Vec<IpAddr> = (0..addresses.len()).map(|at| addresses[(at + turn) % addresses.len()]).collect();
        let mut known = self.lock();
        if !known.values().any(|state| state.silence().is_some()) {
            return (order, None);
        }
        known.retain(|address, _| addresses.contains(address));
        order.sort_by_key(|address| match known.get(address) {
            Some(AddressStanding::Answered) => (0, None),
            None => (1, None),
            Some(AddressStanding::Silent(silence)) => (2, Some(silence.until)),
        });
        if !matches!(order.first().and_then(|first| known.get(first)), Some(AddressStanding::Answered)) {
            // The connection tries them anyway.
            return (order, None);
        }
        let now = Instant::now();
        let beside = order.iter().copied().find(|address| match known.get(address) {
            Some(AddressStanding::Answered) => false,
            None => true,
            Some(AddressStanding::Silent(silence)) => silence.until <= now,
        });
        if let Some(address) = beside {
            // No other connection tries it meanwhile.
            let before = known.get(&address).and_then(|state| state.silence());
            known.insert(address, AddressStanding::Silent(SilentAddress::after(before, now)));
        }
        (order, beside)
    }

    /// Whether it did not answer lately.
    fn is_silent(&self, address: IpAddr) -> bool {
        self.lock().get(&address).is_some_and(|state| state.silence().is_some())
    }

    fn answered(&self, address: IpAddr) {
        self.lock().insert(address, AddressStanding::Answered);
    }

    fn silent(&self, address: IpAddr) {
        let mut known = self.lock();
        let now = Instant::now();
        let before = known.get(&address).and_then(|state| state.silence());
        // Connections that try it at the same time find out the same.
        if before.is_none_or(|before| before.until <= now) {
            known.insert(address, AddressStanding::Silent(SilentAddress::after(before, now)));
        }
    }
}

/// Tries address after address, the next one when one fails or takes too long; `None` without addresses.
pub(crate) async fn race<F, T, E>(
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
    let (order, beside) = memory.order(addresses, turn);
    if let Some(address) = beside {
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
        let at = left.iter().position(|address| !memory.is_silent(*address)).unwrap_or(0);
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
    use std::cell::Cell;

    use tokio::time::{advance, sleep};

    use super::super::address_race::*;

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
        let tried = Cell::new(0);
        let silently = |address| {
            tried.set(tried.get() + u32::from(address == silent));
            attempt(address, well, 1)
        };
        assert_eq!(race(&memory, &all, 0, silently).await, Some(Ok(well)));
        for (number, rest) in (2..).zip([10, 20, 40, 80, 160, 320, 600, 600]) {
            // Not earlier.
            advance(Duration::from_secs(rest) - HEAD_START).await;
            assert_eq!(race(&memory, &all, 0, silently).await, Some(Ok(well)));
            assert_eq!(tried.get(), number - 1, "{rest}");
            advance(HEAD_START).await;
            let begun = Instant::now();
            assert_eq!(race(&memory, &all, 0, silently).await, Some(Ok(well)));
            assert_eq!(begun.elapsed(), Duration::from_millis(1), "{rest}");
            assert_eq!(tried.get(), number, "{rest}");
            assert!(memory.is_silent(silent));
        }
        advance(MOST).await;
        let both = |address| async move { Ok::<IpAddr, &str>(address) };
        assert_eq!(race(&memory, &all, 0, both).await, Some(Ok(well)));
        tokio::task::yield_now().await;
        assert_eq!(race(&memory, &all, 0, both).await, Some(Ok(silent)));
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_answer_share_the_connections_again() {
        let (memory, all) = (Memory::default(), addresses(4));
        let first = all[0];
        let all_but_first = |address: IpAddr| async move {
            match address == first {
                true => std::future::pending().await,
                false => Ok::<IpAddr, &str>(address),
            }
        };
        let mut found = Vec::new();
        for turn in 0..8 {
            found.push(race(&memory, &all, turn, all_but_first).await.and_then(Result::ok));
            sleep(HEAD_START).await;
        }
        for address in &all[1..] {
            assert!(found[4..].contains(&Some(*address)), "{found:?}");
        }
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
