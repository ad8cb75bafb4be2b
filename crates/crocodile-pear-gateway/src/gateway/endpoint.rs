//! An endpoint: its layers, its cache and its pipeline, and how a request passes them.

use std::sync::Arc;

use crocodile_pear::unstable::cache::Dependence;
use crocodile_pear::unstable::cache::downstream::{Assembly, describe};
use crocodile_pear::unstable::http::date::Moment;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::message::side_channel::Passage;
use crocodile_pear::unstable::pipeline::plan::{Plan, listed};
use crocodile_pear::unstable::pipeline::step::{CallMethod, StreamSpec};
use crocodile_pear::unstable::request::context::{Params, Scope};
use http::Response;

use crate::gateway::detach::Detaching;
use crate::http::response;
use crate::http::upgrade::UpgradeProtocols;
use crate::layer::Verdict;
use crate::layer::stack::{LayerPass, Stack};
use crate::layer::unshared::Unshared;
use crate::layers::cache::EndpointCache;
use crate::server::{NoMinimumRate, Reply};

/// The way in which an endpoint serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndpointKind {
    /// Passes it on whole, with everything that passes beside a request and its answer.
    Proxy,
    /// Runs a pipeline for it.
    Pipeline,
}

/// A compiled endpoint.
pub struct Endpoint {
    /// `METHOD /path` as written. In a group with hosts: `METHOD HOST/path`, with the first host.
    pub name: Arc<str>,
    pub(super) kind: EndpointKind,
    /// The pipeline.
    pub plan: Arc<Plan>,
    /// The cache around the pipeline, if its answers are stored.
    pub(super) cache: Option<EndpointCache>,
    /// The layers around pipeline and cache.
    pub layers: Arc<Stack>,
    /// The protocols that clients may upgrade to.
    pub upgrade: Option<UpgradeProtocols>,
    /// Whether its requests and answers are streams.
    pub(super) stream: StreamSpec,
    /// The newer version that serves this endpoint in the same way.
    pub same_as: Option<Arc<str>>,
    /// Whether clients usually send a body with its method.
    pub(super) takes_bodies: bool,
    /// How its pipeline goes on without the client, if it does.
    pub(super) detach: Option<Arc<Detaching>>,
    /// Where its layers are written, for `explain`.
    pub origins: Vec<(&'static str, String)>,
    /// The name again, if an expression uses `$route`.
    pub(super) named: Option<Arc<str>>,
    /// The parts of requests that its answers depend on in a way that caches must know, if there are any.
    pub(super) dependence: Option<Box<Dependence>>,
}

impl Endpoint {
    /// Makes a request one of this endpoint. `upgrade`: the client asks for another protocol.
    pub(super) fn receive(&self, scope: &mut Scope, params: Params, upgrade: bool) {
        scope.set_params(params);
        if let Some(route) = &self.named {
            scope.facts_mut().set_route(route.clone());
        }
        if self.stream == StreamSpec::On
            && let Some(pace) = scope.pace()
        {
            pace.unhurried();
        }
        match (self.kind, &self.upgrade) {
            (EndpointKind::Proxy, Some(allowed)) if upgrade => {
                let upgrade = allowed.choose(scope.headers());
                let passage = scope.passage().clone();
                scope.set_passage(Passage { upgrade, ..passage });
            }
            // A proxy passes HEAD on.
            (EndpointKind::Proxy, _) => {}
            // A pipeline reads bodies, so it runs as GET, and the body is left out.
            (EndpointKind::Pipeline, _) => {
                scope.set_passage(Passage::default());
                scope.call_as_get();
            }
        }
    }

