//! Sources that are listened to: from the first connection on, over lost ones, and over reloads.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use crocodile_pear::unstable::cache::Store;
use crocodile_pear::unstable::runtime::backoff::grown;
use crocodile_pear::unstable::runtime::random::share;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use tokio::runtime::{self, Runtime};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::reaction::Reaction;
use super::source::{EventSource, SourceIdentity};
use super::trust::SourceTrust;
use crate::telemetry::metrics::{EventCounters, Metrics};

/// After the first failure: a server that closed one connection mostly takes the next.
const FIRST: Duration = Duration::from_millis(50);

/// At most: while the server is away nothing with tags is fresh.
const MOST: Duration = Duration::from_secs(5);

/// How long to wait before the next attempt to connect: by chance between half and the whole of a time that doubles, so that many
/// gateways do not all come at once.
fn pause(failed: u32) -> Duration {
    grown(FIRST, failed, MOST).mul_f64(0.5 + share() / 2.0)
}

/// The sources of the gateway that serves. One thread listens to all of them.
#[derive(Default)]
pub struct EventSources {
    runtime: Option<Runtime>,
    followed: Vec<Followed>,
}

/// A source that is listened to.
struct Followed {
    identity: SourceIdentity,
    reaction: Arc<ArcSwap<Reaction>>,
    listening: SourceTask,
}

/// A connection to a source of events.
enum SourceTask {
    Task(JoinHandle<()>),
    /// There is no thread for it: what has tags is never fresh.
    Never {
        _trust: SourceTrust,
    },
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let SourceTask::Task(task) = &self.listening {
            task.abort();
        }
    }
}

impl EventSources {
    /// Listens to these, and no longer to others. A connection that is there stays, so that nothing is missed.
    pub fn follow(&mut self, sources: Vec<EventSource>, cache: &Arc<Store>, metrics: &Metrics) {
        let mut before = std::mem::take(&mut self.followed);
        for source in sources {
            let followed = match before.iter().position(|followed| followed.identity == source.identity) {
                Some(at) => before.swap_remove(at),
                None => self.begin(&source, cache, metrics),
            };
            followed.reaction.store(source.reaction);
            self.followed.push(followed);
        }
        drop(before);
        if self.followed.is_empty() {
            self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
        }
    }

    fn begin(&mut self, source: &EventSource, cache: &Arc<Store>, metrics: &Metrics) -> Followed {
        let EventSource { identity, reaction } = source;
        let reaction = Arc::new(ArcSwap::new(reaction.clone()));
        let ear = Ear {
            identity: identity.clone(),
            reaction: reaction.clone(),
            counters: metrics.events(&identity.to_string(), &identity.channel),
            // From now on, not from when the thread has begun.
            trust: SourceTrust::new(cache.clone(), identity.trust),
            cache: cache.clone(),
            failures: LogLimiter::default(),
        };
        let listening = match self.runtime() {
            Ok(runtime) => SourceTask::Task(runtime.spawn(ear.listen())),
            Err(error) => {
                tracing::error!(%error, "cannot start the thread that listens to events");
                SourceTask::Never { _trust: ear.trust }
            }
        };
        Followed { identity: identity.clone(), reaction, listening }
    }

    fn runtime(&mut self) -> io::Result<&Runtime> {
        if self.runtime.is_none() {
            let thread =
                runtime::Builder::new_multi_thread().worker_threads(1).thread_name("events").enable_all().build();
            self.runtime = Some(thread?);
        }
        self.runtime.as_ref().ok_or_else(|| io::Error::other("it was not started"))
    }
}

/// Listens to one source.
struct Ear {
    identity: SourceIdentity,
    reaction: Arc<ArcSwap<Reaction>>,
    counters: Arc<EventCounters>,
    trust: SourceTrust,
    cache: Arc<Store>,
    /// The limiter for messages that could not be understood.
    failures: LogLimiter,
}

impl Ear {
    async fn listen(mut self) {
        let SourceIdentity { channel, .. } = &self.identity.clone();
        let source = self.identity.to_string();
        let mut failed = 0;
        let mut told = false;
        loop {
            let identity = &self.identity;
            let why = match self.trust.during(identity.listen()).await {
                Ok(mut listener) => {
                    self.trust.hear();
                    self.counters.set_up();
                    tracing::info!(source, channel, "listening to events");
                    (told, failed) = (false, 0);
                    let why = loop {
                        match listener.next().await {
                            Ok(message) => self.react(message),
                            Err(why) => break why,
                        }
                    };
                    self.trust.lose();
                    self.counters.count_lost();
                    why
                }
                Err(why) => why,
            };
            if !std::mem::replace(&mut told, true) {
                let stale = if self.identity.trust.is_zero() {
                    "now".to_owned()
                } else {
                    format!("in {:?}", self.identity.trust)
                };
                tracing::warn!(
                    source,
                    channel,
                    why,
                    stale,
                    "events cannot be received; entries with tags are stale until they can"
                );
            }
            self.trust.during(sleep(pause(failed))).await;
            failed += 1;
        }
    }

    /// Purges what a message says.
    fn react(&self, message: Vec<u8>) {
        self.counters.count_message();
        match self.reaction.load().of(message) {
            Ok(purgings) => {
                purgings.iter().for_each(|purging| purging.apply(&self.cache));
            }
            Err(why) => {
                self.counters.count_failure();
                self.trust.forget();
                if self.failures.allows() {
                    let (source, channel) = (self.identity.to_string(), &self.identity.channel);
                    tracing::warn!(source, channel, why, "cannot read an event; all answers with tags are stale");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_bound_and_varies() {
        for (failed, whole) in (0..).zip([50, 100, 200, 400, 800, 1600, 3200, 5000, 5000].map(Duration::from_millis)) {
            let time = pause(failed);
            assert!(time >= whole / 2 && time <= whole, "{time:?} of {whole:?}");
        }
        let times: Vec<_> = (0..8).map(|_| pause(9)).collect();
        assert!(times.iter().any(|time| *time != times[0]));
    }
}
