//! `detach`: calls that go on without the client.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::problem::Problems;
use crate::config::spec::{Located, defaults};
use crate::error::{Error, Kind};
use crate::message::names::Names;
use crate::pipeline::flow::Outcome;
use crate::runtime::backoff::grown;
use crate::runtime::detached::{self, Detached};
use crate::spec;

spec! {
    /// A call that nobody waits for: its answer is dropped, and it goes on when the client has left. It is tried again
    /// while there is no answer, or one with 429 or 5xx. When the gateway stops, it waits for such calls for
    /// `clients.drain`. They are kept in memory only: what has not ended when the process ends, is lost. Short form: `on`.
    pub struct DetachSpec {
        /// The maximum number of tries, whatever the method: the server may get the same call twice. Send a key by which it
        /// knows that, such as `headers: { idempotency-key: '{$id}' }`, or write `1`.
        pub attempts: NonZeroU32 = ATTEMPTS,
        /// The wait before the second try. It doubles with each further one, up to 5m.
        pub wait: Duration = Duration::from_secs(1),
        /// The maximum number of such calls at once. With more, the request fails with 503 before they are made.
        pub in_flight: NonZeroUsize = PLACES,
    }
    short(switch)
}

const ATTEMPTS: NonZeroU32 = NonZeroU32::new(5).expect("more than none");
const PLACES: NonZeroUsize = NonZeroUsize::new(256).expect("more than none");

/// The longest wait between two tries.
const LONGEST: Duration = Duration::from_secs(300);

/// The most bytes of an answer that are read, so that its connection is kept.
const ANSWER: usize = 256 << 10;

fn switch(text: Located<String>, problems: &mut Problems) -> Option<DetachSpec> {
    match text.as_str() {
        "on" | "true" => Some(defaults()),
        other => {
            problems.error(text.span, format!("found `{other}`, wanted `on` or a map"), "write `on`, or leave it out")
        }
    }
}

/// The same, ready.
pub(crate) struct Detach {
    attempts: u32,
    wait: Duration,
    places: Arc<Semaphore>,
}

/// The places of some detached calls.
pub(crate) type DetachPlaces = Arc<OwnedSemaphorePermit>;

impl Detach {
    pub(super) fn new(spec: &DetachSpec) -> Self {
        let places = Arc::new(Semaphore::new(spec.in_flight.get()));
        Detach { attempts: spec.attempts.get(), wait: spec.wait, places }
    }

    /// Places for so many calls.
    ///
    /// # Errors
    /// `Overloaded` if too many are under way.
    pub(crate) fn enter(&self, calls: usize) -> Result<DetachPlaces, Error> {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        self.places.clone().try_acquire_many_owned(calls).map(Arc::new).map_err(|_| {
            (0..calls).for_each(|_| detached::count(Detached::Refused));
            Error::new(Kind::Overloaded, "too many calls go on without their clients")
        })
    }

    /// Begins a call, when the names that it uses are there. `ask` makes it, once for each try.
    pub(crate) fn begin(
        &self,
        step: Cow<'static, str>,
        places: DetachPlaces,
        names: impl Future<Output = Result<Names, Error>> + Send + 'static,
        ask: impl Fn(Names) -> BoxFuture<'static, Outcome> + Send + Sync + 'static,
    ) {
        let (attempts, wait) = (self.attempts, self.wait);
        detached::spawn(async move {
            let result = match names.await {
                Ok(names) => attempt(attempts, wait, || ask(names.clone())).await,
                Err(error) => Err(error),
            };
            drop(places);
            match result {
                Ok(()) => Detached::Done,
                Err(error) => {
                    tracing::warn!(%error, step = &*step, "a detached call failed, and is not tried again");
                    Detached::Failed
                }
            }
        });
    }

    pub(crate) fn outline(&self) -> String {
        let tries = if self.attempts == 1 { "one try".to_owned() } else { format!("up to {} tries", self.attempts) };
        format!(", detached: nobody waits for it, {tries}")
    }
}

async fn attempt(attempts: u32, wait: Duration, ask: impl Fn() -> BoxFuture<'static, Outcome>) -> Result<(), Error> {
    let mut tried = 0;
    loop {
        let failed = match judge(ask().await).await {
            Judged::Done => return Ok(()),
            Judged::Failed(error) => return Err(error),
            Judged::Again(error) => error,
        };
        tried += 1;
        if tried >= attempts {
            return Err(failed);
        }
        let doubled = grown(wait, tried - 1, LONGEST);
        tracing::debug!(error = %failed, ?doubled, "a detached call failed; trying again");
        tokio::time::sleep(doubled).await;
    }
}

enum Judged {
    Done,
    Failed(Error),
    Again(Error),
}

async fn judge(outcome: Outcome) -> Judged {
    let answer = match outcome {
        None => return Judged::Done,
        Some(Ok(answer)) => answer,
        Some(Err(error)) => {
            return match error.kind() {
                Kind::Unreachable
                | Kind::Reset
                | Kind::Malformed
                | Kind::Cut
                | Kind::Timeout
                | Kind::Busy
                | Kind::Unavailable
                | Kind::Overloaded => Judged::Again(error),
                _ => Judged::Failed(error),
            };
        }
    };
    let (status, upstream) = (answer.status, answer.upstream.clone());
    // Its connection is kept. What is longer closes it.
    let _ = answer.body.collect(ANSWER).await;
    let error = || {
        let error = Error::new(Kind::of_status(status), format!("the upstream answered with {}", status.as_u16()));
        upstream.iter().fold(error, Error::of_upstream)
    };
    match status {
        StatusCode::TOO_MANY_REQUESTS => Judged::Again(error()),
        status if status.is_server_error() => Judged::Again(error()),
        status if status.is_client_error() => Judged::Failed(error()),
        _ => Judged::Done,
    }
}
