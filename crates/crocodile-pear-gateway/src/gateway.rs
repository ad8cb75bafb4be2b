//! From a document to a gateway, and the whole life of a request.

use std::net::SocketAddr;
use std::sync::Arc;

use crocodile_pear::flow::Pulled;
use crocodile_pear::plan::Plan;
use crocodile_pear::problem::Problems;
use crocodile_pear::scope::{ClientFacts, Scope};
use crocodile_pear::spec::{Located, Timeout};
use crocodile_pear::step::Compile;
use crocodile_pear::upstream::{Files, Given, ResolverSpec, Upstream};
use http::{Method, Response};
use indexmap::IndexMap;

use crate::compress::{self, Compress, Compressor};
use crate::deadline;
use crate::document::{Document, EndpointSpec};
use crate::respond;
use crate::route::{Found, Rest, Route, Routes};
use crate::server::ClientRequest;

/// Everything that serves requests, immutable: a reload makes another one.
pub struct Gateway {
    routes: Routes<Endpoint>,
    endpoints: Vec<Arc<Endpoint>>,
    upstreams: IndexMap<String, Arc<Upstream>>,
}

/// One endpoint, ready.
pub struct Endpoint {
    /// `METHOD /path` as written.
    pub name: Arc<str>,
    /// What it runs.
    pub plan: Arc<Plan>,
    /// How long a request may take.
    timeout: Timeout,
    /// The most bytes of a client's body that are read whole.
    max_body: usize,
    /// Whether its answers carry `Server-Timing`.
    timed: bool,
    /// What compresses its answers.
    compress: Option<Arc<Compressor>>,
    rest: Option<String>,
}

impl Rest for Endpoint {
    fn rest(&self) -> Option<&str> {
        self.rest.as_deref()
    }
}

impl Gateway {
    /// Compiles a document; every problem is noted, and none stops it. `unread` are upstreams that are written, and
    /// are not in the document because they cannot be read; `files` reads what the document names.
    pub fn compile(document: &Document, unread: &[String], files: Files<'_>, problems: &mut Problems) -> Option<Self> {
        let mut upstreams = IndexMap::new();
        let mut sound = address(&document.listen, problems).is_some();
        sound &= document.admin.as_ref().is_none_or(|written| address(written, problems).is_some());
        let given = Given { files, resolver: document.resolver.as_ref().map(ResolverSpec::ready) };
        for (name, (span, spec)) in document.upstreams.iter().flatten() {
            match spec.compile(name, *span, &given, problems) {
                Some(upstream) => drop(upstreams.insert(name.clone(), upstream)),
                None => sound = false,
            }
        }
        // What a broken upstream is called is no problem of the calls to it.
        let named = document.upstreams.iter().flatten().map(|(name, _)| name.as_str());
        let broken = named.filter(|name| !upstreams.contains_key(*name));
        let broken: Vec<&str> = broken.chain(unread.iter().map(String::as_str)).collect();
        let compress = compressor(document.compress.as_ref(), problems);
        let mut gateway = Gateway { routes: Routes::new(), endpoints: Vec::new(), upstreams };
        for (name, (span, spec)) in &document.endpoints {
            let written = Located::new(name.clone(), *span);
            sound &= gateway.add(&written, spec, &compress, &broken, problems).is_some();
        }
        sound.then_some(gateway)
    }

