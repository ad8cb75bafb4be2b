//! Compiles a document into a gateway, and serves requests from beginning to end.

pub(crate) mod choices;
pub(crate) mod config_status;
pub(crate) mod detach;
pub mod document;
pub(crate) mod health_checks;
pub(crate) mod layer_origins;
pub mod live;
pub(crate) mod locked_settings;
pub(crate) mod self_call_check;
pub(crate) mod upstream_check;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crocodile_pear::unstable::cache::downstream::{Made, describe};
use crocodile_pear::unstable::cache::{self, Dependence};
use crocodile_pear::unstable::config::carried_state::{Carry, Reading};
use crocodile_pear::unstable::config::files::Files;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Located, Node, Timeout};
use crocodile_pear::unstable::database::Database;
use crocodile_pear::unstable::error::Error;
use crocodile_pear::unstable::http::date::Moment;
use crocodile_pear::unstable::http::loop_detection::{self, Forwards};
use crocodile_pear::unstable::message::body::Body;
use crocodile_pear::unstable::message::side_channel::Passage;
use crocodile_pear::unstable::pipeline::plan::{Plan, listed, often_has_body};
use crocodile_pear::unstable::pipeline::step::{
    ByName, CallMethod, Compile, Known, KnownRoute, PublicTable, PublicWay, StreamSpec,
};
use crocodile_pear::unstable::pipeline::steps::Written;
use crocodile_pear::unstable::request::context::{Params, Scope};
use crocodile_pear::unstable::upstream::{Resolver, Upstream, UpstreamEnvironment};
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use indexmap::IndexMap;

use crate::net::address::{self, Address};
use crate::runtime::tasks::{Work, Worked};

use crate::gateway::detach::Detaching;
use crate::gateway::document::{Clients, Document, EndpointSpec, GroupSpec, Placed, Unread, UnreadBodySpec, plain};
use crate::net::trusted_proxies::Trust;
use crate::shared::events::{self, EventSource};

use crate::gateway::layer_origins::{PlaceOfLayers, origins};
use crate::http::response;
use crate::http::route::{FoundRoute, HostPattern, Hosts, METHODS, Route, Routes};
use crate::http::upgrade::Allowed;
use crate::layer::stack::{LayerPass, Stack};
use crate::layer::unshared::Unshared;
use crate::layer::{self, CompileServices, LayerPosition, PathParams, Paths, Verdict};
use crate::layers::Shared;
use crate::layers::cache::EndpointCache;
use crate::listeners::spec::{Listening, check_folder};
use crate::server::{ClientRequest, Connection, NoMinimumRate, Redirect, Refusal, Reply, grpc};
use crate::shared::persistent::Lasting;
use crate::shared::redis_tier::{self, Store};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Traces;

use crate::http::version::{Adapting, Choice, Chooser, Named, Versioned};

/// Everything that serves requests. Immutable: a reload makes a new one.
pub struct Gateway {
    hosts: Hosts<HostRoutes>,
    endpoints: Vec<Arc<Endpoint>>,
    /// The layers around requests that no endpoint serves.
    unserved: Arc<Stack>,
    listening: Vec<Listening>,
    trust: Trust,
    /// Whether any layer, log or page needs a record of each request.
    records: bool,
    traces: Option<Arc<Traces>>,
    /// By name, also those that lead to others.
    upstreams: Arc<IndexMap<String, Arc<Upstream>>>,
    /// The upstreams that have servers.
    called: IndexMap<String, Arc<Upstream>>,
    databases: IndexMap<String, Arc<Database>>,
    lasting: Lasting,
    /// How many bytes the caches may hold.
    memory: usize,
    resolver: Option<Resolver>,
    /// Background work, until `take_works` hands it out.
    works: Mutex<Vec<Arc<Work>>>,
    /// The sources of events, until `take_events` hands them out.
    events: Mutex<Vec<EventSource>>,
    /// The store that this gateway shares with other gateways.
    store: Option<Arc<Worked<Store>>>,
    /// The paths of all endpoints, by the paths of upstreams that they serve.
    table: Arc<PublicTable>,
    /// The paths that the table is filled with, until all are compiled.
    ways: Vec<(PublicWay, Vec<String>, Option<Method>)>,
}

/// The endpoints of one host.
struct HostRoutes {
    routes: Routes<RouteTarget>,
    /// The choosers of versions for its groups.
    apis: Vec<Arc<Chooser>>,
    /// The layers around this host's requests that no endpoint serves.
    unserved: Arc<Stack>,
}

/// An entry of the router: an endpoint and its version.
struct RouteTarget {
    endpoint: Arc<Endpoint>,
    /// Its version, unless the path alone chooses the version.
    version: Option<Arc<Versioned>>,
}

impl RouteTarget {
    /// Whether this endpoint belongs to the version that a request asks for.
    fn serves(&self, choice: &mut Choice, scope: &Scope) -> bool {
        match &self.version {
            None => true,
            Some(own) => *choice.of(&own.chooser, scope) == Named::Version(own.index),
        }
    }

    /// Whether both belong to the same API, but to different versions of it.
    fn apart(&self, other: &RouteTarget) -> bool {
        let versions = self.version.as_ref().zip(other.version.as_ref());
        versions.is_some_and(|(own, other)| Arc::ptr_eq(&own.chooser, &other.chooser) && own.index != other.index)
    }
}

/// The way in which an endpoint serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndpointKind {
    /// Passes it on whole, with everything that passes beside a request and its answer.
    Proxy,
    /// Runs a pipeline for it.
    Pipeline,
}

