//! Results of the credentials of clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use indexmap::IndexMap;

use super::exposition::{Exposition, label};
use super::slot::{CORE, CORES};

/// The result of the credentials of one method.
#[derive(Clone, Copy, Debug)]
pub enum Authenticated {
    /// A credential was valid.
    Granted,
    /// A credential was refused.
    Refused,
    /// A credential could not be checked.
    Unavailable,
    /// There was none, of any method.
    Missing,
}

/// The results as labels, in the order of [`Authenticated`].
const AUTHENTICATED: [&str; 4] = ["granted", "refused", "unavailable", "missing"];

/// Counters of the credentials of one method, by core.
pub struct AuthenticationCounters {
    findings: Vec<Findings>,
    /// How many were refused for which reason: each is a sentence of ours, and there are few.
    reasons: Box<[OnceLock<(&'static str, AtomicU64)>]>,
}

/// The most reasons of a method.
const REASONS: usize = 32;

/// Each core has a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Findings([AtomicU64; AUTHENTICATED.len()]);

impl Default for AuthenticationCounters {
    fn default() -> Self {
        AuthenticationCounters {
            findings: (0..CORES).map(|_| Findings::default()).collect(),
            reasons: (0..REASONS).map(|_| OnceLock::new()).collect(),
        }
    }
}

impl AuthenticationCounters {
    /// Counts one, for the core that this thread is.
    pub fn count(&self, what: Authenticated) {
        self.findings[CORE.get()].0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that was refused.
    pub fn refuse(&self, reason: &'static str) {
        self.count(Authenticated::Refused);
        let places = self.reasons.iter().map(|place| place.get_or_init(|| (reason, AtomicU64::new(0))));
        if let Some((_, count)) = places.into_iter().find(|(known, _)| *known == reason) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        AUTHENTICATED.iter().enumerate().map(|(at, result)| {
            let sum = self.findings.iter().map(|core| core.0[at].load(Ordering::Relaxed)).sum();
            (*result, sum)
        })
    }
}

/// The counters of all methods. Each user keeps its own counters at hand, so that counting needs no search.
#[derive(Default)]
pub(super) struct AuthenticationRegistry(Mutex<IndexMap<&'static str, Arc<AuthenticationCounters>>>);

impl AuthenticationRegistry {
    /// The counters of the credentials of a method. A reload continues them.
    pub(super) fn of(&self, method: &'static str) -> Arc<AuthenticationCounters> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(method).or_default().clone()
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        const NAME: &str = "crocodile_pear_authentications_total";
        let mut family = out.counter(NAME, "Client credentials, by method and result.");
        for (method, counters) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // Of no method there is nothing but what is missing.
            for (result, count) in
                counters.results().filter(|(result, _)| (*method == "none") == (*result == "missing"))
            {
                family.add(format_args!("method=\"{method}\",result=\"{result}\""), count);
            }
        }
        const REFUSED: &str = "crocodile_pear_authentications_refused_total";
        let mut family = out.counter(REFUSED, "Rejected client credentials, by method and reason.");
        for (method, counters) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (reason, count) in counters.reasons.iter().map_while(OnceLock::get) {
                let (reason, count) = (label(reason), count.load(Ordering::Relaxed));
                family.add(format_args!("method=\"{method}\",reason=\"{reason}\""), count);
            }
        }
    }
}