    fn add(
        &mut self,
        written: &Located<String>,
        spec: &EndpointSpec,
        compress: &Option<Arc<Compressor>>,
        broken: &[&str],
        problems: &mut Problems,
    ) -> Option<()> {
        let route = Route::parse(written, problems);
        let unknown = Route { method: Method::GET, path: String::new(), params: Vec::new(), rest: None };
        let plan = self.plan(written, spec, route.as_ref().unwrap_or(&unknown), broken, problems);
        let (route, plan) = (route?, plan?);
        let timed = spec.pipeline.iter().any(|step| matches!(step, crocodile_pear::steps::Written::Timer(_)));
        let endpoint = Arc::new(Endpoint {
            name: written.as_str().into(),
            plan: Arc::new(plan),
            timeout: spec.timeout,
            max_body: spec.max_body.bytes(),
            timed,
            compress: spec.compress.as_ref().map_or(compress.clone(), |own| compressor(Some(own), problems)),
            rest: route.rest.clone(),
        });
        if let Err(with) = self.routes.add(&route, endpoint.clone()) {
            if with == route.path {
                return problems.error(
                    written.span,
                    format!("`{} {with}` is written twice", route.method),
                    "leave out one",
                );
            }
            let message = format!("`{}` cannot be told from `{with}`", route.path);
            return problems.error(written.span, message, "give the parameters of the same place the same names");
        }
        self.endpoints.push(endpoint);
        Some(())
    }

    fn plan(
        &self,
        written: &Located<String>,
        spec: &EndpointSpec,
        route: &Route,
        broken: &[&str],
        problems: &mut Problems,
    ) -> Option<Plan> {
        if spec.pipeline.is_empty() {
            return problems.error(
                written.span,
                "the pipeline has no steps",
                "begin it with `- request: UPSTREAM /path`",
            );
        }
        let mut cx = Compile::new(&self.upstreams, broken, &route.params, &route.method, written.span, problems);
        Plan::compile(spec.pipeline.clone(), &mut cx)
    }

    /// The endpoints, in the order of the document.
    pub fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.endpoints
    }

    /// The upstreams, by name.
    pub fn upstreams(&self) -> &IndexMap<String, Arc<Upstream>> {
        &self.upstreams
    }

    /// A request's whole life.
    pub async fn handle(&self, head: ClientRequest) -> Response<Pulled> {
        let found = match self.routes.find(&head.method, head.target.path()) {
            Ok(found) => found,
            Err(error) => return respond::fail(&error),
        };
        let (endpoint, params) = match found {
            Found::Endpoint(endpoint, params) => (endpoint, params),
            Found::Methods(methods) => return respond::other_method(&head.method, &methods),
            Found::Nothing => return respond::not_found(),
        };
        // A HEAD is handed on by a proxy; a pipeline reads bodies, so it runs as its GET and the body is left out.
        let head_only = head.method == Method::HEAD;
        let bodiless = head_only && endpoint.plan.is_proxy();
        let method = if head_only && !bodiless { Method::GET } else { head.method };
        let mut scope = Scope::new(method, Some(head.target), head.headers, head.body);
        let client = ClientFacts { address: head.connection.peer, version: head.version };
        scope.facts_mut().set_client(client);
        scope.facts_mut().set_route(endpoint.name.clone());
        scope.set_params(params);
        scope.set_timeout(endpoint.timeout);
        let scope = Arc::new(scope);
        let outcome = endpoint.plan.answer(&scope, endpoint.max_body).await;
        let response = respond::respond(outcome, &scope, endpoint.timed);
        let response = if bodiless { compress::untold(response) } else { response };
        let response = match &endpoint.compress {
            Some(compress) if bodiless => compress.tell(response, scope.headers()),
            Some(compress) => compress.wrap(response, scope.headers()).await,
            None => response,
        };
        deadline::bound(response, scope.deadline())
    }
}

fn compressor(spec: Option<&Compress>, problems: &mut Problems) -> Option<Arc<Compressor>> {
    spec.and_then(|spec| spec.compile(problems)).map(Arc::new)
}

/// An address as written.
pub fn address(written: &Located<String>, problems: &mut Problems) -> Option<SocketAddr> {
    let text = written.as_str();
    let spelled = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let spelled = spelled.or_else(|| text.strip_prefix(':').map(|port| format!("0.0.0.0:{port}")));
    match spelled.as_deref().unwrap_or(text).parse() {
        Ok(address) => Some(address),
        Err(_) if problems.found_within(written.span) => None,
        Err(_) => {
            problems.error(written.span, format!("`{text}` is no address"), "write `127.0.0.1:8080` or `[::1]:8080`")
        }
    }
}
