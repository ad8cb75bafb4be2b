//! An upstream, ready: what steps call, and what operators see of it.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::authenticated_caller::{AuthenticatedCall, Caller};
use super::cache_facts;
use super::cached::{self, UpstreamCache};
use super::call::buffer;
use super::call::composed_part::NotedCall;
use super::call::fields::CallFields;
use super::call::forward::{Forward, Likeness, PREFIX, Trailing};
use super::call::noting::ForCaches;
use super::call::public::PublicSpec;
use super::call::rewrite::RewriteSpec;
use super::call::timeouts::Timeouts;
use super::call::timing::CallEnd;
use super::call::{TargetRoot, UpstreamCall};
use super::check;
use super::connect::counters::{ConnectionEvent, CounterSnapshot};
use super::credentials::ClientCredentials;
use super::health::HealthSpec;
use super::program::{Callee, Interceptor};
use super::servers::affinity;
use super::servers::choice::{self, Choice};
use super::servers::mirror::{Mirror, MirrorSpec};
use super::servers::server::{PublicOrigin, Server};
use super::servers::settings::UpstreamSettings;
use super::servers::srv::FoundServers;
use super::servers::state::ServerState;
use super::types::Types;
use crate::cache::Dependence;
use crate::error::{Error, Kind};
use crate::jq::{Filter, Read};
use crate::message::answer::Answer;
use crate::net::protocol::Protocol;
use crate::request::context::Scope;
use crate::telemetry::histogram::Snapshot;

/// Starts a call, whose body is as it will be sent.
#[inline]
fn start(caller: &Caller, cached: Option<&Arc<UpstreamCache>>, mut call: Box<UpstreamCall>) -> AuthenticatedCall {
    match std::mem::take(&mut call.keeping) {
        ForCaches::Kept(keeping) => cached::start(cached.cloned(), caller.clone(), call, keeping),
        ForCaches::Nothing | ForCaches::Part(_) => caller.start(call),
    }
}

/// A configured upstream, ready to be called from any core.
pub struct ReadyUpstream {
    pub(super) caller: Caller,
    pub(super) forward: Arc<Forward>,
    rewrite: RewriteSpec,
    health: Option<Arc<HealthSpec>>,
    buffer: Option<usize>,
    cached: Option<Arc<UpstreamCache>>,
    protocol: Protocol,
    outline: Vec<String>,
    choice: Option<Box<Choice<Arc<ReadyUpstream>>>>,
    affinity: Option<AffinityRule>,
    links: Option<Arc<PublicSpec>>,
    /// Its further addresses, as its own documents write them.
    origins: Arc<[PublicOrigin]>,
    types: Types,
    /// Whether its connections show a client certificate.
    shows_certificate: bool,
    mirror: OnceLock<Mirror<ReadyUpstream>>,
    /// The parts of a request on which the answers to its calls depend.
    own_dependence: OnceLock<Dependence>,
    /// Whether a part of the configuration names it.
    named: AtomicBool,
    /// The interceptor that a program puts around its calls.
    interceptor: Option<Arc<dyn Interceptor>>,
}

/// The rule that chooses the server of a call, if by its client.
pub(super) enum AffinityRule {
    Key(Filter),
    Cookie(Box<[u8]>),
}

/// The wrappers around the calls of an upstream.
#[derive(Default)]
pub(super) struct CallWrappers {
    /// How they authenticate.
    pub(super) credentials: Option<Arc<ClientCredentials>>,
    /// Where their answers are kept.
    pub(super) cached: Option<Arc<UpstreamCache>>,
    /// The rule that chooses their servers.
    pub(super) affinity: Option<AffinityRule>,
    /// How resources that its documents name are fetched.
    pub(super) types: Types,
}

impl ReadyUpstream {
    /// # Errors
    /// `Internal`, saying what is wrong with the URL.
    pub fn new(settings: UpstreamSettings) -> Result<Arc<Self>, Error> {
        Self::within(settings, CallWrappers::default())
    }

