//! Load balancing: which of several servers is called.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::affinity::{Affinity, LoadBound, score};
use super::server::{Server, StateFilter};
use crate::config::problem::Problems;
use crate::config::spec::{ExpressionSpec, Located, Timeout, defaults, only};
use crate::error::{Error, Kind};
use crate::resilience::trial::Turn;
use crate::runtime::random::below;
use crate::upstream::health::eject::Ejection;
use crate::{choice, spec};

spec! {
    /// How to distribute calls over several servers, by their weights. Short form: the method, such as `round_robin`.
    pub struct BalanceSpec {
        /// The method.
        pub by: Way = Way::LeastLoaded,
        /// With `by: hash`: an expression over the client's request, such as `$cookies.cart`. Calls with the same value go
        /// to the same server, from every gateway and after every reload. When a server is added or leaves, only its
        /// share of the values moves. If the value is null, the call goes to the less loaded server.
        pub key: Option<ExpressionSpec>,
        /// With `by: hash`: how many calls in flight a server may have, as a share of the average: `125%`. A further
        /// call goes to the next server for its value. No bound by default.
        pub bound: Option<LoadBound>,
        /// With `by: cookie`: the name of the cookie that the gateway sets.
        pub cookie: Located<String> = Located::new("upstream".to_owned(), Default::default()),
        /// When a server whose calls fail gets no calls for a while.
        pub eject: Ejection = Ejection::After(defaults()),
        /// If a server answers no call for this long while other servers answer, it has failed. The calls that wait
        /// for it count as failed, and `retry` may send them to another server too. A call whose timeout is shorter
        /// waits for half of its timeout.
        pub silence: Timeout = Timeout::After(Duration::from_millis(500)),
    }
    short(way)
}

choice! {
    /// How calls are spread.
    pub enum Way {
        /// Two servers are chosen at random, and the one with fewer calls in flight gets the call.
        LeastLoaded = "least_loaded",
        /// Each server in turn.
        RoundRobin = "round_robin",
        /// A server at random.
        Random = "random",
        /// The server that belongs to the value of `key`.
        Hash = "hash",
        /// The server in a cookie that the gateway sets, as long as it takes calls. Only the answer of a proxy
        /// carries the cookie to the client.
        Cookie = "cookie",
    }
}

fn way(by: Located<String>, problems: &mut Problems) -> Option<BalanceSpec> {
    only([("by", by)], problems)
}

/// Chooses among the servers of one upstream.
pub(crate) struct Balance {
    way: Way,
    /// By priority: the servers of one are called only where none of those before takes calls.
    groups: Box<[PriorityGroup]>,
}

/// Servers with the same priority.
struct PriorityGroup {
    /// Their places in the list.
    servers: Range<usize>,
    /// Indices of servers, each as often as its weight, evenly mixed.
    turns: Box<[usize]>,
    next: AtomicUsize,
}

/// The servers that a call was sent to. Servers beyond the 64th are not remembered.
#[derive(Clone, Copy, Default)]
pub(crate) struct TriedServers(u64);

impl TriedServers {
    pub(crate) fn add(&mut self, at: usize) {
        self.0 |= u32::try_from(at).ok().and_then(|at| 1_u64.checked_shl(at)).unwrap_or(0);
    }

    fn has(self, at: usize) -> bool {
        u32::try_from(at).ok().and_then(|at| self.0.checked_shr(at)).is_some_and(|rest| rest & 1 == 1)
    }
}

impl Balance {
    /// `groups` are the numbers of servers with the same priority, in the order of the list.
    pub(crate) fn new(way: Way, servers: &[Arc<Server>], groups: &[usize]) -> Self {
        let mut start = 0;
        let group = |number: &usize| {
            let range = start..start + number;
            start = range.end;
            let weights: Vec<u32> = servers[range.clone()].iter().map(|server| server.weight()).collect();
            let turns = mix(&weights).into_iter().map(|at| range.start + at).collect();
            PriorityGroup { servers: range, turns, next: AtomicUsize::new(0) }
        };
        Balance { way, groups: groups.iter().map(group).collect() }
    }

    /// Chooses a server, if possible one that the call was not sent to.
    ///
    /// # Errors
    /// `Busy`, if all breakers are open; `Unreachable`, if there is no server.
    pub(crate) fn choose(
        &self,
        servers: &[Arc<Server>],
        tried: TriedServers,
        affinity: Option<Affinity>,
    ) -> Result<(usize, Turn), Error> {
        if let [only] = servers {
            return only
                .admit(StateFilter::All)
                .or_else(|| only.admit(StateFilter::Breaker))
                .map(|turn| (0, turn))
                .ok_or_else(|| open(servers));
        }
        let owned = affinity.and_then(|affinity| self.owner(servers, tried, affinity));
        let chosen = owned.or_else(|| self.find(servers, |at| !tried.has(at), StateFilter::All));
        let chosen = chosen.or_else(|| self.find(servers, |_| true, StateFilter::All));
        // All are down or ejected: call one nevertheless.
        chosen.or_else(|| self.find(servers, |_| true, StateFilter::Breaker)).ok_or_else(|| open(servers))
    }