    /// Serves a request: in through the layers, through the pipeline, and out again.
    pub(super) async fn serve(&self, scope: Unshared<Scope>) -> Reply {
        let (pass, refused) = LayerPass::enter(&self.layers, scope).await;
        // Not in a tuple with it: a response is large.
        let own = refused.is_none();
        let mut response = match refused {
            Some(response) => response,
            None => self.run(pass.scope()).await,
        };
        // The refusal of a layer is not kept by anybody.
        if let Some(dependence) = &self.dependence
            && (own || !response.status().is_client_error() && !response.status().is_server_error())
        {
            describe(response.status(), response.headers_mut(), Assembly::Alone, dependence, Moment::now());
        }
        if self.stream == StreamSpec::On {
            response.extensions_mut().insert(NoMinimumRate);
        }
        pass.finish_response(response).await
    }
}

impl Endpoint {
    /// The names of its layers and its cache, from the outside in, each with a description of what it does.
    pub fn outline(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.layers.outline().chain(self.cache.as_ref().map(|cache| ("cache", cache.outline())))
    }

    /// Whether it has a layer of this name, or a cache where the name is that.
    pub fn has(&self, name: &str) -> bool {
        self.layers.has(name) || name == "cache" && self.cache.is_some()
    }

    /// How its pipeline goes on without the client, for `explain`.
    pub fn detached(&self) -> Option<String> {
        self.detach.as_ref().map(|detach| detach.outline())
    }

    /// Where a client's body goes, for `explain`; `None` if clients do not send one with its method, or if there is no call.
    pub fn client_body(&self) -> Option<String> {
        let plan = &self.plan;
        if !self.takes_bodies || plan.calls() == 0 {
            return None;
        }
        let taken = plan.taken();
        let whole = format!("read whole, up to {} bytes", plan.max_body());
        let streams = taken.streams.iter().map(|name| format!("a stream to `{name}`"));
        let copies = taken.copies.iter().map(|name| format!("a copy to `{name}`"));
        let read = plan.reads_body().then(|| match plan.needs_value() {
            true => "`$body` (415 if it is no text)".to_owned(),
            false => "`$body`".to_owned(),
        });
        let places: Vec<String> = streams.chain(copies).chain(read).collect();
        Some(match (places.is_empty(), plan.reads_body() || !taken.copies.is_empty()) {
            (true, _) if plan.refuses_body() => "refused with 413, because no call takes it".to_owned(),
            (true, _) => "ignored".to_owned(),
            (false, true) => format!("{whole}: {}", places.join(", ")),
            (false, false) => places.join(", "),
        })
    }

    /// The methods of its calls, for `explain`; `None` if clients send no body with the method of the endpoint.
    pub fn call_methods(&self) -> Option<String> {
        let plan = &self.plan;
        if !self.takes_bodies {
            return None;
        }
        let one = |(method, upstream): &(CallMethod, String)| match method {
            CallMethod::Clients => format!("the client's to `{upstream}`"),
            CallMethod::Written(method) => format!("{method} to `{upstream}`"),
            CallMethod::Default(method) => format!("{method} to `{upstream}` by default"),
        };
        let mut told: Vec<String> = Vec::new();
        for told_once in plan.taken().methods.iter().map(one) {
            if !told.contains(&told_once) {
                told.push(told_once);
            }
        }
        let refused = match plan.served() {
            [] => String::new(),
            served => format!("; other methods than {} get 405", listed(served)),
        };
        (!told.is_empty()).then(|| format!("{}{refused}", told.join(", ")))
    }

    /// Answers from the cache or from the pipeline.
    async fn run(&self, scope: &Arc<Scope>) -> Response<AnswerBody> {
        let plan = &self.plan;
        if !plan.serves(scope.method()) {
            return response::other_method(scope.method(), &plan.served().iter().collect::<Vec<_>>());
        }
        // Before the caches: a copy would answer a request whose body nobody has seen.
        if plan.refuses_body()
            && scope.has_body()
            // Boxed: other requests would carry the room.
            && let Err(error) = Box::pin(scope.refuse_body()).await
        {
            return response::fail(&error);
        }
        if let Some(detach) = &self.detach {
            // Boxed, too.
            return Box::pin(detach.run(scope, plan)).await;
        }
        let answer = match self.cache.as_ref().map_or(Verdict::Pass, |cache| cache.answer(scope)) {
            Verdict::Pass => None,
            Verdict::Answer(response) => Some(response),
            Verdict::Wait(verdict) => verdict.await,
        };
        match answer {
            Some(response) => response,
            None => response::respond(self.plan.answer(scope).await, scope),
        }
    }
}