    /// # Errors
    /// The errors of [`ReadyUpstream::new`].
    pub(super) fn within(settings: UpstreamSettings, around: CallWrappers) -> Result<Arc<Self>, Error> {
        let CallWrappers { credentials, cached, affinity, types } = around;
        let mut outline = settings.outline();
        outline.extend(cached.as_ref().map(|cached| cached.outline().to_owned()));
        let token = || "calls carry an access token (OAuth 2.0 client credentials)".to_owned();
        outline.extend(credentials.as_ref().map(|_| token()));
        Ok(Arc::new(ReadyUpstream {
            shows_certificate: settings.tls.certificate.is_some(),
            caller: Caller::new(&settings, credentials)?,
            protocol: settings.protocol,
            interceptor: settings.program.as_ref().and_then(|program| program.interceptor.clone()),
            forward: settings.forward,
            rewrite: settings.rewrite,
            links: settings.links,
            origins: settings.origins.iter().filter_map(PublicOrigin::from_url).collect(),
            health: settings.health.map(Arc::new),
            buffer: settings.buffer,
            cached,
            outline,
            choice: None,
            affinity,
            types,
            mirror: OnceLock::new(),
            own_dependence: OnceLock::new(),
            named: AtomicBool::new(false),
        }))
    }

    /// An upstream that leads to others.
    pub(super) fn of_choice(choice: Choice<Arc<ReadyUpstream>>, outline: Vec<String>) -> Option<Arc<Self>> {
        let first = choice.targets().next()?.clone();
        Some(Arc::new(ReadyUpstream {
            caller: first.caller.clone(),
            protocol: first.protocol,
            forward: first.forward.clone(),
            rewrite: first.rewrite,
            links: None,
            origins: Arc::default(),
            health: None,
            buffer: first.buffer,
            cached: None,
            outline,
            choice: Some(Box::new(choice)),
            affinity: None,
            types: Types::default(),
            shows_certificate: first.shows_certificate,
            mirror: OnceLock::new(),
            own_dependence: OnceLock::new(),
            named: AtomicBool::new(false),
            interceptor: None,
        }))
    }

    /// Copies its calls from now on, too.
    pub fn set_mirror(&self, spec: &MirrorSpec, to: &Arc<ReadyUpstream>) {
        let _ = self.mirror.set(Mirror::new(spec, to, to.timeouts()));
    }

    /// How resources that its documents only name are fetched.
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// Whether it has no servers of its own, but leads to other upstreams.
    pub fn is_choice(&self) -> bool {
        self.choice.is_some()
    }

