//! The contract of a layer: a `Spec`, as written, compiles into a `Layer` that serves requests.

pub(crate) mod limit_key;
pub mod stack;
pub mod unshared;
pub(crate) mod usage_limits;
use std::path::PathBuf;
use std::sync::Arc;

use crocodile_pear::unstable::cache::Dependence;
use crocodile_pear::unstable::config::carried_state::Carry;
use crocodile_pear::unstable::config::files::Files;
use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Decode, ExpressionSpec, Field, Located, Mark};
use crocodile_pear::unstable::jq::Filter;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::pipeline::plan::Plan;
use crocodile_pear::unstable::pipeline::step::{self, ByName, Known, KnownRoute};
use crocodile_pear::unstable::request::context::{Scope, undotted};
use crocodile_pear::unstable::template::{self, Template, TemplateKind, TemplatePiece};
use crocodile_pear::unstable::upstream::{ReadyUpstream, Resolver, UpstreamEnvironment};
use futures_util::future::BoxFuture;
use http::Response;

use crate::http::version::{Adapting, Versioned};
use crate::net::cidr::Ipv6Prefix;
use crate::runtime::tasks::Work;
use crate::runtime::watched_file::WatchedFile;
use crate::shared::persistent_state::PersistentState;
use crate::shared::redis_tier::Store;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::request_end::RequestEnd;
use crate::telemetry::traces::Traces;

/// A layer as written in the configuration.
pub trait Spec: Decode {
    /// The compiled form. It need not be a `Layer` itself: each endpoint may get a layer of its own.
    type Ready: Send + Sync + 'static;

    /// The field at the top of the document. It applies to every endpoint, and to requests that no endpoint serves.
    const AT_DOCUMENT: Option<Field> = None;

    /// The field at an endpoint or a group of endpoints. It replaces what is written further out. If the field exists
    /// at the document too, `off` removes the layer.
    const AT_ENDPOINT: Option<Field> = None;

    /// The default if the field is not written; `None` if the layer exists only where it is written.
    fn unwritten() -> Option<Self> {
        None
    }

    /// Checks and compiles it, once for each place where it is written. Notes every problem. `None` if the layer would
    /// do nothing.
    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Self::Ready>>;

    /// The same inside one that is written further out, which it replaces unless it says otherwise here.
    fn compile_within(&self, _: &Arc<Self::Ready>, cx: &mut Compile<'_>) -> Option<Arc<Self::Ready>> {
        self.compile(cx)
    }

    /// The layer around this endpoint, or around all requests that no endpoint serves; `None` if it has nothing to do
    /// there. A layer that does not depend on the endpoint can be shared by all: `Some(ready.clone())`.
    fn around(ready: &Arc<Self::Ready>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>>;
}

/// A compiled layer: immutable, and shared by all requests.
///
/// Requests pass the layers from the outside in, answers from the inside out. A layer sees the answers to all requests
/// that it let pass, whether they come from the pipeline, from a layer further in, or from the gateway because no
/// endpoint matches (404, 405). It also sees the answers to requests that could not be read (400, 408, 431), which
/// never passed it on the way in.
pub trait Layer: Send + Sync + 'static {
    /// A request on its way in. The layer may change its head, its body and its facts.
    fn request<'a>(&'a self, _: &'a mut Scope) -> Verdict<'a> {
        Verdict::Pass
    }

    /// An answer on its way out. The layer may change its head and its body. If the whole body is in memory, this must
    /// not wait, because the answer to an unreadable request is sent at once.
    fn answer<'a>(&'a self, _: &'a mut Response<AnswerBody>, _: &'a Arc<Scope>) -> Passage<'a> {
        Passage::Done
    }

    /// Whether it answers CORS preflights. Preflights for its endpoint then reach it, even if another endpoint serves
    /// `OPTIONS`.
    fn answers_preflights(&self) -> bool {
        false
    }

    /// Whether browsers send the credentials that it accepts by themselves, with the requests of any page.
    fn takes_ambient_credentials(&self) -> bool {
        false
    }

    /// Whether it answers `PURGE`. Such requests reach it through the endpoint that serves `GET`.
    fn answers_purges(&self) -> bool {
        false
    }

    /// Whether it wants to know how every answer ends. It always learns how streamed answers end, and requests that
    /// were given up before an answer.
    fn watches(&self) -> bool {
        false
    }

    /// An answer has ended, whole or early, or the client gave up before there was an answer. Called only for requests
    /// that this layer let pass.
    fn ended(&self, _: &RequestEnd<'_>) {}

    /// A description for `explain`; `None` if the name says enough.
    fn outline(&self) -> Option<String> {
        None
    }
}

/// The decision of a layer on a request.
pub enum Verdict<'a> {
    /// The request goes on.
    Pass,
    /// The layer answers, and the request goes no further.
    Answer(Response<AnswerBody>),
    /// The decision comes later.
    Wait(BoxFuture<'a, Option<Response<AnswerBody>>>),
}

