//! The state that steps hand to each other while the pipeline is compiled.

use std::sync::Arc;

use http::Method;

use super::answers::AnswersUsed;
use super::rewrite::Rewrite;
use crate::cache::Dependence;
use crate::config::problem::Span;
use crate::jq::Read;
use crate::pipeline::flow::Order;
use crate::request::context::VARIABLES;
use crate::upstream::ReadyUpstream;

/// How many producers leave a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    One,
    /// Several, at most this many.
    Many(u64),
}

impl Shape {
    /// The most producers.
    pub fn most(self) -> u64 {
        match self {
            Shape::One => 1,
            Shape::Many(most) => most,
        }
    }
}

/// A line of `explain`.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The description of the step.
    pub text: String,
    /// Why something must wait here; `None` when all of it streams.
    pub waits: Option<String>,
    pub calls: u64,
    /// The same if calls are made in batches, and each is full.
    pub together: Option<u64>,
    pub items: u64,
    /// Where the step is written.
    pub place: Span,
}

impl Outline {
    pub fn calls_of(lines: &[Outline]) -> u64 {
        lines.iter().fold(0, |sum, line| sum.saturating_add(line.calls))
    }
}

/// The state that a step hands to the next: what flows there, and what is known of it.
pub struct Flowing {
    /// How many producers arrive at the step.
    pub shape: Shape,
    /// Whether `.` has a value: not before the first step that gives anything.
    pub item: bool,
    /// Whether it is the first step.
    pub first: bool,
    /// Whether the items have been made one answer.
    pub joined: bool,
    /// Named results that expressions may use from here on.
    pub names: Vec<String>,
    /// Named results that only `merge` makes known.
    pub pending: Vec<String>,
    /// The named calls that `$answers` knows.
    pub answers: Vec<String>,
    /// The keys under which steps before put documents that they fetched.
    pub documents: Vec<String>,
    /// The keys of these that no expression has used so far, each with its place.
    pub unused: Vec<(String, Span)>,
}

impl Default for Flowing {
    fn default() -> Self {
        Flowing {
            shape: Shape::One,
            item: true,
            first: true,
            joined: false,
            names: Vec::new(),
            pending: Vec::new(),
            answers: Vec::new(),
            documents: Vec::new(),
            unused: Vec::new(),
        }
    }
}

/// The needs of the later steps.
#[derive(Clone, Copy)]
pub struct Ahead {
    /// Whether one follows links: then answers carry their URL.
    pub follows: bool,
    /// Whether one reads answers: then a call asks for a whole one.
    pub reads: bool,
    /// In which order the one that takes all items wants them.
    pub order: Order,
}

impl Default for Ahead {
    fn default() -> Self {
        Ahead { follows: false, reads: false, order: Order::Arrival }
    }
}

/// The parts of the client's request that the calls of a pipeline take.
#[derive(Clone, Debug, Default)]
pub struct TakenParts {
    /// The upstream that gets the client's body as a stream: one at most.
    pub streams: Vec<String>,
    /// The upstreams that get a copy of it.
    pub copies: Vec<String>,
    /// The methods of all calls, each with its upstream.
    pub methods: Vec<(CallMethod, String)>,
    /// Where a call with a method that usually has a body has none.
    pub bodiless: Option<Span>,
    /// Where a call is a GET by default, and takes nothing of the answer before it.
    pub unrelated: Option<Span>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallMethod {
    Clients,
    Written(Method),
    /// The one that it has because none is written.
    Default(Method),
}

impl TakenParts {
    /// Whether no call has the client's method, and a call would have another only because none is written.
    pub fn changes_method(&self) -> bool {
        let any = |is: fn(&CallMethod) -> bool| self.methods.iter().any(|(method, _)| is(method));
        !any(|method| *method == CallMethod::Clients) && any(|method| matches!(method, CallMethod::Default(_)))
    }

    /// Whether the method of a call is written.
    pub fn names_methods(&self) -> bool {
        self.methods.iter().any(|(method, _)| matches!(method, CallMethod::Written(_)))
    }

    /// The methods of its calls, each once, without the client's own.
    pub fn fixed_methods(&self) -> Vec<Method> {
        let mut methods = Vec::new();
        for (method, _) in &self.methods {
            if let CallMethod::Written(method) | CallMethod::Default(method) = method
                && !methods.contains(method)
            {
                methods.push(method.clone());
            }
        }
        methods
    }
}

/// The findings in the pipeline so far.
#[derive(Default)]
pub struct Findings {
    /// The variables that expressions use.
    pub used: Vec<String>,
    /// The parts of variables that they and the fields of all upstreams that may be called read.
    pub reads: Vec<Read>,
    /// The parts of a request on which answers depend in a way that caches must know.
    pub dependence: Dependence,
    /// The parts on which they may depend, wherever links lead.
    pub reachable: Dependence,
    /// Whether fields of an upstream tell who the client is, under names that show it, as `x-client`. Then the server knows it, and its
    /// answer says itself what it depends on.
    pub names_client: bool,
    /// The named calls that expressions take out of `$answers`; `None` for one that may take any.
    pub taken: Vec<Option<String>>,
    /// Whether an expression asks what calls answered.
    pub answers_used: AnswersUsed,
    /// The named results that only `$name` brings into the answer, each with its place.
    pub results: Vec<(String, Span)>,
    /// Whether the operator has removed the limit of a step.
    pub endless: bool,
    /// Whether an expression uses `$body`.
    pub reads_body: bool,
    /// Whether one makes something of it, so that the body must be a value.
    pub needs_value: bool,
    /// The parts of the client's request that calls take.
    pub taken_parts: TakenParts,
    /// The lines of `explain`.
    pub outline: Vec<Outline>,
    /// The upstreams that calls name.
    pub called: Vec<Arc<ReadyUpstream>>,
    /// How the paths of the first call, which is the client's request, are those of the endpoint.
    pub(crate) way: Option<(Arc<ReadyUpstream>, Arc<Rewrite>)>,
}

impl Findings {
    /// Notes what the calls of an upstream make answers depend on.
    pub fn note_upstream(&mut self, upstream: &ReadyUpstream) {
        self.note_reads(upstream.reads());
        let (client, others): (Vec<&Read>, Vec<&Read>) = upstream.reads().partition(|read| read.variable == "client");
        self.dependence.add_reads(others);
        self.dependence.add_reads(upstream.hidden_reads());
        self.names_client |= !client.is_empty();
        self.dependence.add(&upstream.kept_dependence());
        self.reachable.add(&upstream.dependence());
    }

    /// Notes an upstream that links may lead to. What an answer depends on is known when one does.
    pub fn note_reachable(&mut self, upstream: &ReadyUpstream) {
        self.note_reads(upstream.reads());
        self.reachable.add(&upstream.dependence());
    }

    /// Notes what is read of the request, each part once.
    pub fn note_reads<'a>(&mut self, reads: impl IntoIterator<Item = &'a Read>) {
        for read in reads {
            if VARIABLES.contains(&read.variable.as_str()) && !self.reads.contains(read) {
                self.reads.push(read.clone());
            }
        }
    }
}