/// A compiled endpoint.
pub struct Endpoint {
    /// `METHOD /path` as written. In a group with hosts: `METHOD HOST/path`, with the first host.
    pub name: Arc<str>,
    kind: EndpointKind,
    /// The pipeline.
    pub plan: Arc<Plan>,
    /// The cache around the pipeline, if its answers are stored.
    cache: Option<EndpointCache>,
    /// The layers around pipeline and cache.
    pub layers: Arc<Stack>,
    /// The protocols that clients may upgrade to.
    pub upgrade: Option<Allowed>,
    /// Whether its requests and answers are streams.
    stream: StreamSpec,
    /// The newer version that serves this endpoint in the same way.
    pub same_as: Option<Arc<str>>,
    /// Whether clients usually send a body with its method.
    takes_bodies: bool,
    /// How its pipeline goes on without the client, if it does.
    detach: Option<Arc<Detaching>>,
    /// Where its layers are written, for `explain`.
    pub origins: Vec<(&'static str, String)>,
    /// The name again, if an expression uses `$route`.
    named: Option<Arc<str>>,
    /// The parts of requests that its answers depend on in a way that caches must know, if there are any.
    dependence: Option<Box<Dependence>>,
}

/// The inputs of a compilation besides the document.
#[derive(Clone, Copy)]
pub struct CompileEnvironment<'a> {
    /// The parts of the configuration that could not be read and are therefore not in the document.
    pub unread: &'a Unread,
    /// Reads the files that the document names.
    pub files: Files<'a>,
    /// Gives the path of a file that the document names.
    pub paths: Paths<'a>,
    /// State that outlives a gateway. A reload continues with it.
    pub lasting: &'a Lasting,
}

/// Upstreams and databases that have errors of their own. A reference to one of these is not reported as unknown.
#[derive(Clone, Copy)]
struct Broken<'a> {
    upstreams: &'a [&'a str],
    databases: &'a [&'a str],
}

/// The steps of an endpoint. One that only serves files has a pipeline that is never run.
fn pipeline(spec: &EndpointSpec) -> Vec<Located<Written>> {
    if !spec.pipeline.is_empty() {
        return spec.pipeline.clone();
    }
    let nothing = Node::from_json(&serde_json::json!({ "respond": { "status": 404 } }));
    Located::decode(&nothing, &mut Problems::default()).into_iter().collect()
}

/// The upstreams that have servers.
fn called(all: &IndexMap<String, Arc<Upstream>>) -> IndexMap<String, Arc<Upstream>> {
    let own = all.iter().filter(|(_, upstream)| !upstream.is_choice());
    own.map(|(name, upstream)| (name.clone(), upstream.clone())).collect()
}

/// Compiles the databases. Fails if one of them cannot be used.
fn databases(
    document: &Document,
    files: Files<'_>,
    carry: &Carry,
    problems: &mut Problems,
) -> (IndexMap<String, Arc<Database>>, bool) {
    let (mut databases, mut sound) = (IndexMap::new(), true);
    for (name, (_, spec)) in document.databases.iter().flatten() {
        match spec.compile(name, files, carry, problems) {
            Some(database) => drop(databases.insert(name.clone(), database)),
            None => sound = false,
        }
    }
    (databases, sound)
}

