//! How the calls to each server went in the last minute, from what the metrics count.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crocodile_pear::unstable::database::StatementEnd;
use crocodile_pear::unstable::telemetry::histogram::{HTTP, time_quantile};
use crocodile_pear::unstable::upstream::CallEnd;

use super::number::rounded;
use crate::gateway::Gateway;

/// The time that is told.
const LATELY: Duration = Duration::from_secs(60);

/// The counts are remembered so often, to be subtracted later.
const OFTEN: Duration = Duration::from_secs(10);

/// The counters by upstream and server; of a database under its name alone.
#[derive(Default)]
pub struct Figures(HashMap<(Arc<str>, Arc<str>), ServerFigures>);

/// The counters of the calls to one server.
#[derive(Clone, Default)]
pub struct ServerFigures {
    pub calls: u64,
    /// The number of calls without an answer, or with one of 5xx.
    pub failed: u64,
    /// How long those with an answer took, by bucket.
    durations: Vec<u64>,
}

/// The counts of a minute ago, and later ones.
#[derive(Default)]
pub struct ServerTimes(VecDeque<(Instant, Figures)>);

impl ServerTimes {
    /// The counters of the last minute. For the first minute in which somebody looks they are all counters so far.
    pub fn lately(&mut self, gateway: &Gateway) -> Figures {
        let (now, counted) = (Instant::now(), Figures::counted(gateway));
        self.0.retain(|(at, _)| now.duration_since(*at) <= LATELY + OFTEN);
        if self.0.is_empty() {
            self.0.push_back((now, Figures::default()));
        }
        let lately = self.0.front().map(|(_, before)| counted.since(before)).unwrap_or_default();
        if self.0.back().is_some_and(|(at, _)| now.duration_since(*at) >= OFTEN) {
            self.0.push_back((now, counted));
        }
        lately
    }
}

impl Figures {
    fn counted(gateway: &Gateway) -> Self {
        let mut all = Figures::default();
        for upstream in gateway.upstreams().values() {
            for (server, end, times) in upstream.times() {
                let own = all.0.entry((upstream.name().clone(), server)).or_default();
                own.calls += times.number();
                match end {
                    Some(CallEnd::Failed(_)) => own.failed += times.number(),
                    Some(CallEnd::Answered(status)) => {
                        own.failed += if status.is_server_error() { times.number() } else { 0 };
                        own.durations.resize(HTTP.len() + 1, 0);
                        own.durations.iter_mut().zip(times.counts()).for_each(|(sum, count)| *sum += count);
                    }
                    Some(CallEnd::Dropped) | None => {}
                }
            }
        }
        for database in gateway.databases().values() {
            let own = all.0.entry((database.name().clone(), database.name().clone())).or_default();
            for (end, times) in database.times() {
                own.calls += times.number();
                own.failed += if matches!(end, Some(StatementEnd::Failed(_))) { times.number() } else { 0 };
            }
        }
        all
    }

    fn since(&self, before: &Figures) -> Figures {
        let since = |(place, own): (&(Arc<str>, Arc<str>), &ServerFigures)| {
            // A reload may have begun anew.
            let before = before.0.get(place).filter(|before| before.calls <= own.calls);
            (place.clone(), before.map_or_else(|| own.clone(), |before| own.since(before)))
        };
        Figures(self.0.iter().map(since).collect())
    }

    /// The counters of a server.
    pub fn of(&self, upstream: &Arc<str>, server: &Arc<str>) -> Option<&ServerFigures> {
        self.0.get(&(upstream.clone(), server.clone()))
    }
}

impl ServerFigures {
    fn since(&self, before: &ServerFigures) -> ServerFigures {
        let earlier = before.durations.iter().copied().chain(std::iter::repeat(0));
        ServerFigures {
            calls: self.calls - before.calls,
            failed: self.failed.saturating_sub(before.failed),
            durations: self.durations.iter().zip(earlier).map(|(now, before)| now.saturating_sub(before)).collect(),
        }
    }

    /// The milliseconds within which this share was answered, to the last byte.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        time_quantile(HTTP, &self.durations, share).map(|seconds| rounded(seconds * 1e3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(calls: u64, durations: &[u64]) -> Figures {
        let own = ServerFigures { calls, failed: calls / 2, durations: durations.to_vec() };
        Figures(HashMap::from([(("shop".into(), "a:80".into()), own)]))
    }

    #[test]
    fn what_was_counted_before_is_subtracted_unless_it_began_anew() {
        let lately = |now: Figures, before: &Figures| {
            let lately = now.since(before);
            let own = lately.of(&"shop".into(), &"a:80".into()).expect("it was counted").clone();
            (own.calls, own.failed, own.durations)
        };
        let before = figures(10, &[6, 4]);
        assert_eq!(lately(figures(14, &[7, 7]), &before), (4, 2, vec![1, 3]));
        assert_eq!(lately(figures(4, &[1, 3]), &before), (4, 2, vec![1, 3]));
        assert_eq!(lately(figures(4, &[1, 3]), &Figures::default()), (4, 2, vec![1, 3]));
    }
}
