//! Values that are waiting for a batched call: collected while other calls run, never for a fixed time.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use futures_util::stream::Stream;

use super::batch::{Asking, BatchKey, BatchOutcomes};
use super::upstream_call::Calling;
use crate::error::{Error, Kind};
use crate::jq::{Data, Value};
use crate::message::names::Names;
use crate::offload;
use crate::pipeline::flow::{Flow, Outcome, Producer};
use crate::request::context::Scope;
use crate::request::fetch_memo::Fetched;
use crate::runtime;

/// The calls of one step for one request of a client.
pub(crate) struct Collector {
    asking: Arc<Asking>,
    scope: Arc<Scope>,
    state: Mutex<CollectorState>,
}

#[derive(Default)]
struct CollectorState {
    open: Option<OpenBatch>,
    /// Producers that may still bring values.
    coming: usize,
    /// Whether there will be no more of them.
    over: bool,
    /// Batches in flight.
    running: usize,
}

/// The batch that takes values.
struct OpenBatch {
    seats: Arc<Mutex<Seats>>,
    /// Held by the values that wait for it: when all have left, it is cancelled.
    table: WeakShared<BoxFuture<'static, Arc<BatchOutcomes>>>,
}

#[derive(Default)]
struct Seats {
    values: Vec<(BatchKey, Value)>,
    names: Names,
    full: bool,
    /// How many there were when the round began.
    seen: usize,
    round: Option<Arc<Round>>,
    waker: Option<Waker>,
}

/// A round of the runtime: every producer that is ready adds its value in it.
struct Round {
    over: AtomicBool,
    waker: Waker,
}

type SharedBatch = Shared<BoxFuture<'static, Arc<BatchOutcomes>>>;

impl Collector {
    pub(crate) fn new(asking: Arc<Asking>, scope: &Arc<Scope>) -> Arc<Self> {
        Arc::new(Collector { asking, scope: scope.clone(), state: Mutex::default() })
    }

    /// A producer that may bring values.
    pub(crate) fn expect(self: &Arc<Self>) -> Coming {
        self.state().coming += 1;
        Coming(self.clone())
    }

    /// There will be no more producers than those that are expected.
    pub(crate) fn close(&self) {
        self.change(|state| {
            state.over = true;
            false
        });
    }

    /// The producers of a flow, each expected from when it is known.
    pub(crate) fn watch(self: &Arc<Self>, flow: Flow) -> WatchedFlow {
        WatchedFlow { flow, collector: self.clone() }
    }

    /// The document of a value: already known, or requested together with others.
    pub(crate) async fn ask(self: Arc<Self>, value: Value, names: Names) -> Fetched {
        let key = self.asking.key(&value)?;
        let memo = self.scope.memo().clone();
        let known = self.asking.known_as(&key);
        let start = move || -> BoxFuture<'static, Fetched> {
            let batch = self.join(key.clone(), value, names);
            Box::pin(async move {
                let lost = || Err(Error::new(Kind::Internal, "a value was lost on its way"));
                batch.await.get(&key).cloned().unwrap_or_else(lost)
            })
        };
        memo.fetch(known, start).await
    }

    /// Takes a seat in the batch that takes values, or in a new one.
    fn join(self: &Arc<Self>, key: BatchKey, value: Value, names: Names) -> SharedBatch {
        let mut state = self.state();
        let open = state.open.take().and_then(|open| Some((open.table.upgrade()?, open.seats)));
        let (table, seats) = open.unwrap_or_else(|| {
            let seats = Arc::new(Mutex::new(Seats { names, ..Seats::default() }));
            (self.clone().run(seats.clone()).boxed().shared(), seats)
        });
        let mut taken = lock(&seats);
        taken.values.push((key, value));
        taken.full = taken.values.len() >= self.asking.size();
        match (taken.full, table.downgrade()) {
            (false, Some(weak)) => state.open = Some(OpenBatch { seats: seats.clone(), table: weak }),
            _ => taken.wake(),
        }
        drop(taken);
        table
    }

    async fn run(self: Arc<Self>, seats: Arc<Mutex<Seats>>) -> Arc<BatchOutcomes> {
        poll_fn(|cx| self.poll_leave(&seats, cx)).await;
        let _running = RunningBatch(self.clone());
        let (values, names) = {
            let mut seats = lock(&seats);
            (std::mem::take(&mut seats.values), seats.names.clone())
        };
        Arc::new(self.asking.clone().together(values, names, self.scope.clone()).await)
    }

    /// Waits until the batch should leave.
    fn poll_leave(&self, seats: &Arc<Mutex<Seats>>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state();
        let mut taken = lock(seats);
        let complete = taken.full || state.is_complete();
        let quiet = taken.seen == taken.values.len() && taken.round.as_ref().is_some_and(|round| round.is_over());
        if complete || (quiet && state.running == 0) {
            state.running += 1;
            state.open.take_if(|open| Arc::ptr_eq(&open.seats, seats));
            return Poll::Ready(());
        }
        taken.waker = Some(cx.waker().clone());
        if state.running == 0 && taken.round.as_ref().is_none_or(|round| round.is_over()) {
            taken.seen = taken.values.len();
            taken.round = Some(Round::begin(cx.waker().clone()));
        }
        Poll::Pending
    }

    /// Changes the state, and lets the open batch check whether it can be sent now.
    fn change(&self, change: impl FnOnce(&mut CollectorState) -> bool) {
        let mut state = self.state();
        // The batch is polled when it may be sent, not for each value that joins it.
        let may_leave = change(&mut state) || state.is_complete();
        let open = state.open.as_ref().filter(|_| may_leave).map(|open| open.seats.clone());
        drop(state);
        if let Some(seats) = open {
            lock(&seats).wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, CollectorState> {
        lock(&self.state)
    }
}

impl CollectorState {
    /// Whether no more values can come.
    fn is_complete(&self) -> bool {
        self.over && self.coming == 0
    }
}

impl Round {
    fn begin(waker: Waker) -> Arc<Self> {
        let round = Arc::new(Round { over: AtomicBool::new(false), waker });
        // Woken when everything that is ready now has been polled. Waiting futures are polled in between as well, so
        // a second poll alone proves nothing.
        let waker = Waker::from(round.clone());
        runtime::wake_after_sockets(&waker);
        round
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

impl Wake for Round {
    fn wake(self: Arc<Self>) {
        self.over.store(true, Ordering::Release);
        self.waker.wake_by_ref();
    }
}

impl Seats {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A producer whose values are not known yet; dropped when its values have joined a batch, or never will.
pub(crate) struct Coming(Arc<Collector>);

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.coming -= 1;
            false
        });
    }
}

