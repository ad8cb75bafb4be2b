//! Compiles a document into a gateway. Requests are served in `serve`.

pub(crate) mod choices;
pub(crate) mod config_status;
pub mod current_gateway;
pub(crate) mod detach;
pub mod document;
pub(crate) mod endpoint;
pub(crate) mod health_checks;
mod host_routes;
pub(crate) mod layer_origins;
pub(crate) mod locked_settings;
pub(crate) mod self_call_check;
mod serve;
pub(crate) mod upstream_check;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crocodile_pear::unstable::cache;
use crocodile_pear::unstable::config::carried_state::{Carry, MarkedFiles};
use crocodile_pear::unstable::config::files::Files;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Located, Node};
use crocodile_pear::unstable::database::Database;
use crocodile_pear::unstable::pipeline::plan::{Plan, often_has_body};
use crocodile_pear::unstable::pipeline::step::{
    ByName, Compile, Known, KnownRoute, PublicTable, PublicWay, StreamSpec,
};
use crocodile_pear::unstable::pipeline::steps::Written;
use crocodile_pear::unstable::upstream::{ReadyUpstream, Resolver, UpstreamEnvironment, UpstreamSpec};
use http::Method;
use indexmap::IndexMap;

use crate::gateway::detach::Detaching;
use crate::gateway::document::{Clients, Document, EndpointSpec, GroupSpec, Placed, Unread, UnreadBodySpec, plain};
pub use crate::gateway::endpoint::Endpoint;
use crate::gateway::endpoint::EndpointKind;
use crate::gateway::host_routes::{HostRoutes, RouteTarget};
use crate::gateway::layer_origins::{PlaceOfLayers, origins};
use crate::http::route::{HostPattern, Hosts, Route, Routes};
use crate::http::version::Adapting;
use crate::layer::stack::Stack;
use crate::layer::{self, CompileServices, LayerPosition, PathParams, PathResolver};
use crate::layers::Shared;
use crate::listeners::spec::{CompiledListener, check_folder};
use crate::net::address::{self, Address};
use crate::net::trusted_proxies::TrustedProxies;
use crate::runtime::tasks::{Work, Worked};
use crate::shared::events::{self, EventSource};
use crate::shared::persistent_state::PersistentState;
use crate::shared::redis_tier::{self, Store};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces::Traces;

