//! `timer`: notes when each message passes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;

use crate::config::problem::{Problems, Span};
use crate::config::spec::{Decode, Definitions, Json, Located, Node};
use crate::error::Error;
use crate::message::answer::Answer;
use crate::message::body::{AnswerBody, PulledBody};
use crate::pipeline::flow::{Flow, Outcome};
use crate::pipeline::step::{About, Compile, ReadyStep, Spec};
use crate::request::context::Scope;
use crate::telemetry::timeline::Message;

/// A timer, by its label.
#[derive(Clone, Debug)]
pub struct Timer(Located<String>);

impl Timer {
    /// A timer with this label.
    pub fn new(label: &str) -> Self {
        Timer(Located::new(label.to_owned(), Span::default()))
    }
}

impl Decode for Timer {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let label = Located::<String>::decode(node, problems)?;
        if label.value.trim().is_empty() {
            return problems.error(
                label.span,
                "a timer needs a label",
                "write what has happened here: `timer: got cases`",
            );
        }
        Some(Timer(label))
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({
            "type": "string",
            "description": "Records when each message (status, headers, chunk, done) passes this point: as a line in the log \
                and in `Server-Timing`, under this label.",
        })
    }
}

impl Spec for Timer {
    fn about(&self) -> About {
        About { looks_on: true, ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        cx.explain(format!("timer: {}", self.0), None, 0);
        Some(Arc::new(Timing { label: self.0.value.into() }))
    }
}

struct Timing {
    label: Arc<str>,
}

impl ReadyStep for Timing {
    fn run(self: Arc<Self>, flow: Flow, scope: &Arc<Scope>) -> Flow {
        time(flow, &self.label, scope)
    }
}

/// The same flow; what passes is noted under the label.
pub(crate) fn time(flow: Flow, label: &Arc<str>, scope: &Arc<Scope>) -> Flow {
    let (label, scope) = (label.clone(), scope.clone());
    flow.map(move |producer| {
        let watch = ProducerWatch { label: label.clone(), scope: scope.clone(), producer: producer.id };
        producer.then(|outcome| std::future::ready(watch.head(outcome)))
    })
}

/// Notes the messages of one producer.
struct ProducerWatch {
    label: Arc<str>,
    scope: Arc<Scope>,
    producer: u32,
}

impl ProducerWatch {
    fn note(&self, message: Message) {
        self.scope.timeline().note(&self.label, self.producer, message);
    }

    fn head(self, outcome: Outcome) -> Outcome {
        let answer = match outcome? {
            Ok(answer) => answer,
            Err(error) => {
                self.note(Message::Failed);
                return Some(Err(error));
            }
        };
        self.note(Message::Status(answer.status.as_u16()));
        self.note(Message::Headers(answer.headers.len()));
        let body = match answer.body {
            AnswerBody::Pulled(body) => AnswerBody::Pulled(Box::pin(TimedBody { body, watch: self, over: false })),
            whole => {
                self.note(Message::Chunk(if let AnswerBody::Bytes(bytes) = &whole { bytes.len() } else { 0 }));
                self.note(Message::Done);
                whole
            }
        };
        Some(Ok(Answer { body, ..answer }))
    }
}

/// A body whose chunks are logged.
struct TimedBody {
    body: PulledBody,
    watch: ProducerWatch,
    over: bool,
}

impl TimedBody {
    fn end(&mut self, message: Message) {
        if !std::mem::replace(&mut self.over, true) {
            self.watch.note(message);
        }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(self.body.as_mut().poll_frame(cx));
        match &frame {
            None => self.end(Message::Done),
            Some(Err(_)) => self.end(Message::Failed),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.watch.note(Message::Chunk(data.len()));
                }
                // A reader that sees the announced end does not poll again.
                if self.body.is_end_stream() {
                    self.end(Message::Done);
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
