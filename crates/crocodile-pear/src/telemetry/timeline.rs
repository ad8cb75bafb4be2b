//! When what passed: the marks that timers leave, for the log and for `Server-Timing`.

use std::fmt::Write;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Logs that a value of a program's pipeline passed a timer: one line.
pub fn passed(label: &str, item: u64, at: Duration, outcome: Result<(), &str>) {
    let (outcome, error) = match outcome {
        Ok(()) => ("ok", None),
        Err(kind) => ("failed", Some(kind)),
    };
    let at_ms = at.as_micros() as f64 / 1000.0;
    tracing::info!(target: "crocodile_pear::timer", at_ms, label, item, outcome, error);
}

/// The marks of one request. Bounded: a label keeps its first and its last message only.
pub struct Timeline {
    began: Instant,
    /// There from the first mark on; what runs apart for the same request shares them.
    marks: OnceLock<Arc<Mutex<Vec<TimelineMark>>>>,
    /// Whether one line is logged for each producer, and not one for each message.
    brief: bool,
}

/// The messages that have passed a timer so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineMark {
    /// The timer's label.
    pub label: Arc<str>,
    /// When the first message passed, since the request began.
    pub first: Duration,
    /// When the latest message passed.
    pub last: Duration,
    /// How many messages have passed.
    pub messages: u64,
}

/// The kinds of message that a producer yields, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    Status(u16),
    /// The header fields; how many.
    Headers(usize),
    /// A piece of the body; how many bytes.
    Chunk(usize),
    /// The end.
    Done,
    /// The end, by a failure.
    Failed,
}

impl Message {
    fn name(self) -> &'static str {
        match self {
            Message::Status(_) => "status",
            Message::Headers(_) => "headers",
            Message::Chunk(_) => "chunk",
            Message::Done => "done",
            Message::Failed => "failed",
        }
    }

    /// The status itself, the number of fields or of bytes.
    fn size(self) -> usize {
        match self {
            Message::Status(status) => usize::from(status),
            Message::Headers(count) | Message::Chunk(count) => count,
            Message::Done | Message::Failed => 0,
        }
    }
}

impl Timeline {
    /// A timeline that begins now.
    pub fn begin() -> Self {
        Timeline { began: Instant::now(), marks: OnceLock::new(), brief: false }
    }

    /// Logs one line for each producer from now on, when it has ended.
    pub fn be_brief(&mut self) {
        self.brief = true;
    }

    /// The same timeline, for what runs apart for the same request.
    #[must_use]
    pub fn share(&self) -> Self {
        let marks = self.marks.get_or_init(Arc::default).clone().into();
        Timeline { began: self.began, marks, brief: self.brief }
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    /// Time since the request began.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Notes that a message of a producer passed the timer with this label, and logs it.
    pub fn note(&self, label: &Arc<str>, producer: u32, message: Message) {
        let at = self.elapsed();
        let marks = self.marks.get_or_init(Arc::default);
        let mut marks = marks.lock().unwrap_or_else(PoisonError::into_inner);
        match marks.iter_mut().find(|mark| mark.label == *label) {
            Some(mark) => {
                mark.last = at;
                mark.messages += 1;
            }
            None => marks.push(TimelineMark { label: label.clone(), first: at, last: at, messages: 1 }),
        }
        drop(marks);
        if self.brief {
            match message {
                Message::Done => passed(label, producer.into(), at, Ok(())),
                Message::Failed => passed(label, producer.into(), at, Err("failed")),
                Message::Status(_) | Message::Headers(_) | Message::Chunk(_) => {}
            }
            return;
        }
        tracing::info!(
            target: "crocodile_pear::timer",
            at_ms = at.as_micros() as f64 / 1000.0,
            label = label.as_ref(),
            producer,
            message = message.name(),
            size = message.size(),
        );
    }

    /// The marks so far, in the order in which the timers were first passed.
    pub fn marks(&self) -> Vec<TimelineMark> {
        let marks = self.marks.get();
        marks.map(|marks| marks.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    /// The value of `Server-Timing` (W3C): a metric a label, `dur` in milliseconds since the request began
    /// to the latest message that passed. `None` when no timer has been passed.
    pub fn server_timing(&self) -> Option<String> {
        let mut value = String::new();
        for mark in self.marks() {
            metric(&mut value, &mark.label, mark.last);
        }
        Some(value).filter(|value| !value.is_empty())
    }
}

/// Adds a metric to a value of `Server-Timing`: a name, and `dur` in milliseconds.
pub fn metric(value: &mut String, label: &str, time: Duration) {
    let separator = if value.is_empty() { "" } else { ", " };
    let milliseconds = time.as_secs_f64() * 1000.0;
    // Writing to a string cannot fail.
    let _ = write!(value, "{separator}{};dur={milliseconds:.3}{}", token(label), quoted(label));
}

/// The label as an RFC 9110 token.
fn token(label: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    label.chars().map(|c| if fits(c) { c } else { '-' }).collect()
}

/// The label as `;desc="…"` where the token alone does not say it.
fn quoted(label: &str) -> String {
    if token(label) == label {
        return String::new();
    }
    let plain: String = label.chars().filter(|c| matches!(c, ' '..='~') && !"\"\\".contains(*c)).collect();
    format!(";desc=\"{plain}\"")
}

#[cfg(test)]
mod tests {
    use super::super::timeline::*;

    #[tokio::test(start_paused = true)]
    async fn a_label_keeps_its_first_and_its_last_message() {
        let timeline = Timeline::begin();
        let label: Arc<str> = "got URIs".into();
        timeline.note(&label, 0, Message::Status(200));
        tokio::time::advance(Duration::from_millis(20)).await;
        timeline.note(&label, 1, Message::Done);
        let marks = timeline.marks();
        assert_eq!((marks.len(), marks[0].messages), (1, 2));
        assert_eq!((marks[0].first, marks[0].last), (Duration::ZERO, Duration::from_millis(20)));
        assert_eq!(timeline.server_timing().as_deref(), Some("got-URIs;dur=20.000;desc=\"got URIs\""));
    }

    #[test]
    fn no_timer_passed_is_no_header() {
        assert_eq!(Timeline::begin().server_timing(), None);
    }
}
