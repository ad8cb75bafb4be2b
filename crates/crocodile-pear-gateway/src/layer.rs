//! The contract of a layer: a `Spec`, as written, compiles into a `Layer`, ready.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::cache;
use crocodile_pear::error::{ErrorType, Kind};
use crocodile_pear::flow::Body;
use crocodile_pear::jq::Filter;
use crocodile_pear::plan::Plan;
use crocodile_pear::problem::{Problems, Span};
use crocodile_pear::scope::Scope;
use crocodile_pear::spec::{Decode, Expression, Field, Located};
use crocodile_pear::step::{self, Known, KnownRoute};
use crocodile_pear::template::{self, Piece, Template, TemplateKind};
use crocodile_pear::upstream::{Files, Resolver};
use futures_util::future::BoxFuture;
use http::{Response, StatusCode};

use crate::analytics::Analytics;
use crate::background::Task;
use crate::history::History;
use crate::journal::Journals;
use crate::metrics::Metrics;
use crate::server::{End, Ending};
use crate::store::Store;
use crate::traces::Traces;
use crate::version::{Adapting, Versioned};
use crate::watched::Watched;

/// A layer as written.
pub trait Spec: Decode {
    /// What it is when it is ready. It need not be a layer itself: each endpoint may have one of its own.
    type Ready: Send + Sync + 'static;

    /// The field under which it is written at the document: for every endpoint, and for requests that none serves.
    const AT_DOCUMENT: Option<Field> = None;

    /// The field under which it is written at an endpoint, or at a group of them: for this one, instead of what is written
    /// further out. Where it may be written at the document too, `off` takes it away.
    const AT_ENDPOINT: Option<Field> = None;

    /// What holds where nothing is written; nothing, for a layer that is there only if it is written.
    fn unwritten() -> Option<Self> {
        None
    }

    /// Checks it and makes it ready, once for each place where it is written; every problem is noted. Nothing, for one
    /// that would do nothing.
    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Self::Ready>>;

    /// What stands around this endpoint, or around all that no endpoint serves; nothing, where it has nothing to do. One
    /// that depends on nothing there is shared by all: `Some(ready.clone())`.
    fn around(ready: &Arc<Self::Ready>, at: &Around<'_>) -> Option<Arc<dyn Layer>>;
}

/// A layer, ready: shared by all requests, immutable.
///
/// Requests pass the layers from the outside in, answers from the inside out. A layer sees the answers to the requests
/// that it let pass, whoever gave them: the pipeline, a layer behind it, or nobody who could (404, 405). It sees the
/// answers to requests that could not be read as well (400, 408, 431), which had no way in.
pub trait Layer: Send + Sync + 'static {
    /// A request on its way in. Its head, its body and what is known of it may be changed.
    fn request<'a>(&'a self, _: &'a mut Scope) -> Verdict<'a> {
        Verdict::Pass
    }

    /// An answer on its way out. Its head and its body may be changed. Where the whole body is at hand, this must not
    /// wait: a request that could not be read is answered at once.
    fn answer<'a>(&'a self, _: &'a mut Response<Body>, _: &'a Arc<Scope>) -> Passage<'a> {
        Passage::Done
    }

    /// Whether it answers preflights of CORS: those that are for its endpoint come to it, though another one serves `OPTIONS`.
    fn answers_preflights(&self) -> bool {
        false
    }

    /// Whether it answers `PURGE`: such requests come to it through the endpoint that serves `GET`.
    fn answers_purges(&self) -> bool {
        false
    }

    /// Whether it wants to know how every answer ends. How those end that stream, or have not begun, it learns anyway.
    fn watches(&self) -> bool {
        false
    }

    /// An answer has ended, with its last byte or before, or the request was given up before there was one. Layers are
    /// told of requests that they let pass.
    fn ended(&self, _: &Ended<'_>) {}

    /// Whether it decides itself whether, how often and for whom what stands behind it runs. Only the innermost layer may.
    fn surrounds(&self) -> bool {
        false
    }

    /// A request that all layers let pass, and what would answer it: this one may answer instead, and run that or not.
    fn surround<'a>(&'a self, _: &'a Arc<Scope>, _: &'a Rest) -> Verdict<'a> {
        Verdict::Pass
    }

    /// What it does, for `explain`; nothing, where that goes without saying.
    fn outline(&self) -> Option<String> {
        None
    }
}

