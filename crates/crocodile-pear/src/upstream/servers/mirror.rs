//! `mirror`: which calls are copied for another upstream.

use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::choice::percent;
use crate::config::problem::Problems;
use crate::config::spec::{Located, Share, Size, Timeout, only};
use crate::runtime::random::below;
use crate::spec;
use crate::upstream::call::timeouts::Timeouts;

spec! {
    /// A copy of calls for another upstream. Its answer is dropped, and nobody waits for it. Short form: the name.
    pub struct MirrorSpec {
        /// The name of the upstream that gets the copies. It gets the client's fields that its own `forward` names, and
        /// the fields that the call sets.
        pub to: Located<String>,
        /// The share of the calls that are copied: `10%`.
        pub share: Share = Share(1.0),
        /// The maximum number of copies at once. What is more is not copied, and counted in
        /// `crocodile_pear_upstream_turned_away_total`.
        pub in_flight: NonZeroUsize = MOST,
        /// The largest body of a client that is copied. A call with a larger one is not copied. A copy of a streamed body
        /// leaves when the body has ended.
        pub max_body: Size = Size(64 << 10),
        /// Timeout for a copy and its answer.
        pub timeout: Duration = Duration::from_secs(10),
    }
    short(short)
}

const MOST: NonZeroUsize = NonZeroUsize::new(64).expect("more than none");

fn short(to: Located<String>, problems: &mut Problems) -> Option<MirrorSpec> {
    only([("to", to)], problems)
}

/// Where copies go.
pub(crate) struct Mirror<T> {
    /// Two upstreams may mirror each other.
    to: Weak<T>,
    share: f64,
    places: Arc<Semaphore>,
    pub(crate) max_body: usize,
    pub(crate) timeouts: Arc<Timeouts>,
    outline: String,
}

impl<T> Mirror<T> {
    pub(crate) fn new(spec: &MirrorSpec, to: &Arc<T>, timeouts: &Timeouts) -> Self {
        Mirror {
            to: Arc::downgrade(to),
            share: spec.share.0,
            places: Arc::new(Semaphore::new(spec.in_flight.get())),
            max_body: spec.max_body.bytes(),
            timeouts: Arc::new(Timeouts { call: Timeout::After(spec.timeout), ..timeouts.clone() }),
            outline: format!("{}% of its calls are copied to {}", percent(spec.share), spec.to),
        }
    }

    pub(crate) fn outline(&self) -> String {
        self.outline.clone()
    }

    /// Where the copy of a call goes, if chance decides for one.
    pub(crate) fn choose(&self) -> Option<Arc<T>> {
        const WHOLE: u64 = 1 << 32;
        let chosen = self.share >= 1.0 || (below(WHOLE) as f64) < self.share * WHOLE as f64;
        if chosen { self.to.upgrade() } else { None }
    }

    /// A place among the copies; nothing while all are taken.
    pub(crate) fn enter(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }
}