/// A batch in flight.
struct RunningBatch(Arc<Collector>);

impl Drop for RunningBatch {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.running -= 1;
            state.running == 0
        });
    }
}

/// A flow whose producers may bring values.
pub(crate) struct WatchedFlow {
    flow: Flow,
    collector: Arc<Collector>,
}

impl Stream for WatchedFlow {
    type Item = (Producer, Coming);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(Pin::new(&mut self.flow).poll_next(cx));
        let Some(producer) = next else {
            self.collector.close();
            return Poll::Ready(None);
        };
        Poll::Ready(Some((producer, self.collector.expect())))
    }
}

/// The first look at a future, then `coming` is over: its values have taken their seats.
pub(crate) async fn seated<F: Future>(asked: F, coming: Coming) -> F::Output {
    let (mut asked, mut coming) = (pin!(asked), Some(coming));
    poll_fn(|cx| {
        let polled = asked.as_mut().poll(cx);
        coming = None;
        polled
    })
    .await
}

impl Calling {
    /// The answer for a value that is asked for together with others.
    pub(crate) async fn ask_together(
        self: Arc<Self>,
        value: Value,
        names: Names,
        scope: Arc<Scope>,
        collector: Arc<Collector>,
        coming: Coming,
    ) -> Outcome {
        let mut names = names;
        let (calling, asked, known, request) = (self.clone(), Data::from(value.clone()), names.clone(), scope.clone());
        let wanted = move || calling.terms.wanted(&asked, &known, &request);
        match offload::run(scope.weight(&self.terms.uses, &names), wanted).await {
            Ok(true) => {}
            Ok(false) => return Some(Ok(self.unmade(names))),
            Err(error) => return Some(Err(self.terms.name(error))),
        }
        let fetched = seated(collector.ask(value, names.clone()), coming).await;
        self.answers_used.note_document(&mut names, &fetched);
        let picked = match fetched {
            Ok(document) => match self.on_status.rule(&document) {
                ControlFlow::Break(ruled) => return Some(self.stand_for(ruled, names)),
                ControlFlow::Continue(Ok(_)) => self.pick(&document, &names),
                ControlFlow::Continue(Err(error)) => Err(error.of_upstream(self.upstream.name())),
            },
            Err(error) => Err(error),
        };
        Some(match (picked, &self.terms.otherwise) {
            (Err(_), Some(otherwise)) => self.stand_for(Ok(otherwise.clone()), names),
            (picked, _) => picked.map_err(|error| self.terms.name(error)),
        })
    }
}