/// What stands behind the innermost layer.
#[derive(Clone)]
pub struct Rest {
    /// The pipeline.
    pub plan: Arc<Plan>,
    /// The most bytes of a client's body that it reads whole.
    pub max_body: usize,
}

/// What becomes of a request.
pub enum Verdict<'a> {
    /// It goes on.
    Pass,
    /// It is answered here, and goes no further.
    Answer(Response<Body>),
    /// Either, but not yet.
    Wait(BoxFuture<'a, Option<Response<Body>>>),
}

/// What becomes of an answer.
pub enum Passage<'a> {
    /// It goes on.
    Done,
    /// It goes on when this is done.
    Wait(BoxFuture<'a, ()>),
}

/// The end of an answer.
pub struct Ended<'a> {
    /// The request, and what is known of it.
    pub scope: &'a Scope,
    /// The status of the answer; nothing, if the client left before there was one.
    pub status: Option<StatusCode>,
    /// Why the gateway answered with a failure of its own or of an upstream.
    pub failure: Option<Kind>,
    /// When its head was ready, since the request began.
    pub head: Option<Duration>,
    /// When it ended, since the request began.
    pub total: Duration,
    /// How it ended, and how much of it was sent.
    pub end: &'a End,
}

/// What a client that left before its answer is told with, as nginx does.
const CLIENT_CLOSED_REQUEST: u16 = 499;

impl Ended<'_> {
    /// The status of the answer; 499 if the client left before there was one.
    pub fn code(&self) -> u16 {
        self.status.map_or(CLIENT_CLOSED_REQUEST, |status| status.as_u16())
    }

    /// The type of the failure, as OpenTelemetry has it: our own name of it, or the status; nothing where none failed.
    pub fn error_type(&self) -> Option<ErrorType> {
        match (&self.end.how, self.failure) {
            (Ending::Failed(error), _) => Some(ErrorType::Kind(error.kind())),
            _ if self.code() < 500 => None,
            (_, Some(kind)) => Some(ErrorType::Kind(kind)),
            (_, None) => Some(ErrorType::Status(self.code())),
        }
    }

    /// How it ended, in one word.
    pub fn how(&self) -> &'static str {
        match self.end.how {
            Ending::Whole => "whole",
            Ending::Failed(_) => "failed",
            Ending::ClientGone | Ending::ClientReset(_) => "client-gone",
            Ending::ClientSlow => "client-slow",
        }
    }
}

/// What a layer may refer to while it is compiled.
pub struct Compile<'a> {
    /// Where problems go.
    pub problems: &'a mut Problems,
    /// The path parameters of the endpoint; `None` at the document, which is for all of them.
    pub params: Option<PathParams<'a>>,
    /// Reads the files that the document names.
    pub files: Files<'a>,
    /// Where the files are that the document names.
    pub paths: Paths<'a>,
    /// What is counted.
    pub metrics: &'a Arc<Metrics>,
    /// What happened lately.
    pub(crate) history: Option<Arc<History>>,
    /// The DNS resolver of the document; the system's unless set.
    pub resolver: Option<Resolver>,
    /// What goes on beside the requests while the gateway serves.
    pub tasks: Vec<Task>,
    /// What several gateways share.
    pub store: Option<Arc<Store>>,
    /// What caches keep.
    pub cache: Option<Arc<cache::Store>>,
    /// What is counted for operators, over minutes, hours and days.
    pub analytics: Option<Arc<Analytics>>,
    /// Where it is written: the endpoint, the group, or nothing for the document.
    pub place: &'a str,
    /// Whether an expression uses `$route`.
    pub names_route: bool,
    /// Whether operators look at what happens: `admin` is configured.
    pub observed: bool,
    /// What lines are written to.
    pub journals: Arc<Journals>,
    /// Where spans go.
    pub traces: Option<Arc<Traces>>,
}

/// Says where a file is that the document names.
pub type Paths<'a> = &'a dyn Fn(&Located<String>) -> PathBuf;

/// The path parameters of an endpoint.
#[derive(Clone, Copy, Default)]
pub struct PathParams<'a> {
    /// Their names.
    pub names: &'a [String],
    /// Which of them is the rest of the path.
    pub rest: Option<&'a str>,
}