impl Gateway {
    /// Compiles a document. Collects every problem instead of stopping at the first.
    pub fn compile(document: &Document, given: CompileEnvironment<'_>, problems: &mut Problems) -> Option<Self> {
        let mut upstreams = IndexMap::new();
        let listening = listening(document, given.files, problems);
        let mut sound = listening.is_some() && self_call_check::check(document, problems).is_some();
        let carry = Carry::over(&given.lasting.carried);
        let resolver = document.resolver.as_ref().map(|resolver| resolver.ready(&carry));
        let cache = Some(given.lasting.cache.clone());
        let beside =
            UpstreamEnvironment { files: given.files, resolver: resolver.clone(), cache, carry: carry.clone() };
        for (name, (span, spec)) in document.upstreams.iter().flatten().filter(|(_, (_, spec))| spec.choose.is_none()) {
            match spec.compile(name, *span, &beside, problems) {
                Some(upstream) => drop(upstreams.insert(name.clone(), upstream)),
                None => sound = false,
            }
        }
        sound &= choices::add(document, &given.unread.upstreams, &mut upstreams, problems).is_some();
        let (databases, usable) = databases(document, given.files, &carry, problems);
        sound &= usable;
        let named = document.databases.iter().flatten().map(|(name, _)| name.as_str());
        let unusable = named.filter(|name| !databases.contains_key(*name));
        let unusable: Vec<&str> = unusable.chain(given.unread.databases.iter().map(String::as_str)).collect();
        // Calls may name an upstream that has errors: the errors are reported at the upstream.
        let named = document.upstreams.iter().flatten().map(|(name, _)| name.as_str());
        let broken = named.filter(|name| !upstreams.contains_key(*name));
        let broken: Vec<&str> = broken.chain(given.unread.upstreams.iter().map(String::as_str)).collect();
        let broken = Broken { upstreams: &broken, databases: &unusable };
        let store = document.store.as_ref().map(|store| store.compile(given.files, given.lasting, problems));
        sound &= !matches!(store, Some(None));
        let memory = redis_tier::memory(document.store.as_ref()).bytes();
        let store = store.flatten().flatten();
        let traces = document.traces.as_ref().map(|traces| {
            let reading = Reading::new(given.files);
            let files = |written: &_| reading.read(written);
            let beside = UpstreamEnvironment { files: &files, ..beside.clone() };
            let made = traces.compile(&beside, &given.lasting.spans, problems)?;
            let terms = (traces.mark, reading.mark(), resolver.as_ref().map(Resolver::mark));
            Some(carry.part(("traces", terms)).settle(made))
        });
        sound &= !matches!(traces, Some(None));
        let traces = traces.flatten();
        let events = events::compile(document.events.as_deref().unwrap_or_default(), given.files, problems);
        sound &= events.is_some();
        let ipv6_prefix = document.clients.as_ref().map(|clients| clients.ipv6_prefix).unwrap_or_default();
        // Where `authenticate` cannot be read, that was reported.
        let anonymous = !given.unread.authenticates && !document.authenticates();
        if anonymous {
            upstream_check::check_claims(document, &upstreams, problems);
        }
        let upstreams = Arc::new(upstreams);
        let services = CompileServices {
            resolver: resolver.clone(),
            upstreams: ByName::new(&upstreams, broken.upstreams),
            store: store.as_ref().map(|store| store.state.clone()),
            traces: traces.clone(),
            ipv6_prefix,
            observed: document.admin.is_some(),
            ..CompileServices::new(given.files, given.paths, given.lasting)
        };
        let mut cx = layer::Compile::at("", &services, problems);
        cx.works.extend(store.iter().map(|store| store.work.clone()));
        cx.anonymous = anonymous;
        let layers = document.layers.compile(&mut cx);
        let works = cx.works;
        let unserved = Arc::new(layers.around(&mut LayerPosition::nothing()));
        let mut gateway = Gateway {
            hosts: Hosts::default(),
            endpoints: Vec::new(),
            unserved: unserved.clone(),
            listening: listening.unwrap_or_default(),
            trust: trusted(document),
            records: document.admin.is_some() || unserved.watches(),
            traces,
            called: called(&upstreams),
            upstreams: upstreams.clone(),
            databases,
            lasting: given.lasting.clone(),
            works: Mutex::new(works),
            events: Mutex::new(events.unwrap_or_default()),
            resolver,
            store,
            memory,
            table: Arc::default(),
            ways: Vec::new(),
        };
        let authenticates = given.unread.authenticates || document.layers.authenticates() == Some(true);
        let document_place =
            PlaceOfLayers { group: None, written: document.layers.written(), locked: &document.locked, placed: true };
        let places = vec![document_place.clone()];
        let outside = GroupContext { services: &services, layers, hosts: Vec::new(), unserved, authenticates, places };
        sound &= gateway.add_all(&plain(&document.endpoints), &outside, broken, problems).is_some();
        for (name, (_, group)) in document.groups.iter().flatten() {
            let mut cx = layer::Compile::at(name, &services, problems);
            cx.anonymous = !group.authenticates(authenticates);
            let layers = outside.layers.within(&group.layers, &mut cx);
            gateway.keep(cx.works);
            let hosts = group.hosts(problems);
            sound &= hosts.is_some();
            // Without its hosts it would be served in another place.
            let placed = hosts.is_some();
            let hosts = hosts.unwrap_or_default();
            let unserved = match hosts.as_slice() {
                [] => gateway.unserved.clone(),
                _ => Arc::new(layers.around(&mut LayerPosition::nothing())),
            };
            let authenticates = group.layers.authenticates().unwrap_or(authenticates);
            let place =
                PlaceOfLayers { group: Some(name), written: group.layers.written(), locked: &group.locked, placed };
            let places = vec![document_place.clone(), place];
            let scenery = GroupContext { services: &services, layers, hosts, unserved, authenticates, places };
            let (placed, whole) = gateway.place(name, group, &scenery, problems);
            sound &= whole.is_some();
            sound &= gateway.add_all(&placed, &scenery, broken, problems).is_some();
        }
        gateway.table.fill(std::mem::take(&mut gateway.ways).into_iter());
        for database in gateway.databases.values() {
            sound &= database.verify(problems).is_some();
        }
        if !problems.fatal() {
            upstream_check::check_called(document, &gateway.upstreams, problems);
        }
        sound.then_some(gateway)
    }