    /// The server that belongs to a value or a cookie, if it takes the call.
    fn owner(&self, servers: &[Arc<Server>], tried: TriedServers, affinity: Affinity) -> Option<(usize, Turn)> {
        let admit = |at: usize| servers[at].admit(StateFilter::All).map(|turn| (at, turn));
        if self.way == Way::Cookie {
            let at = servers.iter().position(|server| server.mark == affinity.value)?;
            return Some(at).filter(|at| !tried.has(*at)).and_then(admit);
        }
        self.groups.iter().find_map(|group| {
            let own = &servers[group.servers.clone()];
            let mut order: Vec<(f64, usize)> = own
                .iter()
                .zip(group.servers.clone())
                .map(|(server, at)| (score(affinity.value, server.mark, server.weight()), at))
                .collect();
            order.sort_by(|one, other| other.0.total_cmp(&one.0));
            let load = |server: &Server| server.figures.load.load(Ordering::Relaxed).max(0).unsigned_abs();
            let all = || {
                let sum = |(loads, weights), server: &Arc<Server>| {
                    (loads + load(server), weights + u64::from(server.weight()))
                };
                own.iter().fold((0, 0), sum)
            };
            let one = |at: usize| (load(&servers[at]), servers[at].weight());
            let room = |at: usize| affinity.bound.is_none_or(|bound| bound.has_room(one(at), all()));
            let free = |at: &usize| !tried.has(*at);
            let places = || order.iter().map(|(_, at)| *at).filter(free);
            places().filter(|at| room(*at)).find_map(admit).or_else(|| places().find_map(admit))
        })
    }

    /// The first server that is wanted and takes the call, by priority.
    fn find(
        &self,
        servers: &[Arc<Server>],
        wanted: impl Fn(usize) -> bool,
        filter: StateFilter,
    ) -> Option<(usize, Turn)> {
        let admit = |at: usize| servers[at].admit(filter).map(|turn| (at, turn));
        self.groups.iter().find_map(|group| group.order(servers, self.way).filter(|at| wanted(*at)).find_map(admit))
    }
}

impl PriorityGroup {
    /// Its servers, the preferred ones first.
    fn order(&self, servers: &[Arc<Server>], way: Way) -> impl Iterator<Item = usize> {
        let (first, second) = self.candidates(servers, way);
        let (start, number) = (self.servers.start, self.servers.len());
        // The next in turn, so that the calls of a server that is out are spread over all others.
        let turns = if way == Way::RoundRobin { self.turns.len() } else { 0 };
        let turns = (0..turns).map(|_| self.turn());
        let rest = (0..number).map(move |at| start + (second - start + at) % number);
        [first, second].into_iter().chain(turns).chain(rest)
    }

    fn turn(&self) -> usize {
        self.turns[self.next.fetch_add(1, Ordering::Relaxed) % self.turns.len()]
    }

    /// Two servers, the preferred one first.
    fn candidates(&self, servers: &[Arc<Server>], way: Way) -> (usize, usize) {
        let chance = || self.turns[below(self.turns.len() as u64) as usize];
        match way {
            _ if self.servers.len() == 1 => (self.servers.start, self.servers.start),
            Way::RoundRobin => {
                let turn = self.turn();
                (turn, turn)
            }
            Way::Random => (chance(), chance()),
            Way::LeastLoaded | Way::Hash | Way::Cookie => {
                let (start, number) = (self.servers.start, self.servers.len());
                let first = chance();
                // Another one, all with the same chance: the weight counts below, in the load.
                let other = 1 + below(number as u64 - 1) as usize;
                let second = start + (first - start + other) % number;
                if better(&servers[second], &servers[first]) { (second, first) } else { (first, second) }
            }
        }
    }
}

/// Whether `other` has no more calls in flight per unit of weight than `chosen`, also with this one. Without load nothing
/// is better than what chance has chosen by the weights: a canary of a tenth has a tenth of few calls, too.
fn better(other: &Server, chosen: &Server) -> bool {
    let load = |server: &Server| server.figures.load.load(Ordering::Relaxed);
    (load(other) + 1) * i64::from(chosen.weight()) <= load(chosen) * i64::from(other.weight())
}

fn open(servers: &[Arc<Server>]) -> Error {
    if servers.is_empty() {
        return Error::new(Kind::Unreachable, "no server is known");
    }
    let left = servers.iter().map(|server| server.left()).min().unwrap_or_default();
    Error::new(Kind::Busy, "the upstream's circuit breaker is open").after(left)
}

/// Each index as often as its weight, spread evenly: nginx's smooth weighted round robin, computed once.
fn mix(weights: &[u32]) -> Vec<usize> {
    let shared = weights.iter().fold(0, |shared, weight| gcd(shared, *weight)).max(1);
    let weights: Vec<i64> = weights.iter().map(|weight| i64::from(weight / shared)).collect();
    let total: i64 = weights.iter().sum();
    let mut credit = vec![0; weights.len()];
    let turn = |_| {
        credit.iter_mut().zip(&weights).for_each(|(credit, weight)| *credit += weight);
        let richest = (0..credit.len()).rev().max_by_key(|at| credit[*at]).unwrap_or(0);
        credit[richest] -= total;
        richest
    };
    (0..total).map(turn).collect()
}

