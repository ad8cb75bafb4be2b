//! The producers that move through a pipeline. Each has a head and a body of bytes or of a value, which is pulled on
//! demand.

mod gate;
mod interleave;
mod turns;

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, Either};
use futures_util::stream::{BoxStream, FuturesOrdered, FuturesUnordered, Stream};

use crate::error::Error;

use crate::message::answer::Answer;

pub use self::gate::{Gate, Gated, HeldBodies};
pub use self::interleave::{Interleave, Order, interleave};
pub use self::turns::{ReadBytes, turns};

/// The result of a producer: an answer or a value of a program, a failure, or nothing (a step dropped the item).
pub type Outcome<T = Answer> = Option<Result<T, Error>>;

/// A response that is still to come. It is consumed once; dropping it cancels the call behind it.
pub struct Producer<T = Answer> {
    /// The number of this producer within the request, from 0; for logs.
    pub id: u32,
    /// The name that `requests` gave it.
    pub name: Option<Arc<str>>,
    /// Resolves when the head is there.
    pub outcome: Awaited<T>,
}

/// The outcome of a producer. An outcome that is ready needs no box.
pub enum Awaited<T = Answer> {
    /// Ready; nothing after it was taken.
    Here(Outcome<T>),
    /// Not ready yet.
    Later(BoxFuture<'static, Outcome<T>>),
}

// The value is never pinned.
impl<T> Unpin for Awaited<T> {}

impl<T> Awaited<T> {
    /// An outcome that is not ready yet.
    pub fn later(outcome: impl Future<Output = Outcome<T>> + Send + 'static) -> Self {
        Awaited::Later(Box::pin(outcome))
    }
}

impl<T> Future for Awaited<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<T>> {
        match &mut *self {
            Awaited::Here(outcome) => Poll::Ready(outcome.take()),
            Awaited::Later(outcome) => outcome.as_mut().poll(cx),
        }
    }
}

/// The producers between two steps. They start when a consumer first polls, at most `at_once` of them at a time.
pub struct Flow<T = Answer> {
    source: ProducerSource<T>,
    at_once: usize,
}

enum ProducerSource<T> {
    /// The usual flow: one producer, without allocating a list.
    One(Option<Sole<T>>),
    List(std::vec::IntoIter<Producer<T>>),
    Stream(BoxStream<'static, Producer<T>>),
}

// The values are never pinned.
impl<T> Unpin for Flow<T> {}

/// A single producer that is never ready at once. It keeps a flow of one at a few words.
struct Sole<T> {
    id: u32,
    name: Option<Arc<str>>,
    outcome: BoxFuture<'static, Outcome<T>>,
}

impl<T: Send + 'static> From<Producer<T>> for Sole<T> {
    fn from(Producer { id, name, outcome }: Producer<T>) -> Self {
        let outcome = match outcome {
            Awaited::Here(outcome) => Box::pin(ready(outcome)),
            Awaited::Later(outcome) => outcome,
        };
        Sole { id, name, outcome }
    }
}

impl<T> From<Sole<T>> for Producer<T> {
    fn from(Sole { id, name, outcome }: Sole<T>) -> Self {
        Producer { id, name, outcome: Awaited::Later(outcome) }
    }
}

impl<T: Send + 'static> Producer<T> {
    /// The same producer; maps its outcome once its head has arrived.
    #[must_use]
    pub fn then<U, F>(self, map: impl FnOnce(Outcome<T>) -> F + Send + 'static) -> Producer<U>
    where
        F: Future<Output = Outcome<U>> + Send + 'static,
    {
        let outcome = match self.outcome {
            Awaited::Here(outcome) => Awaited::later(map(outcome)),
            Awaited::Later(outcome) => Awaited::later(async move { map(outcome.await).await }),
        };
        Producer { id: self.id, name: self.name, outcome }
    }

    /// The same for a map that need not wait: an outcome that is ready stays ready.
    #[must_use]
    pub fn and<U>(self, map: impl FnOnce(Outcome<T>) -> Outcome<U> + Send + 'static) -> Producer<U> {
        let outcome = match self.outcome {
            Awaited::Here(outcome) => Awaited::Here(map(outcome)),
            Awaited::Later(outcome) => Awaited::later(async move { map(outcome.await) }),
        };
        Producer { id: self.id, name: self.name, outcome }
    }

    /// A producer whose outcome is ready.
    pub fn here(id: u32, outcome: Outcome<T>) -> Self {
        Producer { id, name: None, outcome: Awaited::Here(outcome) }
    }
}