    /// Places the endpoints of a group everywhere they are served. The result says whether they have no problems.
    fn place<'a>(
        &mut self,
        name: &str,
        group: &'a GroupSpec,
        scenery: &GroupContext<'_>,
        problems: &mut Problems,
    ) -> (Vec<Placed<'a>>, Option<()>) {
        let Some(versions) = &group.versions else { return (plain(&group.endpoints), Some(())) };
        let Some(api) = versions.compile(name, problems) else { return (plain(&group.endpoints), None) };
        if api.chooser.path().is_some() {
            for pattern in scenery.patterns() {
                self.site(pattern, &scenery.unserved).apis.push(api.chooser.clone());
            }
        }
        versions.place(&api, &group.endpoints, problems)
    }

    fn add_all(
        &mut self,
        placed: &[Placed<'_>],
        scenery: &GroupContext<'_>,
        broken: Broken<'_>,
        problems: &mut Problems,
    ) -> Option<()> {
        // An endpoint has one set of layers, however many versions serve it: all versions share its limits.
        let mut layers: HashMap<*const EndpointSpec, Shared> = HashMap::with_capacity(placed.len());
        let mut sound = Some(());
        for placed in placed {
            let behind = |route: Route| route.below(&placed.prefix);
            let route = Route::parse(&placed.written, problems).map(behind).map_err(behind);
            let known = route.as_ref().unwrap_or_else(|readable| readable);
            let name = scenery.name(placed, known);
            let own = layers.entry(placed.spec).or_insert_with(|| {
                let mut cx = layer::Compile::at(&name, scenery.services, problems);
                cx.params = Some(PathParams { names: &known.params, rest: known.rest.as_deref() });
                cx.anonymous = !placed.spec.layers.authenticates().unwrap_or(scenery.authenticates);
                let own = scenery.layers.within(&placed.spec.layers, &mut cx);
                self.keep(cx.works);
                own
            });
            sound = self.add(placed, (route, name), own, scenery, broken, problems).and(sound);
        }
        sound
    }

    fn add(
        &mut self,
        placed: &Placed<'_>,
        (route, name): (Result<Route, Route>, Arc<str>),
        layers: &Shared,
        scenery: &GroupContext<'_>,
        broken: Broken<'_>,
        problems: &mut Problems,
    ) -> Option<()> {
        let Placed { written, spec, versioned, .. } = placed;
        if spec.stream == StreamSpec::On && spec.layers.deadline.is_some() {
            let remedy =
                "leave out `timeout`; how long the upstream may take until its answer begins is its `first_byte`";
            problems.warning(written.span, "an endpoint with `stream: on` has no `timeout`", remedy);
        }
        let known = route.as_ref().unwrap_or_else(|readable| readable);
        let max_body = spec.max_body.value.bytes();
        let adapting = adapting(placed, known, max_body, problems);
        let anonymous = !spec.layers.authenticates().unwrap_or(scenery.authenticates);
        let mut plan = self.plan(placed, (known, anonymous), broken, problems);
        if let Some(way) = plan.as_mut().and_then(Plan::take_way) {
            let hosts = scenery.hosts.iter().map(HostPattern::to_string).collect();
            self.ways.push((way, hosts, known.method.clone()));
        }
        let plan = plan.map(Arc::new);
        let detach = self.detaching(placed, self.known(spec, known, anonymous, broken), problems);
        let written_max_body = (spec.max_body.span.line > 0).then_some(max_body);
        let mut around = LayerPosition {
            route: Some(&name),
            plan: plan.as_ref(),
            versioned: versioned.as_ref(),
            adapting: adapting.as_ref().and_then(Option::as_ref),
            max_body,
            written_max_body,
            piped: !spec.pipeline.is_empty(),
            dependence: plan.as_ref().map(|plan| plan.dependence().clone()).unwrap_or_default(),
            ..LayerPosition::default()
        };
        let caches = layers.cache();
        let layers = Arc::new(layers.around(&mut around));
        // After the layers: answers depend on what these read, too.
        let cache = caches.and_then(|caches| caches.around(&mut around));
        for (place, message, remedy) in around.warned {
            problems.warning(place, message, remedy);
        }
        let mut stands = Some(());
        for (place, message, remedy) in around.refused {
            stands = problems.error(place, message, remedy);
        }
        let upgrade = match (&spec.upgrade, &route) {
            (Some(written), Ok(route)) => written.compile(&spec.pipeline, route, &self.upstreams, problems).map(Some),
            _ => Some(None),
        };
        let mut dependence = around.dependence;
        // `cors: off` says that the upstream checks the pages.
        if let (Some(written), None) = (&spec.upgrade, &spec.layers.cors)
            && layers.takes_ambient_credentials
            && !layers.answers_preflights
        {
            problems.warning(written.span(), ANY_PAGE, PAGES);
        }
        let (route, plan, upgrade, detach, _) = (route.ok()?, plan?, upgrade?, detach?, adapting.zip(stands)?);
        if plan.composes() {
            dependence.settle();
        }
        let named = (layers.names_route || plan.uses("route")).then(|| name.clone());
        let same_as = versioned.as_ref().filter(|_| placed.same).and_then(|own| own.newer());
        let kind = if plan.is_proxy() { EndpointKind::Proxy } else { EndpointKind::Pipeline };
        let (stream, takes_bodies) = (spec.stream, route.method.as_ref().is_none_or(often_has_body));
        let endpoint = Arc::new(Endpoint {
            name,
            kind,
            plan,
            cache,
            layers,
            upgrade,
            stream,
            same_as,
            takes_bodies,
            detach,
            origins: origins(&scenery.places, &spec.layers),
            named,
            dependence: (!dependence.is_nothing()).then(|| Box::new(dependence)),
        });
        if scenery.places.iter().any(|place| !place.placed) {
            return None;
        }
        for pattern in scenery.patterns() {
            let version = versioned.clone().filter(|versioned| !versioned.by_path);
            let slot = RouteTarget { endpoint: endpoint.clone(), version };
            let site = self.site(pattern, &scenery.unserved);
            if let Err(with) = site.routes.add(&route, slot, RouteTarget::apart) {
                let message = match with == route.path {
                    true => format!("`{}` is written twice", route.name(&with)),
                    false => {
                        format!("`{}` takes the same requests as `{}`", route.name(&route.path), route.name(&with))
                    }
                };
                return problems.error(written.span, message, "leave out one");
            }
        }
        self.endpoints.push(endpoint);
        Some(())
    }

    /// Keeps background work until `take_works` hands it out.
    fn keep(&mut self, works: Vec<Arc<Work>>) {
        self.works.get_mut().unwrap_or_else(PoisonError::into_inner).extend(works);
    }

    /// The site of a host; made if it is new.
    fn site(&mut self, pattern: Option<&HostPattern>, unserved: &Arc<Stack>) -> &mut HostRoutes {
        let make = || HostRoutes { routes: Routes::new(), apis: Vec::new(), unserved: unserved.clone() };
        let site = self.hosts.entry(pattern, make);
        // If several groups share a host, requests that no endpoint serves get the layers of the document.
        if !Arc::ptr_eq(&site.unserved, unserved) {
            site.unserved = self.unserved.clone();
        }
        site
    }

    fn plan(
        &self,
        placed: &Placed<'_>,
        (route, anonymous): (&Route, bool),
        broken: Broken<'_>,
        problems: &mut Problems,
    ) -> Option<Plan> {
        let Placed { written, spec, .. } = placed;
        if spec.pipeline.is_empty() && spec.layers.files.is_none() {
            return problems.error(
                written.span,
                "the pipeline has no steps",
                "begin it with `- request: UPSTREAM /path`",
            );
        }
        let known = self.known(spec, route, anonymous, broken);
        // From the newest version to the oldest.
        let changes = placed.adapts.iter().rev().filter_map(|adapt| adapt.answer.clone()).collect();
        Plan::compile_with(pipeline(spec), changes, known, written.span, problems)
    }

    /// The names that the pipeline of an endpoint may refer to.
    fn known<'a>(&'a self, spec: &'a EndpointSpec, route: &'a Route, anonymous: bool, broken: Broken<'a>) -> Known<'a> {
        Known {
            upstreams: ByName::new(&self.upstreams, broken.upstreams),
            databases: ByName::new(&self.databases, broken.databases),
            route: KnownRoute {
                path: &route.path,
                params: &route.params,
                rest: route.rest.as_deref(),
                unread: !route.readable,
                method: route.method.as_ref(),
                stream: spec.stream,
                ignores_body: spec.body == UnreadBodySpec::Ignore || spec.pipeline.is_empty(),
                anonymous,
                links: spec.links.as_ref(),
                max_body: spec.max_body.value.bytes(),
            },
            table: Some(&self.table),
        }
    }

    /// How the pipeline of an endpoint goes on without its client, if it does.
    fn detaching(
        &self,
        placed: &Placed<'_>,
        known: Known<'_>,
        problems: &mut Problems,
    ) -> Option<Option<Arc<Detaching>>> {
        let Placed { written, spec, .. } = placed;
        let Some(detach) = &spec.detach else { return Some(None) };
        let others = [
            ("cache", spec.layers.cache.as_ref().is_some_and(|cache| cache.on().is_some())),
            ("upgrade", spec.upgrade.is_some()),
            ("stream", spec.stream == StreamSpec::On),
        ];
        let mut sound = Some(());
        for (name, _) in others.iter().filter(|(_, written)| *written) {
            let message = format!("`{name}` beside `detach`: such an endpoint reads its answer whole, for one request");
            sound = problems.error(written.span, message, format!("leave out `{name}`, or `detach`"));
        }
        let ready = detach.compile(known, problems);
        sound.and(ready).map(|ready| Some(Arc::new(ready)))
    }

    /// The endpoints in document order.
    pub fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.endpoints
    }

    /// The layers around requests that no endpoint serves.
    pub fn unserved(&self) -> &Stack {
        &self.unserved
    }

    /// The listeners.
    pub fn listening(&self) -> &[Listening] {
        &self.listening
    }

    /// The DNS resolver; `None` for the system's.
    pub fn resolver(&self) -> Option<&Resolver> {
        self.resolver.as_ref()
    }

    /// Host names without an address, each with its upstream and the reason.
    pub fn unresolved(&self) -> Vec<(String, Box<str>, Arc<str>)> {
        let of = |(name, upstream): (&String, &Arc<Upstream>)| {
            let name = name.clone();
            upstream.unresolved().into_iter().map(move |(host, why)| (name.clone(), host, why))
        };
        self.called.iter().flat_map(of).collect()
    }

    /// The upstreams that have servers, by name.
    #[allow(clippy::misnamed_getters, reason = "operators see those that have servers")]
    pub fn upstreams(&self) -> &IndexMap<String, Arc<Upstream>> {
        &self.called
    }

    /// All upstreams by name, also those that lead to others.
    pub fn named_upstreams(&self) -> &IndexMap<String, Arc<Upstream>> {
        &self.upstreams
    }

    /// The databases, by name.
    pub fn databases(&self) -> &IndexMap<String, Arc<Database>> {
        &self.databases
    }

    /// The background work of this gateway. The first call takes it all.
    pub fn take_works(&self) -> Vec<Arc<Work>> {
        std::mem::take(&mut self.works.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The sources of events. The first call takes them all.
    pub fn take_events(&self) -> Vec<EventSource> {
        std::mem::take(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The metrics.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.lasting.metrics
    }

    /// Waits until log lines and spans are written, for at most `most`.
    pub fn flush(&self, most: Duration) {
        self.lasting.journals.flush(most);
        self.traces.iter().for_each(|traces| traces.flush(most));
    }

    /// State that outlives this gateway.
    pub fn lasting(&self) -> &Lasting {
        &self.lasting
    }

    /// The store of the caches.
    pub fn cache(&self) -> &Arc<cache::Store> {
        &self.lasting.cache
    }

    /// Called when another gateway serves: gives up what that does not have too.
    pub fn end(&self, next: &Gateway) {
        for (name, database) in &self.databases {
            database.end(next.databases.get(name).map(|next| &**next));
        }
    }

    /// Called when this gateway begins to serve: applies its cache size.
    pub fn begin(&self) {
        self.lasting.journals.begin();
        self.traces.iter().for_each(|traces| traces.begin());
        self.databases.values().for_each(|database| database.begin());
        self.lasting.cache.resize(self.memory);
        self.lasting.cache.set_tier(self.store.as_ref().and_then(|store| store.state.tier()));
    }

    /// Serves a request from beginning to end. `gateway` is kept alive meanwhile.
    pub fn handle(
        gateway: impl Deref<Target = Arc<Gateway>> + Send,
        request: ClientRequest,
    ) -> impl Future<Output = Reply> + Send {
        // Made before the future, which would otherwise hold the whole request until its end. On the heap at once, because
        // it is large and passed on often.
        let mut client = request.connection.client(request.version);
        let redirect = request.connection.entry.redirect.clone();
        let challenge = request.connection.entry.challenges.answer(request.target.path());
        let mut scope = Scope::new(request.method, Some(request.target), request.headers, request.body);
        let trusted = gateway.trust.trusts(client.address);
        if trusted {
            gateway.trust.resolve(&mut client, scope.headers());
        }
        scope.facts_mut().set_client(client);
        if let Some(traces) = &gateway.traces {
            let trace = traces.follow(&scope, trusted);
            scope.keep_trace(trace);
        } else if gateway.records {
            scope.keep_record();
        }
        if request.version == Version::HTTP_2
            && let Some(timeout) = grpc::timeout(scope.headers())
        {
            scope.set_timeout(Timeout::After(timeout));
        }
        scope.set_pace(request.pace);
        scope.set_passage(request.side_channel);
        let upgrade = request.upgrade;
        let mut scope = Unshared::new(scope);
        async move {
            // Before any check that could refuse the request: a certificate authority has no credentials, and may use
            // any address.
            if let Some(answer) = challenge {
                return response::challenge(answer).into();
            }
            if let Some(redirect) = redirect {
                return gateway.redirect(scope, &redirect);
            }
            let site = gateway.hosts.find(|| scope.host());
            // Both are rare: requests from another gateway, and requests about the server.
            if (scope.forwarded() || *scope.method() == Method::OPTIONS)
                && let Some(response) = answer_itself(&scope, site)
            {
                return Box::pin(gateway.leave(scope, response)).await;
            }
            let found = site.map(|site| site.find(&scope));
            match found.unwrap_or(Ok(FoundRoute::Nothing)) {
                Ok(FoundRoute::Endpoint(RouteTarget { endpoint, .. }, params))
                    if !another_answers(site, &scope, endpoint) =>
                {
                    endpoint.receive(&mut scope, params, upgrade);
                    endpoint.serve(scope).await
                }
                // Boxed: this case is rare, and its size would be added to every request's future.
                other => Box::pin(gateway.turn_away(scope, site, other)).await,
            }
        }
    }

    /// Sends an answer that the gateway made itself.
    async fn leave(&self, scope: Unshared<Scope>, response: Response<Body>) -> Reply {
        let (pass, refused) = LayerPass::enter(&self.unserved, scope).await;
        pass.leave(refused.unwrap_or(response)).await
    }

    /// Answers a request that no endpoint serves.
    async fn turn_away(
        &self,
        scope: Unshared<Scope>,
        site: Option<&HostRoutes>,
        found: Result<FoundRoute<'_, RouteTarget>, Error>,
    ) -> Reply {
        let unserved = site.map_or(&self.unserved, |site| &site.unserved);
        let asked = site.and_then(|site| site.asked_about(&scope, &found).or_else(|| site.purged(&scope)));
        let open = site.filter(|site| site.is_open(&scope, &found)).map(|_| Arc::new(unserved.without(&FOR_KNOWN)));
        let unserved = open.as_ref().unwrap_or(unserved);
        let other =
            site.filter(|_| matches!(found, Ok(FoundRoute::Nothing))).and_then(|site| site.other_version(&scope));
        let layers = asked.map_or(unserved, |endpoint| &endpoint.layers);
        let (pass, refused) = LayerPass::enter(layers, scope).await;
        let response = match (refused.or(other), found) {
            (Some(response), _) => response,
            (None, Ok(FoundRoute::Methods(methods))) => response::other_method(pass.scope().method(), &methods),
            (None, Ok(_)) if site.is_none() => response::other_host(),
            (None, Ok(_)) => response::not_found(),
            (None, Err(error)) => response::fail(&error),
        };
        pass.leave(response).await
    }

    /// Redirects a request to `https`. The request passes no layer on its way in, because layers could ask for
    /// credentials, and the client must not send those in clear text.
    fn redirect(&self, scope: Unshared<Scope>, redirect: &Redirect) -> Reply {
        let host = scope.headers().get(HOST).and_then(|host| host.to_str().ok());
        let target = redirect.location(host, scope.target());
        LayerPass::refuse(&self.unserved, scope, || response::redirect(target.as_deref()))
    }

    /// Answers a request that could not be read.
    pub fn refuse(&self, refusal: Refusal, origin: Option<HeaderValue>, connection: &Connection) -> Reply {
        let headers: HeaderMap = origin.map(|origin| (ORIGIN, origin)).into_iter().collect();
        let mut scope = Scope::new(Method::GET, None, headers, Body::empty());
        scope.facts_mut().set_client(connection.client(connection.version));
        LayerPass::refuse(&self.unserved, Unshared::new(scope), || response::refusal(&refusal))
    }
}

impl HostRoutes {
    /// The endpoint whose layers answer a preflight: the one that would serve the announced request (Fetch, 4.8).
    fn asked_about(&self, scope: &Scope, found: &Result<FoundRoute<'_, RouteTarget>, Error>) -> Option<&Arc<Endpoint>> {
        // A preflight does not say which version the announced request will ask for.
        let (&Method::OPTIONS, Ok(_)) = (scope.method(), found) else { return None };
        self.announced(scope)
    }

    /// Whether an `OPTIONS` is about a path that is open to everybody, so that no credentials are needed to ask about it.
    fn is_open(&self, scope: &Scope, found: &Result<FoundRoute<'_, RouteTarget>, Error>) -> bool {
        let (&Method::OPTIONS, Ok(FoundRoute::Methods(methods)), Some(path)) = (scope.method(), found, scope.path())
        else {
            return false;
        };
        methods.iter().any(|method| match self.routes.find(method, path, |_| true) {
            Ok(FoundRoute::Endpoint(slot, _)) => !slot.endpoint.layers.has(AUTHENTICATE),
            _ => false,
        })
    }

    /// The endpoint whose cached answers a `PURGE` is about, if purging is allowed there.
    fn purged(&self, scope: &Scope) -> Option<&Arc<Endpoint>> {
        if scope.method().as_str() != "PURGE" {
            return None;
        }
        match self.routes.find(&Method::GET, scope.path()?, |_| true) {
            Ok(FoundRoute::Endpoint(slot, _)) => {
                Some(&slot.endpoint).filter(|endpoint| endpoint.layers.answers_purges || self.unserved.answers_purges)
            }
            _ => None,
        }
    }

    /// The endpoint that would serve the request that a preflight announces.
    fn announced(&self, scope: &Scope) -> Option<&Arc<Endpoint>> {
        let announced = scope.headers().get(ACCESS_CONTROL_REQUEST_METHOD)?;
        let announced = Method::from_bytes(announced.as_bytes()).ok()?;
        // Any version will do: the layers are the same in all.
        match self.routes.find(&announced, scope.path()?, |_| true) {
            Ok(FoundRoute::Endpoint(slot, _)) => Some(&slot.endpoint),
            _ => None,
        }
    }

    /// Finds the endpoint for a request.
    fn find(&self, scope: &Scope) -> Result<FoundRoute<'_, RouteTarget>, Error> {
        let mut choice = Choice::default();
        self.routes.find(scope.method(), scope.path().unwrap_or_default(), |slot| slot.serves(&mut choice, scope))
    }

    /// The answer if the requested version does not exist, or does not have this endpoint.
    fn other_version(&self, scope: &Scope) -> Option<Response<Body>> {
        let (method, path) = (scope.method(), scope.path()?);
        let mut choice = Choice::default();
        let _ = self.routes.find(method, path, |slot| slot.serves(&mut choice, scope));
        if let Some((chooser, named)) = choice.made() {
            let all: Vec<&str> = chooser.names.iter().map(|name| &**name).collect();
            let mut response = match named {
                Named::Refused(status, detail) => response::other_version(*status, detail, &all),
                Named::Version(_) => {
                    let has = |index: &usize| {
                        let serves = |slot: &RouteTarget| slot.version.as_ref().is_some_and(|own| own.index == *index);
                        matches!(self.routes.find(method, path, serves), Ok(FoundRoute::Endpoint(..)))
                    };
                    let those: Vec<&str> = (0..all.len()).filter(has).map(|index| all[index]).collect();
                    response::other_version(StatusCode::NOT_FOUND, ELSEWHERE, &those)
                }
            };
            response.headers_mut().extend(chooser.vary().map(|vary| (VARY, vary)));
            return Some(response);
        }
        let chooser = self.apis.iter().find(|chooser| chooser.looks_versioned(path))?;
        let all: Vec<&str> = chooser.names.iter().map(|name| &**name).collect();
        if !chooser.names_one(path) {
            return Some(response::other_version(StatusCode::NOT_FOUND, "there is no such version", &all));
        }
        let has = |name: &&str| {
            let there = chooser.in_version(path, name);
            there.is_some_and(|path| matches!(self.routes.find(method, &path, |_| true), Ok(FoundRoute::Endpoint(..))))
        };
        let those: Vec<&str> = all.into_iter().filter(has).collect();
        (!those.is_empty()).then(|| response::other_version(StatusCode::NOT_FOUND, ELSEWHERE, &those))
    }
}

const ANY_PAGE: &str =
    "browsers send the credentials of their users with an upgrade from any page, and nothing here looks at the page";

const PAGES: &str = "write `cors: https://shop.example` with the origins of the pages that may, or `cors: off` if the upstream checks \
                     `origin`, which it always gets";

/// The layer that says who a client is.
const AUTHENTICATE: &str = "authenticate";

/// The layers that need to know who a client is.
const FOR_KNOWN: [&str; 4] = [AUTHENTICATE, "consumer_limit", "quota", "allow"];

/// Sent to clients that ask for an endpoint in the wrong version.
const ELSEWHERE: &str = "this version has no such endpoint; others have";

/// Compiles the changes that turn requests of an older version into those of the newest; `None` if there are no
/// changes.
fn adapting(
    placed: &Placed<'_>,
    route: &Route,
    max_body: usize,
    problems: &mut Problems,
) -> Option<Option<Arc<Adapting>>> {
    let (params, rest) = (route.params.as_slice(), route.rest.as_deref());
    let known = Known { route: KnownRoute { params, rest, ..KnownRoute::default() }, ..Known::default() };
    let mut cx = Compile::new(known, placed.written.span, problems);
    let mut changes = Vec::new();
    let mut sound = Some(());
    for request in placed.adapts.iter().filter_map(|adapt| adapt.request.as_ref()) {
        match request.compile(route.method.as_ref(), &mut cx) {
            Some(change) => changes.push(change),
            None => sound = None,
        }
    }
    sound.map(|()| (!changes.is_empty()).then(|| Arc::new(Adapting { changes, max_body })))
}

/// Whether this is a preflight for another endpoint than the one that serves `OPTIONS`.
fn another_answers(site: Option<&HostRoutes>, scope: &Scope, serves: &Arc<Endpoint>) -> bool {
    *scope.method() == Method::OPTIONS
        && scope.headers().contains_key(ORIGIN)
        && site
            .and_then(|site| site.announced(scope))
            .is_some_and(|asked| asked.layers.answers_preflights && !Arc::ptr_eq(asked, serves))
}

/// The layers and hosts that the endpoints of one group share.
struct GroupContext<'a> {
    services: &'a CompileServices<'a>,
    layers: Shared,
    hosts: Vec<HostPattern>,
    /// The layers around requests for these hosts that no endpoint serves.
    unserved: Arc<Stack>,
    /// Whether clients are authenticated where an endpoint says nothing else.
    authenticates: bool,
    /// Where settings are written that apply to the endpoints, from the outside in.
    places: Vec<PlaceOfLayers<'a>>,
}

