//! What became of the credentials of clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::exposition::Exposition;
use super::{CORE, CORES, Metrics};

/// What became of the credentials of one method.
#[derive(Clone, Copy, Debug)]
pub enum Authenticated {
    /// One was valid.
    Granted,
    /// One was not.
    Refused,
    /// One could not be checked.
    Unavailable,
    /// There was none, of any method.
    Missing,
}

/// As labels, in the order of [`Authenticated`].
const AUTHENTICATED: [&str; 4] = ["granted", "refused", "unavailable", "missing"];

/// What became of the credentials of one method, by the core.
pub struct AuthenticationCounters(Vec<Findings>);

/// Each core has a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Findings([AtomicU64; AUTHENTICATED.len()]);

impl Default for AuthenticationCounters {
    fn default() -> Self {
        AuthenticationCounters((0..CORES).map(|_| Findings::default()).collect())
    }
}

impl AuthenticationCounters {
    /// Counts one, for the core that this thread is.
    pub fn count(&self, what: Authenticated) {
        self.0[CORE.get()].0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        AUTHENTICATED.iter().enumerate().map(|(at, result)| {
            let sum = self.0.iter().map(|core| core.0[at].load(Ordering::Relaxed)).sum();
            (*result, sum)
        })
    }
}

impl Metrics {
    /// What counts the credentials of a method. A reload counts on.
    pub fn authentications(&self, method: &'static str) -> Arc<AuthenticationCounters> {
        let mut known = self.authentications.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(method).or_default().clone()
    }

    pub(super) fn render_authentications(&self, out: &mut Exposition) {
        const NAME: &str = "crocodile_pear_authentications_total";
        let mut family = out.counter(NAME, "Credentials of clients, by method and result.");
        for (method, counters) in self.authentications.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // Of no method there is nothing but what is missing.
            for (result, count) in
                counters.results().filter(|(result, _)| (*method == "none") == (*result == "missing"))
            {
                family.add(format_args!("method=\"{method}\",result=\"{result}\""), count);
            }
        }
    }
}