/// The decision of a layer on an answer.
pub enum Passage<'a> {
    /// The answer goes on.
    Done,
    /// The answer goes on when this future ends.
    Wait(BoxFuture<'a, ()>),
}

/// The services that all layers of a configuration share when they are compiled.
pub struct CompileServices<'a> {
    /// Reads the files that the document names.
    pub files: Files<'a>,
    /// Gives the path of a file that the document names.
    pub paths: PathResolver<'a>,
    /// State that outlives a configuration: metrics, history, caches, destinations of log lines.
    pub persistent: &'a PersistentState,
    /// The state that parts of the configuration share and take over from the configuration before.
    pub root: Carry,
    /// The DNS resolver of the document; `None` for the system's.
    pub resolver: Option<Resolver>,
    /// The upstreams that a layer may call.
    pub upstreams: ByName<'a, ReadyUpstream>,
    /// The store that several gateways share.
    pub store: Option<Arc<Store>>,
    /// The exporter of spans.
    pub traces: Option<Arc<Traces>>,
    /// How many bits of an IPv6 address count as one client.
    pub ipv6_prefix: Ipv6Prefix,
    /// Whether operators can look at requests: `admin` is configured.
    pub observed: bool,
}

/// The context of a layer while it is compiled at one place.
pub struct Compile<'a> {
    /// The services that all layers share.
    pub services: &'a CompileServices<'a>,
    /// Collects problems.
    pub problems: &'a mut Problems,
    /// Where the layer is written: the name of the endpoint or the group; empty at the document.
    pub place: &'a str,
    /// The path parameters of the endpoint; `None` outside of endpoints.
    pub params: Option<PathParams<'a>>,
    /// Whether nothing authenticates clients here: `$claims` is always null.
    pub anonymous: bool,
    /// The state that the part takes over from the configuration before.
    pub carry: Carry,
    /// Background work while the gateway serves.
    pub works: Vec<Arc<Work>>,
    /// Whether an expression uses `$route`.
    pub names_route: bool,
}

/// Gives the path of a file that the document names.
pub type PathResolver<'a> = &'a dyn Fn(&Located<String>) -> PathBuf;

/// The path parameters of an endpoint.
#[derive(Clone, Copy, Default)]
pub struct PathParams<'a> {
    /// The names of the parameters.
    pub names: &'a [String],
    /// The name of the one that holds the rest of the path.
    pub rest: Option<&'a str>,
}

impl<'a> CompileServices<'a> {
    /// The services of a configuration that has nothing but layers.
    pub fn new(files: Files<'a>, paths: PathResolver<'a>, persistent: &'a PersistentState) -> Self {
        CompileServices {
            files,
            paths,
            persistent,
            root: Carry::over(&persistent.carried),
            resolver: None,
            upstreams: ByName::default(),
            store: None,
            traces: None,
            ipv6_prefix: Ipv6Prefix::default(),
            observed: false,
        }
    }
}

impl<'a> Compile<'a> {
    pub fn at(place: &'a str, services: &'a CompileServices<'a>, problems: &'a mut Problems) -> Self {
        let carry = services.root.clone();
        let (params, works) = (None, Vec::new());
        Compile { services, problems, place, params, anonymous: false, carry, works, names_route: false }
    }
}