impl<T: Send + 'static> Flow<T> {
    /// A flow of producers that may all start at once.
    pub fn of(producers: Vec<Producer<T>>) -> Self {
        Flow { at_once: producers.len().max(1), source: ProducerSource::List(producers.into_iter()) }
    }

    /// A flow of one producer.
    pub fn one(id: u32, outcome: impl Future<Output = Outcome<T>> + Send + 'static) -> Self {
        let producer = Sole { id, name: None, outcome: Box::pin(outcome) };
        Flow { source: ProducerSource::One(Some(producer)), at_once: 1 }
    }

    /// A flow whose producers become known one after another; at most `at_once` run side by side.
    pub fn stream(producers: impl Stream<Item = Producer<T>> + Send + 'static, at_once: usize) -> Self {
        Flow { source: ProducerSource::Stream(Box::pin(producers)), at_once: at_once.max(1) }
    }

    /// The outcome of a flow that has just one producer; otherwise returns the flow. The future is boxed, so that
    /// callers reserve no space for the outcome.
    pub fn only(mut self) -> Result<BoxFuture<'static, Outcome<T>>, Self> {
        match &mut self.source {
            ProducerSource::One(producer) => producer.take().map(|producer| producer.outcome).ok_or(self),
            ProducerSource::List(list) if list.len() == 1 => list.next().map(|one| Sole::from(one).outcome).ok_or(self),
            _ => Err(self),
        }
    }

    /// How many producers may run side by side.
    pub fn at_once(&self) -> usize {
        self.at_once
    }

    /// The same flow with at most this many producers side by side.
    #[must_use]
    pub fn at_most(self, at_once: usize) -> Self {
        Flow { at_once: self.at_once.min(at_once.max(1)), ..self }
    }

    /// Maps every producer when it becomes known.
    #[must_use]
    pub fn map<U: Send + 'static>(self, mut map: impl FnMut(Producer<T>) -> Producer<U> + Send + 'static) -> Flow<U> {
        let source = match self.source {
            ProducerSource::One(producer) => ProducerSource::One(producer.map(|producer| map(producer.into()).into())),
            ProducerSource::List(list) => ProducerSource::List(list.map(map).collect::<Vec<_>>().into_iter()),
            ProducerSource::Stream(stream) => {
                ProducerSource::Stream(Box::pin(futures_util::StreamExt::map(stream, map)))
            }
        };
        Flow { source, at_once: self.at_once }
    }
}

/// The result of a consumer for a producer: at once, or a future to run side by side with others.
pub enum Taken<F: Future> {
    /// The result.
    Here(F::Output),
    /// A future to wait for.
    Later(F),
}

/// Drives the producers of a flow side by side, as many as it allows, each through `take`. It makes progress only while
/// it is polled, so a slow consumer slows down every call behind it.
pub struct SideBySide<M, F: Future, T = Answer> {
    flow: Option<Flow<T>>,
    at_once: usize,
    take: M,
    running: RunningProducers<F>,
    /// Whether pending ones are polled first. Set after a producer was ready at once.
    turn: bool,
}

enum RunningProducers<F: Future> {
    Arrival(FuturesUnordered<F>),
    Request(FuturesOrdered<Either<Ready<F::Output>, F>>),
}

impl<F: Future> RunningProducers<F> {
    fn len(&self) -> usize {
        match self {
            RunningProducers::Arrival(running) => running.len(),
            RunningProducers::Request(running) => running.len(),
        }
    }

    /// Adds one, or returns its result if that may go out at once.
    fn add(&mut self, taken: Taken<F>) -> Option<F::Output> {
        match (self, taken) {
            (RunningProducers::Arrival(_), Taken::Here(made)) => return Some(made),
            (RunningProducers::Arrival(running), Taken::Later(future)) => running.push(future),
            (RunningProducers::Request(running), Taken::Here(made)) if running.is_empty() => return Some(made),
            (RunningProducers::Request(running), Taken::Here(made)) => running.push_back(Either::Left(ready(made))),
            (RunningProducers::Request(running), Taken::Later(future)) => running.push_back(Either::Right(future)),
        }
        None
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        match self {
            RunningProducers::Arrival(running) => Pin::new(running).poll_next(cx),
            RunningProducers::Request(running) => Pin::new(running).poll_next(cx),
        }
    }
}

impl<T: Send + 'static> Flow<T> {
    /// Drives the producers side by side; `take` consumes each.
    pub fn drive<M, F>(self, order: Order, mut take: M) -> SideBySide<impl FnMut(Producer<T>) -> Taken<F> + Unpin, F, T>
    where
        M: FnMut(Producer<T>) -> F + Unpin,
        F: Future,
    {
        self.drive_at_once(order, move |producer| Taken::Later(take(producer)))
    }

    /// Like [`Flow::drive`], for a consumer that handles some producers at once.
    pub fn drive_at_once<M, F>(self, order: Order, take: M) -> SideBySide<M, F, T>
    where
        M: FnMut(Producer<T>) -> Taken<F>,
        F: Future,
    {
        let running = match order {
            Order::Arrival => RunningProducers::Arrival(FuturesUnordered::new()),
            Order::Request => RunningProducers::Request(FuturesOrdered::new()),
        };
        SideBySide { at_once: self.at_once, flow: Some(self), take, running, turn: false }
    }
}

impl<M, F, T> Stream for SideBySide<M, F, T>
where
    M: FnMut(Producer<T>) -> Taken<F> + Unpin,
    F: Future,
{
    type Item = F::Output;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let this = &mut *self;
        if std::mem::take(&mut this.turn)
            && this.running.len() > 0
            && let Poll::Ready(Some(made)) = this.running.poll(cx)
        {
            return Poll::Ready(Some(made));
        }
        while this.running.len() < this.at_once {
            let Some(flow) = &mut this.flow else { break };
            match Pin::new(flow).poll_next(cx) {
                Poll::Ready(Some(producer)) => {
                    if let Some(made) = this.running.add((this.take)(producer)) {
                        this.turn = true;
                        return Poll::Ready(Some(made));
                    }
                }
                Poll::Ready(None) => this.flow = None,
                Poll::Pending => break,
            }
        }
        match this.running.poll(cx) {
            Poll::Ready(None) if this.flow.is_some() => Poll::Pending,
            polled => polled,
        }
    }
}

impl<T> Stream for Flow<T> {
    type Item = Producer<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Producer<T>>> {
        match &mut self.source {
            ProducerSource::One(producer) => Poll::Ready(producer.take().map(Producer::from)),
            ProducerSource::List(list) => Poll::Ready(list.next()),
            ProducerSource::Stream(stream) => stream.as_mut().poll_next(cx),
        }
    }
}