/// Everything that serves requests. Immutable: a reload makes a new one.
pub struct Gateway {
    hosts: Hosts<HostRoutes>,
    endpoints: Vec<Arc<Endpoint>>,
    /// The layers around requests that no endpoint serves.
    unserved: Arc<Stack>,
    listening: Vec<CompiledListener>,
    trust: TrustedProxies,
    /// Whether any layer, log or page needs a record of each request.
    records: bool,
    traces: Option<Arc<Traces>>,
    /// By name, also those that lead to others.
    upstreams: Arc<IndexMap<String, Arc<ReadyUpstream>>>,
    /// The upstreams that have servers.
    called: IndexMap<String, Arc<ReadyUpstream>>,
    databases: IndexMap<String, Arc<Database>>,
    persistent: PersistentState,
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

/// The inputs of a compilation besides the document.
#[derive(Clone, Copy)]
pub struct CompileEnvironment<'a> {
    /// The parts of the configuration that could not be read and are therefore not in the document.
    pub unread: &'a Unread,
    /// Reads the files that the document names.
    pub files: Files<'a>,
    /// Gives the path of a file that the document names.
    pub paths: PathResolver<'a>,
    /// State that outlives a gateway. A reload continues with it.
    pub persistent: &'a PersistentState,
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
fn called(all: &IndexMap<String, Arc<ReadyUpstream>>) -> IndexMap<String, Arc<ReadyUpstream>> {
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
        let carry = Carry::over(&given.persistent.carried);
        let resolver = document.resolver.as_ref().map(|resolver| resolver.ready(&carry));
        let cache = Some(given.persistent.cache.clone());
        let beside =
            UpstreamEnvironment { files: given.files, resolver: resolver.clone(), cache, carry: carry.clone() };
        for (name, (span, spec)) in document.upstreams.iter().flatten().filter(|(_, (_, spec))| spec.choose.is_none()) {
            match UpstreamSpec::compile_marked(spec, name, *span, &beside, problems) {
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
        let store = document.store.as_ref().map(|store| store.compile(given.files, given.persistent, problems));
        sound &= !matches!(store, Some(None));
        let memory = redis_tier::memory(document.store.as_ref()).bytes();
        let store = store.flatten().flatten();
        let traces = document.traces.as_ref().map(|traces| {
            let reading = MarkedFiles::new(given.files);
            let files = |written: &_| reading.read(written);
            let beside = UpstreamEnvironment { files: &files, ..beside.clone() };
            let made = traces.compile(&beside, &given.persistent.spans, problems)?;
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
            ..CompileServices::new(given.files, given.paths, given.persistent)
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
            persistent: given.persistent.clone(),
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
            let context = GroupContext { services: &services, layers, hosts, unserved, authenticates, places };
            let (placed, whole) = gateway.place(name, group, &context, problems);
            sound &= whole.is_some();
            sound &= gateway.add_all(&placed, &context, broken, problems).is_some();
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
        context: &GroupContext<'_>,
        problems: &mut Problems,
    ) -> (Vec<Placed<'a>>, Option<()>) {
        let Some(versions) = &group.versions else { return (plain(&group.endpoints), Some(())) };
        let Some(api) = versions.compile(name, problems) else { return (plain(&group.endpoints), None) };
        if api.chooser.path().is_some() {
            for pattern in context.patterns() {
                self.site(pattern, &context.unserved).apis.push(api.chooser.clone());
            }
        }
        versions.place(&api, &group.endpoints, problems)
    }

    fn add_all(
        &mut self,
        placed: &[Placed<'_>],
        context: &GroupContext<'_>,
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
            let name = context.name(placed, known);
            let own = layers.entry(placed.spec).or_insert_with(|| {
                let mut cx = layer::Compile::at(&name, context.services, problems);
                cx.params = Some(PathParams { names: &known.params, rest: known.rest.as_deref() });
                cx.anonymous = !placed.spec.layers.authenticates().unwrap_or(context.authenticates);
                let own = context.layers.within(&placed.spec.layers, &mut cx);
                self.keep(cx.works);
                own
            });
            sound = self.add(placed, (route, name), own, context, broken, problems).and(sound);
        }
        sound
    }

    fn add(
        &mut self,
        placed: &Placed<'_>,
        (route, name): (Result<Route, Route>, Arc<str>),
        layers: &Shared,
        context: &GroupContext<'_>,
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
        let anonymous = !spec.layers.authenticates().unwrap_or(context.authenticates);
        let mut plan = self.plan(placed, (known, anonymous), broken, problems);
        if let Some(way) = plan.as_mut().and_then(Plan::take_way) {
            let hosts = context.hosts.iter().map(HostPattern::to_string).collect();
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
            origins: origins(&context.places, &spec.layers),
            named,
            dependence: (!dependence.is_nothing()).then(|| Box::new(dependence)),
        });
        if context.places.iter().any(|place| !place.placed) {
            return None;
        }
        for pattern in context.patterns() {
            let version = versioned.clone().filter(|versioned| !versioned.by_path);
            let slot = RouteTarget { endpoint: endpoint.clone(), version };
            let site = self.site(pattern, &context.unserved);
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
    pub fn listening(&self) -> &[CompiledListener] {
        &self.listening
    }

    /// The DNS resolver; `None` for the system's.
    pub fn resolver(&self) -> Option<&Resolver> {
        self.resolver.as_ref()
    }

    /// Host names without an address, each with its upstream and the reason.
    pub fn unresolved(&self) -> Vec<(String, Box<str>, Arc<str>)> {
        let of = |(name, upstream): (&String, &Arc<ReadyUpstream>)| {
            let name = name.clone();
            upstream.unresolved().into_iter().map(move |(host, why)| (name.clone(), host, why))
        };
        self.called.iter().flat_map(of).collect()
    }

    /// The upstreams that have servers, by name.
    #[allow(clippy::misnamed_getters, reason = "operators see those that have servers")]
    pub fn upstreams(&self) -> &IndexMap<String, Arc<ReadyUpstream>> {
        &self.called
    }

    /// All upstreams by name, also those that lead to others.
    pub fn named_upstreams(&self) -> &IndexMap<String, Arc<ReadyUpstream>> {
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

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.persistent.metrics
    }

    /// Waits until log lines and spans are written, for at most `most`.
    pub fn flush(&self, most: Duration) {
        self.persistent.journals.flush(most);
        self.traces.iter().for_each(|traces| traces.flush(most));
    }

    /// State that outlives this gateway.
    pub fn persistent(&self) -> &PersistentState {
        &self.persistent
    }

    pub fn cache(&self) -> &Arc<cache::Store> {
        &self.persistent.cache
    }

    /// Called when another gateway serves: gives up what that does not have too.
    pub fn end(&self, next: &Gateway) {
        for (name, database) in &self.databases {
            database.end(next.databases.get(name).map(|next| &**next));
        }
    }

    /// Called when this gateway begins to serve: applies its cache size.
    pub fn begin(&self) {
        self.persistent.journals.begin();
        self.traces.iter().for_each(|traces| traces.begin());
        self.databases.values().for_each(|database| database.begin());
        self.persistent.cache.resize(self.memory);
        self.persistent.cache.set_tier(self.store.as_ref().and_then(|store| store.state.tier()));
    }
}

const ANY_PAGE: &str =
    "browsers send the credentials of their users with an upgrade from any page, and nothing here looks at the page";

const PAGES: &str = "write `cors: https://shop.example` with the origins of the pages that may, or `cors: off` if the upstream checks \
                     `origin`, which it always gets";

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

fn trusted(document: &Document) -> TrustedProxies {
    let of = |clients: &Clients| TrustedProxies { networks: clients.trust.clone(), field: clients.field.clone() };
    document.clients.as_ref().map(of).unwrap_or_default()
}

/// Checks the listeners of a document.
fn listening(document: &Document, files: Files<'_>, problems: &mut Problems) -> Option<Vec<CompiledListener>> {
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
