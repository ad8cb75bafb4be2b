//! Documents that were fetched for a request, so that none is fetched twice.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{self, Context, Poll};

use futures_util::future::{BoxFuture, Either, FutureExt, Ready, Shared, WeakShared, ready};
use hashbrown::HashMap;
use http::StatusCode;
use pin_project_lite::pin_project;

use crate::error::Error;
use crate::http::http1::AnswerFields;
use crate::jq::Data;
use crate::message::names::Base;

/// Bytes of documents that are kept, as they came. One that is parsed takes several times as much.
const BYTES: usize = 4 << 20;

/// The weight of an entry besides its document.
const ENTRY: usize = 256;

/// The documents of one request of a client. Those that run are shared by all who ask. Those that are there are kept up
/// to a bound; of what is over it those go first that nobody asked for again.
#[derive(Default)]
pub struct Memo(Mutex<Documents>);

#[derive(Debug)]
pub struct FetchedDocument {
    /// The status it came with.
    pub status: StatusCode,
    pub data: Data,
    /// The header fields it came with.
    pub headers: AnswerFields,
    /// Where it came from.
    pub base: Base,
    /// Its bytes, about.
    pub size: usize,
}

pub type Fetched = Result<Arc<FetchedDocument>, Error>;

type FetchFuture = BoxFuture<'static, Fetched>;

/// A document that is kept, or on its way.
pub type Fetching = Either<Ready<Fetched>, Shared<FetchFuture>>;

/// Which document, for whom: the upstream, the target and every header field that is sent.
type MemoKey = Arc<[u8]>;

#[derive(Default)]
struct Documents {
    known: HashMap<MemoKey, MemoEntry>,
    /// The keys of the entries, the oldest first.
    kept: VecDeque<MemoKey>,
    bytes: usize,
}

enum MemoEntry {
    /// Held by those who wait for it: who all leave, cancel it.
    Runs(WeakShared<FetchFuture>),
    Kept {
        fetched: Fetched,
        weight: usize,
        asked: bool,
    },
}

impl Memo {
    /// The document of this key: kept, or coming, for those who wait for it already or fetched by `start`.
    pub fn fetch<F>(self: &Arc<Self>, key: Vec<u8>, start: impl FnOnce() -> F) -> Fetching
    where
        F: Future<Output = Fetched> + Send + 'static,
    {
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match documents.known.get_mut(key.as_slice()) {
            Some(MemoEntry::Kept { fetched, asked, .. }) => {
                *asked = true;
                return Either::Left(ready(fetched.clone()));
            }
            Some(MemoEntry::Runs(running)) => {
                if let Some(running) = running.upgrade() {
                    return Either::Right(running);
                }
            }
            None => {}
        }
        let key: MemoKey = key.into();
        let running = Keeping { fetch: start(), memo: Arc::downgrade(self), key: key.clone() }.boxed().shared();
        if let Some(weak) = running.downgrade() {
            documents.known.insert(key, MemoEntry::Runs(weak));
        }
        Either::Right(running)
    }
}

pin_project! {
    /// Fetches, and keeps what came. The memo holds what runs, so what runs does not hold the memo.
    ///
    /// By hand: an `async fn` would hold the call twice, as its argument and as what it waits for.
    struct Keeping<F> {
        #[pin]
        fetch: F,
        memo: Weak<Memo>,
        key: MemoKey,
    }
}

impl<F: Future<Output = Fetched>> Future for Keeping<F> {
    type Output = Fetched;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Fetched> {
        let own = self.project();
        let fetched = task::ready!(own.fetch.poll(cx));
        if let Some(memo) = own.memo.upgrade() {
            memo.0.lock().unwrap_or_else(PoisonError::into_inner).keep(own.key.clone(), fetched.clone());
        }
        Poll::Ready(fetched)
    }
}

impl Documents {
    fn keep(&mut self, key: MemoKey, fetched: Fetched) {
        let weight = ENTRY + key.len() + fetched.as_ref().map_or(0, |document| document.size);
        self.known.insert(key.clone(), MemoEntry::Kept { fetched, weight, asked: false });
        self.kept.push_back(key);
        self.bytes += weight;
        while self.bytes > BYTES {
            let Some(oldest) = self.kept.pop_front() else { return };
            match self.known.get_mut(&oldest) {
                Some(MemoEntry::Kept { asked: asked @ true, .. }) => {
                    *asked = false;
                    self.kept.push_back(oldest);
                }
                Some(MemoEntry::Kept { weight, .. }) => {
                    self.bytes -= *weight;
                    self.known.remove(&oldest);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::fetch_memo::*;

    fn document(size: usize) -> Arc<FetchedDocument> {
        let base = Base::Several;
        let data = crate::jq::null().into();
        Arc::new(FetchedDocument { status: StatusCode::OK, data, headers: AnswerFields::default(), base, size })
    }

    async fn ask(memo: &Arc<Memo>, key: &str, size: usize, calls: &Arc<AtomicUsize>) -> Fetched {
        let calls = calls.clone();
        let start = move || -> FetchFuture {
            Box::pin(async move {
                calls.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok(document(size))
            })
        };
        memo.fetch(key.as_bytes().to_vec(), start).await
    }

    #[tokio::test]
    async fn those_who_ask_at_once_share_a_call() {
        let (memo, calls) = (Arc::new(Memo::default()), Arc::new(AtomicUsize::new(0)));
        let (one, other) = tokio::join!(ask(&memo, "a", 1, &calls), ask(&memo, "a", 1, &calls));
        assert!(one.is_ok() && other.is_ok());
        assert!(ask(&memo, "a", 1, &calls).await.is_ok());
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert!(ask(&memo, "b", 1, &calls).await.is_ok());
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn what_all_gave_up_is_fetched_again() {
        let (memo, calls) = (Arc::new(Memo::default()), Arc::new(AtomicUsize::new(0)));
        let mut given_up = Box::pin(ask(&memo, "a", 1, &calls));
        assert!((&mut given_up).now_or_never().is_none());
        drop(given_up);
        assert!(ask(&memo, "a", 1, &calls).await.is_ok());
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn it_is_bounded_and_keeps_what_is_asked_for_again() {
        let (memo, calls) = (Arc::new(Memo::default()), Arc::new(AtomicUsize::new(0)));
        for number in 0..100 {
            assert!(ask(&memo, &number.to_string(), 1 << 20, &calls).await.is_ok());
            assert!(ask(&memo, "often", 300, &calls).await.is_ok());
        }
        assert_eq!(calls.load(Ordering::Relaxed), 101);
        let documents = memo.0.lock().expect("whole");
        assert!(documents.bytes <= BYTES && documents.known.len() < 10);
    }
}