impl GroupContext<'_> {
    /// The host patterns; a single `None` if the group has no hosts and serves all others.
    fn patterns(&self) -> impl Iterator<Item = Option<&HostPattern>> {
        self.hosts.iter().map(Some).chain(self.hosts.is_empty().then_some(None))
    }

    /// The name of an endpoint: as written, with its first host and its version.
    fn name(&self, placed: &Placed<'_>, route: &Route) -> Arc<str> {
        let host = self.hosts.first().map(HostPattern::to_string).unwrap_or_default();
        let version = placed.versioned.as_ref().filter(|own| !own.by_path);
        let version = version.map(|own| format!(" {}", own.version.name)).unwrap_or_default();
        if !route.readable || host.is_empty() && placed.prefix.is_empty() {
            return format!("{}{version}", placed.written).into();
        }
        format!("{}{version}", route.name(&format!("{host}{}", route.path))).into()
    }
}

impl Endpoint {
    /// Makes a request one of this endpoint. `upgrade`: the client asks for another protocol.
    fn receive(&self, scope: &mut Scope, params: Params, upgrade: bool) {
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
    async fn serve(&self, scope: Unshared<Scope>) -> Reply {
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
            describe(response.status(), response.headers_mut(), Made::Alone, dependence, Moment::now());
        }
        if self.stream == StreamSpec::On {
            response.extensions_mut().insert(NoMinimumRate);
        }
        pass.leave(response).await
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
    async fn run(&self, scope: &Arc<Scope>) -> Response<Body> {
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

/// Answers requests that go no further: those about the server itself (RFC 9110, 9.3.7), those whose `Max-Forwards` has
/// run out, and those that have come back to this gateway in a loop.
fn answer_itself(scope: &Scope, site: Option<&HostRoutes>) -> Option<Response<Body>> {
    let asks = *scope.method() == Method::OPTIONS;
    if asks && scope.path() == Some("*") {
        return Some(response::options(&METHODS));
    }
    if asks && scope.forwarded() && loop_detection::forwards(scope.headers()) == Forwards::AtMost(0) {
        let (site, path) = (site?, scope.path()?);
        let serves = |method: &&str| {
            let method = Method::from_bytes(method.as_bytes());
            method.is_ok_and(|method| matches!(site.routes.find(&method, path, |_| true), Ok(FoundRoute::Endpoint(..))))
        };
        let has: Vec<&str> = METHODS.iter().copied().filter(serves).collect();
        return (!has.is_empty()).then(|| response::options(&has));
    }
    if !scope.forwarded() {
        return None;
    }
    loop_detection::check(scope.headers()).err().map(|error| response::fail(&error))
}

/// The trusted proxies.
fn trusted(document: &Document) -> Trust {
    let of = |clients: &Clients| Trust { networks: clients.trust.clone(), field: clients.field.clone() };
    document.clients.as_ref().map(of).unwrap_or_default()
}

/// Checks the listeners of a document.
fn listening(document: &Document, files: Files<'_>, problems: &mut Problems) -> Option<Vec<Listening>> {
    let listening = document.listen.compile(&trusted(document), files, problems);
    let Some(spec) = &document.admin else { return listening };
    let written = &spec.address;
    let admin = address::read(written, problems)?;
    let sound = spec.check(&admin, problems);
    let listening = listening?;
    sound?;
    if let Address::Unix(path) = &admin {
        check_folder(path, written, problems);
    }
    if !listening.iter().any(|listener| listener.address.clashes(&admin)) {
        return Some(listening);
    }
    let remedy = match admin.port() {
        Some(9090) => "give it a port of its own, as in `127.0.0.1:9091`",
        Some(_) => "give it a port of its own, as in `127.0.0.1:9090`",
        None => "give it a socket of its own",
    };
    problems.error(written.span, "`admin` and `listen` have the same address", remedy)
}
