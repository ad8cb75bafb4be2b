//! Whether what the cache holds is believed: while a source of events is not listened to, nobody says what has changed.

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::cache::Store;
use tokio::time::{Instant, sleep_until};

/// While it lives, what has tags is stale. What was fetched before its end stays so until it is fetched anew.
struct Doubt(Arc<Store>);

impl Doubt {
    fn new(cache: &Arc<Store>) -> Self {
        cache.distrust();
        Doubt(cache.clone())
    }
}

impl Drop for Doubt {
    fn drop(&mut self) {
        self.0.trust();
    }
}

/// Whether one source is heard, and what holds while it is not.
pub struct SourceTrust {
    cache: Arc<Store>,
    /// How long the cache is believed without it.
    grace: Duration,
    state: SourceState,
}

enum SourceState {
    /// The source is listened to.
    Heard,
    /// The source is not listened to. The cache is believed until then.
    Missed(Instant),
    /// The source is not listened to, and the cache is not believed.
    Doubted {
        /// Ends with this.
        _doubt: Doubt,
    },
}

impl SourceTrust {
    /// A source that has not been heard yet, so its cache is not believed.
    pub fn new(cache: Arc<Store>, grace: Duration) -> Self {
        let state = SourceState::Doubted { _doubt: Doubt::new(&cache) };
        SourceTrust { cache, grace, state }
    }

    /// The source is lost.
    pub fn lose(&mut self) {
        self.state = match self.grace.is_zero() {
            true => self.doubt(),
            false => SourceState::Missed(Instant::now() + self.grace),
        };
    }

    /// The source is heard from now on. What it said before may have been missed.
    pub fn hear(&mut self) {
        if let SourceState::Missed(_) = self.state {
            self.state = self.doubt();
        }
        self.state = SourceState::Heard;
    }

    /// Marks the cache as stale after a message that could not be understood: anything may have changed.
    pub fn forget(&self) {
        drop(Doubt::new(&self.cache));
    }

    /// Waits for something else, and stops believing meanwhile when it is time.
    pub async fn during<T>(&mut self, other: impl Future<Output = T>) -> T {
        let SourceState::Missed(until) = self.state else { return other.await };
        tokio::pin!(other);
        tokio::select! {
            done = &mut other => return done,
            () = sleep_until(until) => {}
        }
        self.state = self.doubt();
        other.await
    }

    fn doubt(&self) -> SourceState {
        SourceState::Doubted { _doubt: Doubt::new(&self.cache) }
    }
}