pub(crate) fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::super::Servers;
    use super::super::balance::*;
    use super::super::settings::UpstreamSettings;
    use crate::resilience::trial::Trial;
    use crate::resilience::verdict::Verdict;
    use crate::upstream::connect::location::Location;

    fn servers(weights: &[u32]) -> Vec<Arc<Server>> {
        let url = "http://127.0.0.1:9".parse().expect("a URL");
        let mut settings = UpstreamSettings::new("shop", url);
        let only = settings.servers.remove(0);
        settings.servers = weights.iter().map(|weight| Location { weight: *weight, ..only.clone() }).collect();
        Servers::new(&settings).expect("a URL").list.into_vec()
    }

    fn balance(way: Way, servers: &[Arc<Server>]) -> Balance {
        Balance::new(way, servers, &[servers.len()])
    }

    fn spread(balance: &Balance, servers: &[Arc<Server>], calls: usize) -> Vec<usize> {
        let mut seen = vec![0; servers.len()];
        for _ in 0..calls {
            seen[balance.choose(servers, TriedServers::default(), None).expect("one").0] += 1;
        }
        seen
    }

    #[test]
    fn turns_are_evenly_mixed() {
        assert_eq!(mix(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(mix(&[50, 10, 10]), [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn each_way_keeps_to_the_weights() {
        let servers = servers(&[2, 1, 1]);
        assert_eq!(spread(&balance(Way::RoundRobin, &servers), &servers, 400), [200, 100, 100]);
        let seen = spread(&balance(Way::Random, &servers), &servers, 4_000);
        assert!((1_800..2_200).contains(&seen[0]), "{seen:?}");
    }

    #[test]
    fn the_less_loaded_of_two_is_called() {
        let servers = servers(&[1, 1]);
        servers[0].figures.load.store(5, Ordering::Relaxed);
        let balance = balance(Way::LeastLoaded, &servers);
        assert_eq!(spread(&balance, &servers, 100), [0, 100]);
    }

    #[test]
    fn few_calls_keep_to_the_weights_too() {
        let servers = servers(&[9, 1]);
        let balance = balance(Way::LeastLoaded, &servers);
        let seen = spread(&balance, &servers, 4_000);
        assert!((300..500).contains(&seen[1]), "{seen:?}");
        servers[0].figures.load.store(9, Ordering::Relaxed);
        assert_eq!(spread(&balance, &servers, 100), [0, 100]);
        servers[1].figures.load.store(2, Ordering::Relaxed);
        assert_eq!(spread(&balance, &servers, 100), [100, 0]);
    }

    #[test]
    fn what_was_tried_is_left_for_last() {
        let servers = servers(&[1, 1, 1]);
        let balance = balance(Way::LeastLoaded, &servers);
        let mut tried = TriedServers::default();
        tried.add(0);
        tried.add(2);
        assert!((0..100).all(|_| balance.choose(&servers, tried, None).is_ok_and(|(at, _)| at == 1)));
        tried.add(1);
        assert!(balance.choose(&servers, tried, None).is_ok());
    }

    #[test]
    fn a_lower_priority_waits_until_no_server_of_a_higher_one_is_left() {
        let servers = servers(&[2, 1, 1]);
        let balance = Balance::new(Way::LeastLoaded, &servers, &[2, 1]);
        let seen = spread(&balance, &servers, 300);
        assert!(seen[0] > 150 && seen[1] > 60 && seen[2] == 0, "{seen:?}");
        let mut tried = TriedServers::default();
        tried.add(0);
        assert_eq!(balance.choose(&servers, tried, None).expect("one").0, 1);
        tried.add(1);
        assert_eq!(balance.choose(&servers, tried, None).expect("one").0, 2);
        for _ in 0..5 {
            servers[0].note(Verdict::Failure, Turn::PLAIN, || false);
            servers[1].note(Verdict::Failure, Turn::PLAIN, || false);
        }
        assert_eq!(spread(&balance, &servers, 100), [0, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_ejected_server_is_left_out_and_tried_again() {
        let servers = servers(&[1, 1, 1]);
        let balance = balance(Way::LeastLoaded, &servers);
        for _ in 0..5 {
            servers[1].note(Verdict::Failure, Turn::PLAIN, || false);
        }
        assert_eq!(spread(&balance, &servers, 300)[1], 0);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(spread(&balance, &servers, 300)[1], 1);
        servers[1].note(Verdict::Success, Turn { eject: Trial::Yes, ..Turn::PLAIN }, || false);
        assert!(spread(&balance, &servers, 300)[1] > 50);
    }

    #[test]
    fn when_all_are_out_all_are_called() {
        let servers = servers(&[1, 1]);
        let balance = balance(Way::RoundRobin, &servers);
        for server in &servers {
            for _ in 0..5 {
                server.note(Verdict::Failure, Turn::PLAIN, || false);
            }
        }
        assert!(balance.choose(&servers, TriedServers::default(), None).is_ok());
    }
}
