//! Counts of consumers since the gateway began: those with the most requests each, the others together.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::counts::Counts;

/// The name of all consumers that have no row of their own.
pub const OTHER: &str = "other";

/// How often those with the most requests are chosen anew, in seconds.
const TERM: u64 = 3600;

/// The number of consumers that may be chosen: further ones are not looked at.
const CANDIDATES: usize = 4096;

/// The longest name that is told.
const LONGEST: usize = 128;

/// The counts of consumers.
#[derive(Default)]
pub struct Consumers {
    /// So many have counts of their own.
    top: usize,
    own: HashMap<String, Counts>,
    other: Counts,
    /// The requests of each since those with the most were chosen.
    requests: HashMap<String, u64>,
    /// When they are chosen again, in seconds since 1970.
    next: u64,
}

impl Consumers {
    /// Adds what has come since.
    pub fn add(&mut self, fresh: HashMap<String, Counts>) {
        let mut fresh: Vec<_> = fresh.into_iter().map(|(name, counts)| (cut(name), counts)).collect();
        // Where places are free, those with the most have them.
        fresh.sort_unstable_by(|(name, counts), (other, more)| {
            (Reverse(counts.requests), name).cmp(&(Reverse(more.requests), other))
        });
        for (name, counts) in fresh {
            self.other_or_own(&name).add(&counts);
            if name != OTHER && (self.requests.len() < CANDIDATES || self.requests.contains_key(&name)) {
                *self.requests.entry(name).or_default() += counts.requests;
            }
        }
    }

    fn other_or_own(&mut self, name: &str) -> &mut Counts {
        let free = self.own.len() < self.top && name != OTHER;
        match free || self.own.contains_key(name) {
            true => self.own.entry(name.to_owned()).or_default(),
            false => &mut self.other,
        }
    }

    /// Chooses those with the most requests, if it is time. Who is no longer among them gives up its counts; who comes back begins
    /// at 0, as after a restart.
    pub fn rank(&mut self, now: u64, top: usize) {
        self.top = top;
        if now < self.next {
            return;
        }
        self.next = now + TERM;
        let mut ranked: Vec<(String, u64)> = self.requests.drain().collect();
        ranked
            .sort_unstable_by(|(name, requests), (other, more)| (Reverse(requests), name).cmp(&(Reverse(more), other)));
        ranked.truncate(top);
        self.own.retain(|name, _| ranked.iter().any(|(chosen, _)| chosen == name));
        for (name, _) in ranked {
            self.own.entry(name).or_default();
        }
    }

    /// All counts, by name; `other` where there are others.
    pub fn told(&self) -> Vec<(String, Counts)> {
        let mut told: Vec<_> = self.own.iter().map(|(name, counts)| (name.clone(), counts.clone())).collect();
        told.sort_unstable_by(|(name, _), (other, _)| name.cmp(other));
        if self.other.requests > 0 {
            told.push((OTHER.to_owned(), self.other.clone()));
        }
        told
    }

    /// The memory that it takes, about.
    pub fn weight(&self) -> usize {
        self.own.capacity() * size_of::<(String, Counts)>() + self.requests.capacity() * size_of::<(String, u64)>()
    }
}

/// Names come from requests.
fn cut(mut name: String) -> String {
    let end = (0..=LONGEST).rev().find(|at| name.is_char_boundary(*at));
    name.truncate(end.filter(|end| *end < name.len()).unwrap_or(name.len()));
    name
}

#[cfg(test)]
mod tests {
    use super::super::consumers::*;

    fn some(consumers: &[(&str, u64)]) -> HashMap<String, Counts> {
        let counts = |requests| Counts { requests, ..Counts::default() };
        consumers.iter().map(|(name, requests)| ((*name).to_owned(), counts(*requests))).collect()
    }

    fn told(consumers: &Consumers) -> Vec<(String, u64)> {
        consumers.told().into_iter().map(|(name, counts)| (name, counts.requests)).collect()
    }

    #[test]
    fn those_with_the_most_requests_have_counts_of_their_own() {
        let mut consumers = Consumers::default();
        consumers.rank(0, 2);
        consumers.add(some(&[("ada", 5), ("bob", 1), ("eve", 3)]));
        assert_eq!(told(&consumers), [("ada".into(), 5), ("eve".into(), 3), (OTHER.into(), 1)]);
        consumers.add(some(&[("bob", 9), ("eve", 1)]));
        assert_eq!(told(&consumers), [("ada".into(), 5), ("eve".into(), 4), (OTHER.into(), 10)]);
        // Within the hour nobody loses a place; after it bob has one, and what he had before stays with the others.
        consumers.rank(TERM - 1, 2);
        assert_eq!(told(&consumers)[1].0, "eve");
        consumers.rank(TERM, 2);
        consumers.add(some(&[("bob", 2), ("eve", 1)]));
        assert_eq!(told(&consumers), [("ada".into(), 5), ("bob".into(), 2), (OTHER.into(), 11)]);
    }
}