    /// The upstream that a request goes to: itself, unless it is a choice.
    ///
    /// # Errors
    /// `Missing` if no rule fits, `BadRequest` if an expression fails.
    #[inline]
    pub fn chosen<'a>(self: &'a Arc<Self>, scope: &Scope) -> Result<&'a Arc<Self>, Error> {
        let mut upstream = self;
        while let Some(choice) = &upstream.choice {
            upstream = choice.choose(scope)?;
        }
        Ok(upstream)
    }

    /// Which calls are copied, and where to.
    #[inline]
    pub(super) fn mirror(&self) -> Option<&Mirror<ReadyUpstream>> {
        self.mirror.get()
    }

    /// Counts what did not become a call.
    pub(super) fn count(&self, event: ConnectionEvent) {
        self.caller.shared.counters.count(event);
    }

    /// The hash that chooses the server of a call, if it is chosen by the client.
    ///
    /// # Errors
    /// `BadRequest` if the expression fails.
    #[inline]
    pub(crate) fn affinity(&self, scope: &Scope) -> Result<Option<u64>, Error> {
        match &self.affinity {
            None => Ok(None),
            Some(AffinityRule::Key(filter)) => Ok(choice::hash_of(&choice::value(filter, scope)?)),
            Some(AffinityRule::Cookie(name)) => {
                let mut own = scope.cookies().filter(|(known, _)| **known == **name);
                Ok(own.find_map(|(_, value)| affinity::read_mark(value)))
            }
        }
    }

    /// The URLs of its servers, and that of their service.
    pub(super) fn find_face<T>(&self, mut found: impl FnMut(&PublicOrigin) -> Option<T>) -> Option<T> {
        self.find_any_face(&mut found)
    }

    fn find_any_face<T>(&self, found: &mut dyn FnMut(&PublicOrigin) -> Option<T>) -> Option<T> {
        if let Some(choice) = &self.choice {
            return choice.targets().find_map(|upstream| upstream.find_any_face(found));
        }
        let own = self.caller.service().map(|service| &service.face);
        let now = self.caller.now();
        let list = now.iter().flat_map(|servers| servers.list.iter()).map(|server| &server.face);
        own.into_iter().chain(list).find_map(found)
    }

    /// Its further addresses, of `origins`.
    pub(super) fn find_origin<T>(&self, mut found: impl FnMut(&PublicOrigin) -> Option<T>) -> Option<T> {
        self.find_any_origin(&mut found)
    }

    fn find_any_origin<T>(&self, found: &mut dyn FnMut(&PublicOrigin) -> Option<T>) -> Option<T> {
        match &self.choice {
            Some(choice) => choice.targets().find_map(|upstream| upstream.find_any_origin(found)),
            None => self.origins.iter().find_map(found),
        }
    }

    fn each_server<T>(&self, made: impl FnMut(&Server) -> T) -> Vec<T> {
        let now = self.caller.now();
        now.iter().flat_map(|servers| servers.list.iter()).map(|server| &**server).map(made).collect()
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        self.choice.as_ref().map_or(&self.caller.shared.name, |choice| &choice.name)
    }

    /// The client's header fields that a call sends, and those that every call has.
    ///
    /// # Errors
    /// `BadRequest` if a value that uses the client's request is not valid in a header.
    pub fn fields(&self, scope: &Scope, likeness: Likeness) -> Result<CallFields, Error> {
        let noting = cache_facts::noting(self.cached.as_deref(), self.forward.sent_fields(), scope);
        self.forward.fields(scope, likeness, noting)
    }

    /// Whether its calls say something of the gateway or of its client, which a call for a link of another upstream may not.
    pub fn presents(&self, scope: &Scope) -> bool {
        self.caller.credentials.is_some()
            || self.shows_certificate
            || self.forward.adds()
            || !scope.facts().granted().is_empty()
    }

    /// The header fields of a call that says nothing of them.
    ///
    /// # Errors
    /// `Unusable` if its connections show a client certificate.
    pub fn anonymous_fields(&self, scope: &Scope) -> Result<CallFields, Error> {
        if self.shows_certificate {
            let detail = "a link in the answer leads to an upstream that `follow` does not name with `to`";
            return Err(Error::new(Kind::Unusable, detail));
        }
        let noting = cache_facts::noting(self.cached.as_deref(), Some(&[]), scope);
        let mut fields = CallFields::of_client(HeaderMap::new(), noting);
        fields.present_nothing();
        if scope.forwarded() {
            fields.hand_on_way(scope.headers());
        }
        Ok(fields)
    }

    /// The names of the upstreams that calls to it may go to: its own, unless it is a choice.
    pub fn names(&self) -> Vec<Arc<str>> {
        match &self.choice {
            Some(choice) => choice.targets().flat_map(|upstream| upstream.names()).collect(),
            None => vec![self.name().clone()],
        }
    }

    /// Which trailers follow the client's body. The configuration sets the fields in `set`, so no trailer has their names.
    pub fn trailing<'a>(&self, scope: &Scope, set: impl Iterator<Item = &'a HeaderName>) -> Trailing {
        Trailing::of(&self.forward, scope, set)
    }

    /// Whether header fields of its answers that point into it point to the gateway instead, unless a call says otherwise.
    pub fn rewrite(&self) -> RewriteSpec {
        self.rewrite
    }

    /// The client's host, where its calls keep it.
    pub fn host(&self, scope: &Scope) -> Option<HeaderValue> {
        self.forward.host(scope)
    }

    /// How long each phase of a call may take.
    pub fn timeouts(&self) -> &Timeouts {
        &self.caller.shared.timeouts
    }

    /// The whole URL of a call's target.
    pub fn url(&self, target: &str) -> String {
        let PublicOrigin { origin, authority, base } = self.caller.face();
        [origin.scheme(), "://", authority, base, target].concat()
    }

    /// The whole URL of a target at the root of its server.
    pub(super) fn root_url(&self, target: &str) -> String {
        let PublicOrigin { origin, authority, .. } = self.caller.face();
        [origin.scheme(), "://", authority, target].concat()
    }

    /// The path of its URL, which stands before those of all calls.
    pub(crate) fn base(&self) -> &str {
        &self.caller.face().base
    }

    /// Adds the part of the client's path that calls leave out, where they say so.
    pub fn tell_prefix(&self, prefix: &str, fields: &mut CallFields) {
        if self.forward.tells_prefix() {
            fields.write(&PREFIX, HeaderValue::from_str(prefix).ok());
        }
    }

    /// Whether calls say which part of the client's path they leave out.
    pub(crate) fn tells_prefix(&self) -> bool {
        match &self.choice {
            Some(choice) => choice.targets().any(|upstream| upstream.tells_prefix()),
            None => self.forward.tells_prefix(),
        }
    }

    /// How links in bodies are mapped that lead into it, if they are.
    pub fn links(&self) -> Option<&Arc<PublicSpec>> {
        match &self.choice {
            Some(choice) => choice.targets().find_map(|upstream| upstream.links()),
            None => self.links.as_ref(),
        }
    }

    /// Whether its connections may change their protocol: HTTP/2 has no `Upgrade`.
    pub fn takes_upgrades(&self) -> bool {
        match &self.choice {
            Some(choice) => choice.targets().all(|upstream| upstream.takes_upgrades()),
            None => self.protocol != Protocol::Http2,
        }
    }

    /// The counters, summed over all threads.
    pub fn counters(&self) -> CounterSnapshot {
        self.caller.shared.counters.snapshot()
    }

    /// Retries, and retries that the exhausted budget prevented.
    pub fn retries(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.caller.shared.retry.as_ref().map_or((0, 0), |retry| (load(&retry.sent), load(&retry.withheld)))
    }

    pub fn servers(&self) -> impl Iterator<Item = ServerState> {
        self.each_server(ServerState::from_server).into_iter()
    }

    /// The host names of its servers that have no address, each with the reason. Names that nobody has called yet begin
    /// to be looked up.
    pub fn unresolved(&self) -> Vec<(Box<str>, Arc<str>)> {
        let service = self.caller.service().and_then(FoundServers::unknown);
        let service = service.map(|(name, why)| (name.into(), why));
        let names = self.each_server(|server| {
            let name = server.pool.connector.name()?;
            Some((name.text().into(), name.why_unknown()?))
        });
        service.into_iter().chain(names.into_iter().flatten()).collect()
    }

    /// How long the calls to each server took, by how they ended; nothing, for the ends that are counted together.
    pub fn times(&self) -> impl Iterator<Item = (Arc<str>, Option<CallEnd>, Snapshot)> {
        let times = self.each_server(|server| {
            let own = server.figures.times.snapshots();
            own.map(|(end, times)| (server.address.clone(), end, times)).collect::<Vec<_>>()
        });
        times.into_iter().flatten()
    }

    /// Failed lookups of the DNS service whose servers it has, and changes of its records.
    pub fn service_lookups(&self) -> (u64, u64) {
        self.caller.service().map_or((0, 0), FoundServers::figures)
    }

    /// How long calls waited in the queue, or until a connection was open; without those that did not wait.
    pub fn waits(&self) -> Snapshot {
        self.caller.shared.waits.snapshot()
    }

    /// The lines that `explain` prints about its calls; empty for an upstream without options.
    pub fn outline(&self) -> Vec<String> {
        self.outline.iter().cloned().chain(self.mirror.get().map(Mirror::outline)).collect()
    }

    /// The facts that caches must know of a call with these header fields, now that all are set.
    ///
    /// # Errors
    /// `BadRequest` where the expression of a key fails.
    pub fn keep(&self, scope: &Scope, fields: &mut CallFields) -> Result<ForCaches, Error> {
        let noting = fields.take_noting();
        cache_facts::noted(self.cached.as_deref(), noting, scope, fields)
    }

    /// A part of the configuration names it.
    pub fn name_it(&self) {
        self.named.store(true, Ordering::Relaxed);
    }

    /// Whether a part of the configuration names it.
    pub fn is_named(&self) -> bool {
        self.named.load(Ordering::Relaxed)
    }

    /// The variables that the header fields of its calls use.
    pub fn uses(&self) -> Box<dyn Iterator<Item = &String> + '_> {
        match &self.choice {
            Some(choice) => Box::new(choice.uses().chain(choice.targets().flat_map(|upstream| upstream.uses()))),
            None => Box::new(self.forward.uses()),
        }
    }

    /// Whether its answers are kept.
    pub fn keeps(&self) -> bool {
        match &self.choice {
            Some(choice) => choice.targets().any(|upstream| upstream.keeps()),
            None => self.cached.is_some(),
        }
    }

    /// The client's header fields that its calls send as they came; `None` for all.
    pub fn sent_fields(&self) -> Option<Vec<HeaderName>> {
        match &self.choice {
            Some(choice) => {
                let all = choice.targets().map(|upstream| upstream.sent_fields());
                all.collect::<Option<Vec<_>>>().map(|all| all.concat())
            }
            None => self.forward.sent_fields().map(<[HeaderName]>::to_vec),
        }
    }

    /// The same, put together once.
    pub fn own_dependence(&self) -> &Dependence {
        self.own_dependence.get_or_init(|| self.dependence())
    }

    /// The parts of a request on which the answers to its calls depend.
    pub fn dependence(&self) -> Dependence {
        let mut dependence = self.kept_dependence();
        dependence.add_reads(self.reads());
        dependence.send(self.sent_fields().as_deref());
        dependence
    }

    /// The parts of a request on which the answers of its cache depend.
    pub fn kept_dependence(&self) -> Dependence {
        let mut all = Dependence::default();
        match &self.choice {
            Some(choice) => choice.targets().for_each(|upstream| all.add(&upstream.kept_dependence())),
            None => self.cached.iter().for_each(|cached| all.add(&cached.dependence())),
        }
        all
    }

    /// The parts of variables that they read.
    pub fn reads(&self) -> Box<dyn Iterator<Item = &Read> + '_> {
        match &self.choice {
            Some(choice) => Box::new(choice.reads().chain(choice.targets().flat_map(|upstream| upstream.reads()))),
            None => Box::new(self.forward.reads()),
        }
    }

    /// The parts of `$client` that its calls send in fields whose names do not show it.
    pub(crate) fn hidden_reads(&self) -> Box<dyn Iterator<Item = &Read> + '_> {
        match &self.choice {
            Some(choice) => Box::new(choice.targets().flat_map(|upstream| upstream.hidden_reads())),
            None => Box::new(self.forward.hidden_reads()),
        }
    }

    /// Makes the call; the answer's body is pulled from the connection.
    ///
    /// # Errors
    /// `BadRequest`, `Unreachable`, `Reset`, `Cut`, `Malformed`, `Timeout` or `Busy`, naming the upstream; the same from
    /// the answer's body.
    pub fn call(
        self: &Arc<Self>,
        call: UpstreamCall,
    ) -> impl Future<Output = Result<Answer, Error>> + Send + 'static + use<> {
        self.send(Box::new(call))
    }

    /// The same for one that is boxed.
    pub(crate) fn send(
        self: &Arc<Self>,
        call: Box<UpstreamCall>,
    ) -> impl Future<Output = Result<Answer, Error>> + Send + 'static + use<> {
        let mut call = call;
        // A cache notes parts itself.
        let part = call.keeping.take_part();
        let started = match self.interceptor.as_ref().filter(|interceptor| interceptor.is_needed()) {
            Some(interceptor) => AuthenticatedCall::Boxed(interceptor.clone().call(self.clone(), call)),
            None => self.start(call),
        };
        // No future around it, which would have the call twice.
        NotedCall { call: started.finish(), part }
    }

    #[inline]
    fn start(&self, call: Box<UpstreamCall>) -> AuthenticatedCall {
        // Outside all the rest: what is kept needs no server, and no retry is a second request for it.
        match self.buffer.filter(|_| buffer::applies(&call)) {
            None => start(&self.caller, self.cached.as_ref(), call),
            Some(bound) => {
                let (caller, cached) = (self.caller.clone(), self.cached.clone());
                AuthenticatedCall::Boxed(Box::pin(async move {
                    let call =
                        buffer::measure(call, bound).await.map_err(|error| error.of_upstream(&caller.shared.name))?;
                    start(&caller, cached.as_ref(), call).finish().await
                }))
            }
        }
    }

    /// Checks the servers for as long as it is polled; `None` without `health`. Poll it on a thread that serves no requests:
    /// its connections are used by checks alone.
    pub fn watch(self: &Arc<Self>) -> Option<impl Future<Output = ()> + Send + 'static> {
        Some(check::watch(self.caller.clone(), self.health.clone()?))
    }
}

impl Callee for ReadyUpstream {
    fn url(&self, call: &UpstreamCall) -> String {
        let PublicOrigin { origin, authority, base } = self.caller.face();
        let base: &str = if call.root == TargetRoot::Upstream { base } else { "" };
        [origin.scheme(), "://", authority, base, &call.target].concat()
    }

    fn dispatch(self: Arc<Self>, call: Box<UpstreamCall>) -> BoxFuture<'static, Result<Answer, Error>> {
        Box::pin(self.start(call).finish())
    }
}