impl<'a> Compile<'a> {
    /// At the document.
    pub fn new(problems: &'a mut Problems, files: Files<'a>, paths: Paths<'a>, metrics: &'a Arc<Metrics>) -> Self {
        let (params, resolver, tasks, store, cache) = (None, None, Vec::new(), None, None);
        let (analytics, history, place, names_route, observed, journals) =
            (None, None, "", false, false, Arc::default());
        Compile {
            problems,
            params,
            files,
            paths,
            metrics,
            resolver,
            tasks,
            store,
            cache,
            analytics,
            history,
            place,
            names_route,
            observed,
            journals,
            traces: None,
        }
    }
}

impl Compile<'_> {
    /// Reads a file that is watched while the gateway serves: a change is used without a reload, and a version that
    /// `parse` refuses is not.
    pub fn watch<T: Send + Sync + 'static>(
        &mut self,
        written: &Located<String>,
        parse: impl Fn(&[u8]) -> Result<T, String> + Send + 'static,
    ) -> Option<Arc<Watched<T>>> {
        let bytes = match (self.files)(written) {
            Ok(bytes) => bytes,
            Err(reason) => {
                let remedy = "name a file that is there; its path is relative to the configuration";
                return self.problems.error(written.span, format!("cannot read `{written}`: {reason}"), remedy);
            }
        };
        let first = match parse(&bytes) {
            Ok(first) => first,
            Err(reason) => return self.problems.error(written.span, format!("cannot use `{written}`: {reason}"), ""),
        };
        let (watched, task) = Watched::new(written, (self.paths)(written), first, parse);
        self.tasks.push(task);
        Some(watched)
    }

    /// Compiles a text with expressions in braces. `names` are what expressions know here, besides what all know.
    pub fn template(&mut self, written: &Located<String>, names: &[&str]) -> Option<Template> {
        let foreign = |piece: &Piece<'_>| match piece {
            Piece::Param(name) | Piece::Rest(name) if self.params.is_none() => Some((*name).to_owned()),
            _ => None,
        };
        for (at, piece) in template::split(written).unwrap_or_default() {
            if let Some(name) = foreign(&piece) {
                let message = format!("no path parameter is named `{name}` here: endpoints have different ones");
                let remedy = format!("write `{{$path.{name}}}`");
                return self.problems.error(written.at(at, name.len()), message, remedy);
            }
        }
        self.expressions(written.span, names, |cx| cx.template(written, TemplateKind::Field))
    }

    /// Compiles an expression; `names` as above.
    pub fn filter(&mut self, written: &Expression, names: &[&str]) -> Option<Filter> {
        self.expressions(written.0.span, names, |cx| cx.filter(written))
    }

    fn expressions<T>(
        &mut self,
        place: Span,
        names: &[&str],
        compile: impl FnOnce(&mut step::Compile<'_>) -> Option<T>,
    ) -> Option<T> {
        let PathParams { names: params, rest } = self.params.unwrap_or_default();
        let known = Known { route: KnownRoute { params, rest, ..KnownRoute::default() }, ..Known::default() };
        let mut cx = step::Compile::new(known, place, self.problems);
        cx.flow.names.extend(names.iter().map(|name| (*name).to_owned()));
        let compiled = compile(&mut cx);
        let found = cx.found;
        self.names_route |= found.used.iter().any(|name| name == "route");
        if found.reads_body {
            let remedy = "use `$headers`, `$query` or `$path`";
            return self.problems.error(
                place,
                "`$body` cannot be used here: the client's body is not read for it",
                remedy,
            );
        }
        compiled
    }
}

/// What a layer stands around.
#[derive(Default)]
pub struct Around<'a> {
    /// The endpoint as written; nothing, for requests that none serves.
    pub route: Option<&'a Arc<str>>,
    /// What it runs.
    pub plan: Option<&'a Arc<Plan>>,
    /// Its version, if its group has some.
    pub versioned: Option<&'a Arc<Versioned>>,
    /// What makes its requests those of the newest version.
    pub adapting: Option<&'a Arc<Adapting>>,
    /// The most bytes of a client's body that may be read whole.
    pub max_body: usize,
    /// The bound that is written at the endpoint, for bodies that are handed on as well.
    pub written_max_body: Option<usize>,
    /// A layer that stands further in than the one that it is written with: where the consumer is known.
    pub for_consumers: RefCell<Option<Arc<dyn Layer>>>,
    /// Why a layer cannot stand around this: where that is written, what is wrong, and what to write.
    pub refused: RefCell<Vec<(Span, String, String)>>,
}

impl Around<'_> {
    /// Requests that no endpoint serves.
    pub fn nothing() -> Self {
        Around::default()
    }
}
