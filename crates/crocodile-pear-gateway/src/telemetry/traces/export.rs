//! The way of spans to the collector: a bounded queue, one thread, batches, retries with a bound.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc as blocking;
use std::time::Duration;

use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use crocodile_pear::unstable::upstream::Remote;
use http::{HeaderMap, StatusCode};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::{Instant, sleep};

use super::counters::SpanCounters;
use super::otlp::{self, Span};
use super::span::FinishedRequest;
use crate::runtime::threads::{event_loop, start};

/// How long the collector may take for a batch.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The approximate memory that waiting spans may take.
const WAITING: usize = 16 << 20;

/// Requests that wait at most, however small they are.
const REQUESTS: usize = 16 << 10;

/// A batch has about so many spans, as the SDKs of OpenTelemetry make them.
const BATCH: usize = 512;

/// A batch that is smaller leaves after so long.
const PAUSE: Duration = Duration::from_millis(500);

/// How often the thread looks at the queue while a batch fills. So a core that adds a request does not have to wake it.
const GATHER: Duration = Duration::from_millis(20);

/// Before a batch is given up, it is sent so often, with pauses that double.
const ATTEMPTS: u32 = 5;

/// The first of these pauses.
const AGAIN: Duration = Duration::from_millis(500);

enum ExporterMessage {
    Finished(Box<FinishedRequest>, usize),
    Flush(blocking::SyncSender<()>),
}

/// The way to the exporter.
#[derive(Clone)]
pub struct Queue {
    sender: mpsc::Sender<ExporterMessage>,
    counters: Arc<SpanCounters>,
}

/// The receiving end of the queue.
pub struct Received(mpsc::Receiver<ExporterMessage>);

impl Queue {
    /// An empty one.
    pub fn new(counters: Arc<SpanCounters>) -> (Self, Received) {
        let (sender, receiver) = mpsc::channel(REQUESTS);
        (Queue { sender, counters }, Received(receiver))
    }

    /// Adds a request that has ended. It never waits: one that does not fit is dropped, and its spans are counted.
    pub fn add(&self, finished: FinishedRequest) {
        let weight = finished.weight();
        let spans = finished.count();
        let fits = self.counters.waiting.fetch_add(weight, Ordering::Relaxed) + weight <= WAITING;
        if !fits || self.sender.try_send(ExporterMessage::Finished(Box::new(finished), weight)).is_err() {
            self.counters.waiting.fetch_sub(weight, Ordering::Relaxed);
            self.drop_spans(spans);
        }
    }

    /// Waits until all that was added is sent, for at most so long.
    pub fn flush(&self, most: Duration) {
        let (done, wait) = blocking::sync_channel(1);
        if self.sender.try_send(ExporterMessage::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(most);
        }
    }

    fn drop_spans(&self, spans: usize) {
        self.counters.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }
}

/// The task that sends spans.
pub struct Exporter {
    /// The collector.
    pub remote: Remote,
    /// Header fields for it.
    pub headers: HeaderMap,
    /// The name of the gateway in traces.
    pub service: String,
    /// The queue of spans to send.
    pub received: Received,
    pub counters: Arc<SpanCounters>,
}

impl Exporter {
    /// Begins a thread for it.
    pub fn begin(self) {
        let work = move || match event_loop() {
            Ok(runtime) => runtime.block_on(self.follow()),
            Err(error) => tracing::warn!(%error, "traces cannot be sent"),
        };
        if let Err(error) = start("traces", work) {
            tracing::warn!(%error, "traces cannot be sent");
        }
    }

    /// Sends batch after batch, until nobody adds any more.
    async fn follow(mut self) {
        let limiter = LogLimiter::default();
        while let Some(first) = self.received.0.recv().await {
            let mut batch = Batch::default();
            let end = Instant::now() + PAUSE;
            self.take(first, &mut batch);
            while self.gather(&mut batch) && Instant::now() < end {
                sleep(GATHER).await;
            }
            self.send(&batch, &limiter).await;
            for done in batch.flushes {
                // Who does not wait any more need not know.
                let _ = done.try_send(());
            }
        }
    }

    /// Takes what there is; whether there is room for more, and more may come.
    fn gather(&mut self, batch: &mut Batch) -> bool {
        while batch.spans.len() < BATCH && batch.flushes.is_empty() {
            match self.received.0.try_recv() {
                Ok(item) => self.take(item, batch),
                Err(error) => return error == TryRecvError::Empty,
            }
        }
        false
    }

    fn take(&self, item: ExporterMessage, batch: &mut Batch) {
        match item {
            ExporterMessage::Finished(finished, weight) => {
                self.counters.waiting.fetch_sub(weight, Ordering::Relaxed);
                batch.spans.extend(finished.spans());
            }
            ExporterMessage::Flush(done) => batch.flushes.push(done),
        }
    }

    async fn send(&self, batch: &Batch, limiter: &LogLimiter) {
        if batch.spans.is_empty() {
            return;
        }
        let body = otlp::request(&self.service, &batch.spans);
        let mut failure = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                sleep(AGAIN * (1 << (attempt - 1))).await;
            }
            match self.remote.send("application/x-protobuf", &self.headers, body.clone()).await {
                Ok(status) if status.is_success() => {
                    self.counters.sent.fetch_add(batch.spans.len() as u64, Ordering::Relaxed);
                    return;
                }
                Ok(status) if !may_again(status) => {
                    failure = format!("it answers {status}");
                    break;
                }
                Ok(status) => failure = format!("it answers {status}"),
                Err(error) => failure = Error::to_string(&error),
            }
        }
        self.counters.dropped.fetch_add(batch.spans.len() as u64, Ordering::Relaxed);
        if limiter.allows() {
            tracing::warn!(
                why = failure,
                spans = batch.spans.len(),
                "the collector does not take traces; they are dropped"
            );
        }
    }
}

/// Spans that are sent in one request.
#[derive(Default)]
struct Batch {
    spans: Vec<Span>,
    flushes: Vec<blocking::SyncSender<()>>,
}

/// Whether a collector may take a batch later that it does not take now (OTLP 1.x, "Retryable Response Codes").
fn may_again(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}