impl Compile<'_> {
    pub fn metrics(&self) -> Arc<Metrics> {
        self.services.persistent.metrics.clone()
    }

    /// Reads a file and watches it while the gateway serves. A change takes effect without a reload; a version that
    /// `parse` refuses is ignored.
    pub fn watch<T: Send + Sync + 'static>(
        &mut self,
        written: &Located<String>,
        parse: impl Fn(&[u8]) -> Result<T, String> + Send + 'static,
    ) -> Option<Arc<WatchedFile<T>>> {
        let bytes = match (self.services.files)(written) {
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
        let (watched, task) = WatchedFile::new(written, (self.services.paths)(written), first, parse);
        self.works.push(Arc::new(Work::new(task)));
        Some(watched)
    }

    /// The environment of a service that is called by URL.
    pub fn given<'b>(&self, files: Files<'b>) -> UpstreamEnvironment<'b> {
        UpstreamEnvironment { files, resolver: self.services.resolver.clone(), cache: None, carry: self.carry.clone() }
    }

    /// Compiles a part, whose state is its own.
    pub fn within<T>(&mut self, mark: Mark, compile: impl FnOnce(&mut Self) -> T) -> T {
        let part = self.carry.part(mark);
        let outer = std::mem::replace(&mut self.carry, part);
        let compiled = compile(self);
        self.carry = outer;
        compiled
    }

    /// Compiles a text with expressions in braces. `names` are the variables that expressions have here, besides the
    /// common ones.
    pub fn template(&mut self, written: &Located<String>, names: &[&str]) -> Option<Template> {
        let foreign = |piece: &TemplatePiece<'_>| match piece {
            TemplatePiece::Param(name) | TemplatePiece::Rest(name) if self.params.is_none() => Some((*name).to_owned()),
            _ => None,
        };
        for (at, piece) in template::split(written).unwrap_or_default() {
            if let Some(name) = foreign(&piece) {
                let message = format!("no path parameter is named `{name}` here: endpoints have different ones");
                let remedy = format!("write `{{$path.{name}}}`");
                return self.problems.error(written.at(at, name.len()), message, remedy);
            }
        }
        self.expressions(written.span, names, |cx| texts_of_request(written, TemplateKind::Field, cx))
    }

    /// Compiles an expression over the client's request; `names` as above.
    pub fn filter(&mut self, written: &ExpressionSpec, names: &[&str]) -> Option<Filter> {
        self.expressions(written.0.span, names, |cx| of_request(written, cx.filter(written), cx))
    }

    /// The same for one that decides.
    pub fn condition(&mut self, written: &ExpressionSpec, names: &[&str]) -> Option<Filter> {
        self.expressions(written.0.span, names, |cx| of_request(written, cx.condition(written), cx))
    }

    pub fn upstream(&mut self, name: &Located<String>) -> Option<Arc<ReadyUpstream>> {
        let known = Known { upstreams: self.services.upstreams, ..Known::default() };
        step::Compile::new(known, name.span, self.problems).upstream(name)
    }

    /// Compiles an expression over the answer of a service: `.` is its body.
    pub fn of_answer(&mut self, written: &ExpressionSpec, names: &[&str]) -> Option<Filter> {
        self.expressions(written.0.span, names, |cx| cx.of_values(|cx| cx.filter(written)))
    }

    /// Compiles a path with expressions in braces.
    pub fn target(&mut self, written: &Located<String>) -> Option<Template> {
        self.expressions(written.span, &[], |cx| texts_of_request(written, TemplateKind::Target, cx))
    }

    fn expressions<T>(
        &mut self,
        place: Span,
        names: &[&str],
        compile: impl FnOnce(&mut step::Compile<'_>) -> Option<T>,
    ) -> Option<T> {
        let PathParams { names: params, rest } = self.params.unwrap_or_default();
        let route = KnownRoute { params, rest, anonymous: self.anonymous, ..KnownRoute::default() };
        let mut cx = step::Compile::new(Known { route, ..Known::default() }, place, self.problems);
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

/// The expression, unless it reads `.`: there is no item where only the request is known.
fn of_request(written: &ExpressionSpec, filter: Option<Filter>, cx: &mut step::Compile<'_>) -> Option<Filter> {
    let filter = filter?;
    if filter.reads_item() {
        return no_item(&written.0, cx);
    }
    Some(filter)
}

/// The same for a text with braces.
fn texts_of_request(written: &Located<String>, kind: TemplateKind, cx: &mut step::Compile<'_>) -> Option<Template> {
    let template = cx.template(written, kind)?;
    if template.filters().any(Filter::reads_item) {
        return no_item(written, cx);
    }
    Some(template)
}

fn no_item<T>(written: &Located<String>, cx: &mut step::Compile<'_>) -> Option<T> {
    let variables =
        "begin with a variable: `$method`, `$host`, `$headers`, `$query`, `$path`, `$cookies`, `$claims` or `$client`";
    let remedy = undotted(&written.value).unwrap_or_else(|| variables.to_owned());
    let place = written.at(0, written.value.len());
    cx.problems.error(place, "`.` is always null here: this sees the client's request", remedy)
}

/// The position that a layer is placed at, and what the layers from the outside in leave for those further in and for the
/// endpoint.
#[derive(Default)]
pub struct LayerPosition<'a> {
    /// The endpoint as written; `None` for requests that no endpoint serves.
    pub route: Option<&'a Arc<str>>,
    /// The pipeline.
    pub plan: Option<&'a Arc<Plan>>,
    /// Its version, if its group has versions.
    pub versioned: Option<&'a Arc<Versioned>>,
    /// The changes that turn its requests into those of the newest version.
    pub adapting: Option<&'a Arc<Adapting>>,
    /// The largest body of a client that may be read whole, in bytes.
    pub max_body: usize,
    /// The bound written at the endpoint itself. It also applies to bodies that are passed on without being read whole.
    pub written_max_body: Option<usize>,
    /// Whether a pipeline is written. Without one, a layer must answer.
    pub piped: bool,
    /// A second layer from the same field that belongs further in, where the consumer is known.
    pub for_consumers: Option<Arc<dyn Layer>>,
    /// Whether a limit is charged by answers.
    pub metered: bool,
    /// Why a layer cannot be used here: where it is written, what is wrong, and what to write.
    pub refused: Vec<(Span, String, String)>,
    /// Settings that have no effect here, likewise.
    pub warned: Vec<(Span, String, String)>,
    /// The parts of requests that answers depend on in a way that caches must know: those that the pipeline reads, and those of layers.
    pub dependence: Dependence,
}

impl LayerPosition<'_> {
    /// For requests that no endpoint serves.
    pub fn nothing() -> Self {
        LayerPosition::default()
    }
}
