//! Fetches the keys of an issuer from a URL, repeatedly and in the background. If the issuer is down, the old keys stay
//! in use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use crocodile_pear::unstable::upstream::Remote;
use http::StatusCode;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::keys::KeySet;

/// A token with an unknown `kid` causes an early fetch, but at most this often: issuers rarely change keys, and any
/// client can send such a token.
const REFETCH: Duration = Duration::from_secs(10);

/// How long a request waits for keys.
const PATIENCE: Duration = Duration::from_secs(5);

/// The retry interval while there are no keys at all.
const AGAIN: Duration = Duration::from_secs(1);

/// The keys at a URL.
pub struct Issuer {
    remote: Remote,
    /// Its name in the log.
    name: String,
    keys: ArcSwapOption<KeySet>,
    /// The latest round that was requested, and the latest that has ended, successful or not. The first round is 1.
    wanted: AtomicU64,
    done: watch::Sender<u64>,
    wake: Notify,
    /// When a token last requested a round, and which one.
    asked: Mutex<Option<(Instant, u64)>>,
    /// Whether the latest fetch failed. Logged once; the state survives a reload.
    failing: AtomicBool,
}

impl Issuer {
    /// An issuer whose keys are not fetched yet.
    pub fn new(name: &str, remote: Remote) -> Self {
        Issuer {
            remote,
            name: name.to_owned(),
            keys: ArcSwapOption::empty(),
            wanted: AtomicU64::new(1),
            done: watch::Sender::new(0),
            wake: Notify::new(),
            asked: Mutex::default(),
            failing: AtomicBool::new(false),
        }
    }

    /// The latest keys; `None` if none were ever fetched.
    pub fn keys(&self) -> Option<Arc<KeySet>> {
        self.keys.load_full()
    }

    /// Fetches the keys after every `refresh`, and when a token requests it. Runs until dropped.
    pub async fn run(self: Arc<Self>, refresh: Duration) {
        loop {
            let (began, round) = (Instant::now(), self.wanted.load(Ordering::Relaxed));
            let fetched = self.fetch().await;
            let failed = self.failing.swap(fetched.is_err(), Ordering::Relaxed);
            match fetched {
                Ok(()) if failed => tracing::info!("keys of `{}` fetched again", self.name),
                Ok(()) => {}
                Err(reason) if failed => {
                    tracing::debug!("cannot fetch the keys of `{}`: {reason}", self.name);
                }
                Err(reason) if self.keys.load().is_some() => {
                    tracing::warn!("cannot fetch the keys of `{}`: {reason}; the old keys stay in use", self.name);
                }
                Err(reason) => {
                    tracing::warn!(
                        "cannot fetch the keys of `{}`: {reason}; its tokens are answered with 503",
                        self.name
                    );
                }
            }
            self.done.send_replace(round);
            let wait = if self.keys.load().is_none() { AGAIN.min(refresh) } else { refresh };
            tokio::select! {
                () = tokio::time::sleep_until(began + wait) => {}
                () = self.wake.notified() => {}
            }
        }
    }

    async fn fetch(&self) -> Result<(), String> {
        let (status, body) = self.remote.get().await.map_err(|error| error.detail().to_owned())?;
        if status != StatusCode::OK {
            return Err(format!("the answer is {status}"));
        }
        let keys = KeySet::parse(&body)?;
        // If the keys have not changed, results that were obtained with them stay valid.
        if !self.keys.load().as_ref().is_some_and(|known| known.same(&keys)) {
            tracing::debug!("{} keys of `{}` fetched", keys.len(), self.name);
            self.keys.store(Some(Arc::new(keys)));
        }
        Ok(())
    }

    /// The round that a request should wait for: the first one or, if a token names an unknown key, another one. `None`
    /// if waiting would not help.
    pub fn newer(&self, known: bool) -> Option<Round> {
        if !known {
            return (*self.done.borrow() == 0).then_some(Round(1));
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match *asked {
            // Requests that come during this round wait for it too.
            Some((at, round)) if now < at + REFETCH => (*self.done.borrow() < round).then_some(Round(round)),
            _ => {
                let round = self.wanted.fetch_add(1, Ordering::Relaxed) + 1;
                *asked = Some((now, round));
                self.wake.notify_one();
                Some(Round(round))
            }
        }
    }

    /// Waits until the round has ended, but not longer than the limit.
    pub async fn wait(&self, round: Round) {
        let mut done = self.done.subscribe();
        let ended = done.wait_for(|done| *done >= round.0);
        let _ = tokio::time::timeout(PATIENCE, ended).await;
    }
}

/// A fetch of the keys, by its number.
pub struct Round(u64);
