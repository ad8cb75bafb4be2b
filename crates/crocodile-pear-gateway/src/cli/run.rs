//! `run`: the gateway itself.

use std::collections::HashSet;
use std::fmt;
use std::io::{IsTerminal, stderr};
use std::os::fd::{AsFd, AsRawFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::Located;
use crocodile_pear::unstable::runtime::{descriptors, detached};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::file::ConfigFile;
use crate::acme::Renewals;
use crate::admin;
use crate::gateway::Gateway;
use crate::gateway::current_gateway::{CoreHandler, Live};
use crate::gateway::document::{Clients, Document, TrailersSpec};
use crate::listeners::admin_spec::AdminSpec;
use crate::listeners::certificate_watch::{self, Certificates};
use crate::listeners::spec::CompiledListener;
use crate::net::address::{self, Address};
use crate::observe::log::{self, LogFormat};
use crate::runtime::threads::{event_loop, start, survives};
use crate::runtime::{helper_threads, memory_limit};
use crate::server::{self, Handover, Listeners, Settings, Shutdown};
use crate::shared::redis_tier;
use crate::telemetry::metrics::CutOff;

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    file: ConfigFile,
}

impl Run {
    pub fn execute(self) -> ExitCode {
        keep_secrets();
        super::reap::begin();
        let handover = match Handover::receive() {
            Ok(handover) => handover,
            Err(error) => {
                eprintln!(
                    "error: cannot take over from the other process: {error}; \
                     unset CROCODILE_PEAR_PREDECESSOR, which a gateway sets for its successor alone"
                );
                return ExitCode::from(1);
            }
        };
        let loaded = self.file.load();
        let warnings = loaded.lines();
        let settings = loaded.log.clone();
        let as_json = settings.as_ref().is_some_and(|log| log.format == LogFormat::Json);
        if !as_json {
            loaded.tell();
        }
        // Before anything runs that may have something to say: health checks begin with the gateway.
        let _flush = log::begin(settings.as_ref());
        tracing::info!("crocodile-pear {}, configuration {}", env!("CARGO_PKG_VERSION"), self.file.file.display());
        if as_json {
            loaded.log();
        }
        let Some((document, gateway, sources)) = loaded.parts() else { return ExitCode::from(1) };
        let live = Arc::new(Live::new(gateway));
        live.configured().accept(warnings);
        let (serving, served) = watch::channel(false);
        let renewals = Renewals::new(&live.current(), &sources, served);
        let certificates = Certificates::new(live.current().listening(), sources);
        let facts = Facts::of(document);
        let settings = facts.settings.clone();
        let reload = Reload { file: self.file, live: live.clone(), facts, certificates, renewals, old: Vec::new() };
        // Before anybody knows that it serves: a SIGHUP that nothing waits for ends the process.
        reload.begin();
        serve(&settings, &live, handover, |_, _| _ = serving.send(true))
    }
}

/// A core file would hold keys, tokens and requests of clients. The hard limit stays: `prlimit --core=unlimited --pid PID` allows
/// core files of a running gateway.
fn keep_secrets() {
    let limit = getrlimit(Resource::Core);
    // Where that is not allowed, the system decides as before.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), ..limit });
}

/// Raises the soft limit of file descriptors to the hard one; answers how many there are for clients and their calls. The soft
/// limit is low for programs that use `select`, and this is none.
fn raise_descriptors() -> Option<usize> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Without a hard limit, the system has one of its own, and may refuse to go beyond.
    let usual = Rlimit { current: Some(UNLIMITED), ..limit };
    let _ = setrlimit(Resource::Nofile, if limit.maximum.is_some() { raised } else { usual });
    let all = descriptors::set_limit(getrlimit(Resource::Nofile).current?);
    // The number of a new one is how many are open.
    let open = stderr().as_fd().try_clone_to_owned().map_or(0, |new| new.as_raw_fd());
    Some(all.saturating_sub(usize::try_from(open).unwrap_or_default()))
}

/// The descriptors that each core opens for itself, and those of the rest of the process.
const OF_CORE: usize = 8;
const OF_PROCESS: usize = 16;

/// The descriptors that Linux allows a process by default (`fs.nr_open`).
const UNLIMITED: u64 = 1 << 20;

/// Serves until it is told to stop. `started` learns where clients connect, once they can, and where operators do.
pub fn serve(
    document: &Document,
    live: &Arc<Live>,
    handover: Arc<Handover>,
    started: impl FnOnce(&Address, Option<&Address>),
) -> ExitCode {
    match try_serve(document, live, handover, started) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::flush();
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

type BoxError = Box<dyn std::error::Error>;

fn try_serve(
    document: &Document,
    live: &Arc<Live>,
    handover: Arc<Handover>,
    started: impl FnOnce(&Address, Option<&Address>),
) -> Result<(), BoxError> {
    let cores = document.threads.or(thread::available_parallelism().ok()).map_or(1, usize::from);
    let descriptors = raise_descriptors().map(|all| all.saturating_sub(OF_CORE * cores + OF_PROCESS));
    let mut listeners = Listeners::new(cores, "listen", &handover);
    let mut bound = Vec::new();
    for CompiledListener { address, mode, settings, .. } in live.current().listening() {
        bound.push((listeners.add(address, *mode, settings.clone())?, settings.clone()));
    }
    let secured = bound.iter().find(|(_, settings)| settings.tls.is_some()).and_then(|(address, _)| address.port());
    if let Some(port) = secured {
        bound.iter().filter_map(|(_, settings)| settings.redirect.as_ref()).for_each(|redirect| redirect.settle(port));
    }
    live.current().metrics().set_listeners(bound.clone());
    let shutdown = Shutdown::default();
    shutdown.on_signals(grace(document))?;
    let admin = match &document.admin {
        Some(admin) => {
            Some(admin::begin(&listening(&admin.address)?, admin, live.clone(), shutdown.clone(), &handover)?)
        }
        None => None,
    };
    let (leave, serving) = (admin.as_ref().map(admin::Serving::stop_accepting), live.clone());
    let leave = move || {
        leave.into_iter().for_each(|leave| leave());
        // The other process waits for the folder.
        serving.current().persistent().analytics.close();
    };
    handover.clone().follow(shutdown.clone(), leave)?;
    for (local, settings) in &bound {
        let (scheme, redirects) =
            (settings.scheme(), if settings.redirect.is_some() { ", redirects to https" } else { "" });
        tracing::info!("listening on {scheme}://{local}, {cores} threads{redirects}");
    }
    tracing::debug!(limit = descriptors, "file descriptors for connections of clients and for their calls");
    helper_threads::apply(document.thread_pool.as_ref());
    tell_memory(document);
    log::flush();
    handover.ready().map_err(|error| format!("the process before this one has ended: {error}"))?;
    started(listeners.address(), admin.as_ref().map(|serving| &serving.address));
    let settings = document.clients.as_ref().map(settings).unwrap_or_default();
    let settings = Settings { descriptors, ..settings };
    let served = server::serve(listeners, &settings, &shutdown, |core| CoreHandler::new(live.clone(), core));
    // Last: operators watch how it stops.
    admin.into_iter().for_each(admin::Serving::end);
    live.current().persistent().analytics.close();
    live.current().flush(FLUSH);
    served?;
    let cut_off = live.current().metrics().cut_off();
    match (cut_off, lost()) {
        (CutOff { requests: 0, answers: 0 }, 0) => tracing::info!("stopped"),
        (CutOff { requests, answers }, lost) => tracing::warn!(
            requests,
            answers,
            detached = lost,
            "stopped; cut off: {requests} requests without an answer, {answers} answers and streams in the middle; \
             detached calls that had not ended: {lost}"
        ),
    }
    Ok(())
}

/// Logs how much memory caches and long work may take, where the process has a limit.
fn tell_memory(document: &Document) {
    let Some(limit) = memory_limit::limit() else { return };
    let caches = redis_tier::memory(document.store.as_ref()).0;
    let work = helper_threads::memory(document.thread_pool.as_ref()).0;
    let [limit, caches, work] = [limit, caches, work].map(|bytes| bytes >> 20);
    if caches + work > limit {
        tracing::warn!(
            limit,
            "the process may be killed: `store.memory` ({caches} MiB) and `thread_pool.memory` ({work} MiB) are more than \
             the memory limit of its control group ({limit} MiB)"
        );
    } else {
        tracing::info!(
            "the memory limit of the control group is {limit} MiB; caches take up to {caches} MiB, long work {work} MiB"
        );
    }
}

/// How much detached work ended with the process.
fn lost() -> u64 {
    detached::counts().find(|(result, _)| *result == "lost").map_or(0, |(_, count)| count)
}

/// A load balancer that asks whether the gateway is ready needs this time to notice that it is not.
const NOTICE: Duration = Duration::from_secs(5);

/// A log file that takes nothing does not hold the end of the process for longer.
const FLUSH: Duration = Duration::from_secs(2);

fn grace(document: &Document) -> Duration {
    let usual = if document.admin.is_some() && !std::io::stderr().is_terminal() { NOTICE } else { Duration::ZERO };
    document.clients.as_ref().and_then(|clients| clients.grace).unwrap_or(usual)
}

fn listening(written: &Located<String>) -> Result<Address, BoxError> {
    // `check` has refused what is no address.
    address::read(written, &mut Problems::default()).ok_or_else(|| format!("`{written}` is not an address").into())
}

fn settings(clients: &Clients) -> Settings {
    let max_head = clients.max_head.bytes();
    Settings {
        header: clients.head,
        keep_alive: clients.keep,
        write: clients.write,
        body: clients.body,
        min_rate: clients.min_rate.bound(),
        drain: clients.drain,
        max_head,
        max_target: clients.max_target.bytes(),
        trailers: clients.trailers == TrailersSpec::Always,
        per_address: clients.connections_per_address,
        ipv6_prefix: clients.ipv6_prefix,
        ..Settings::default()
    }
}

/// The parts that change while the gateway serves.
struct Reload {
    file: ConfigFile,
    live: Arc<Live>,
    /// Facts about the configuration that serves.
    facts: Facts,
    certificates: Certificates,
    renewals: Renewals,
    /// Gateways that were replaced, until their last request has ended. They are freed here: a large one would block a core.
    old: Vec<Arc<Gateway>>,
}

impl Reload {
    /// Begins a thread for it.
    fn begin(self) {
        if let Err(error) = self.try_begin() {
            tracing::warn!(%error, "cannot listen for SIGHUP and SIGUSR1; a changed configuration needs a restart");
        }
    }

    fn try_begin(mut self) -> std::io::Result<()> {
        let runtime = event_loop()?;
        let (hangups, moves) = {
            let _within = runtime.enter();
            (signal(SignalKind::hangup())?, signal(SignalKind::user_defined1())?)
        };
        let follow = move || runtime.block_on(self.follow(hangups, moves));
        start("reload", follow).map(drop)
    }

    /// SIGHUP reads the configuration again, SIGUSR1 opens log files again; certificates are read again when their files change.
    async fn follow(&mut self, mut hangups: Signal, mut moves: Signal) {
        let mut look = tokio::time::interval(certificate_watch::LOOK);
        // What was needed to read the configuration is given back, too.
        let mut settling = SETTLING;
        loop {
            tokio::select! {
                hangup = hangups.recv() => match hangup {
                    Some(()) => {
                        self.survive(Self::reload);
                        settling = SETTLING;
                    }
                    None => return,
                },
                Some(()) = moves.recv() => self.live.current().persistent().journals.reopen(),
                _ = look.tick() => {
                    self.survive(|reload| reload.certificates.look());
                    if self.is_relieved() {
                        settling = SETTLING;
                    }
                    if settling > 0 {
                        settling -= 1;
                        give_back();
                    }
                }
            }
        }
    }

    /// Reads something again. If that panics, later signals are still heard.
    fn survive(&mut self, work: impl FnOnce(&mut Self)) {
        if !survives(|| work(self)) {
            tracing::error!(
                "a fault in crocodile-pear: a part of what was read again is not in use; please report it, and restart"
            );
        }
    }

    /// Drops the gateways whose last request has ended; returns whether there were any.
    fn is_relieved(&mut self) -> bool {
        let before = self.old.len();
        self.old.retain(|gateway| Arc::strong_count(gateway) > 1);
        self.old.len() < before
    }

    /// Reads the configuration again. If it has errors, they are reported, and the old configuration stays.
    fn reload(&mut self) {
        let began = Instant::now();
        let loaded = self.file.reload(self.live.current().persistent());
        loaded.log();
        let lines = loaded.lines();
        let (Some(document), Some(gateway)) = (loaded.document, loaded.gateway) else {
            self.live.current().metrics().count_refused_reload(began.elapsed());
            self.live.configured().refuse(lines);
            return tracing::error!("the configuration has problems; the old one stays in use");
        };
        self.renewals.reload(&gateway, &loaded.sources);
        self.certificates.reload(gateway.listening(), loaded.sources);
        self.old.push(self.live.replace(gateway));
        self.live.current().metrics().count_reload(began.elapsed());
        self.live.configured().accept(lines);
        let facts = Facts::of(document);
        helper_threads::apply(facts.settings.thread_pool.as_ref());
        let change = ReloadChanges::between(&self.facts, &facts);
        tracing::info!("configuration reloaded; {change}");
        if !change.restart.is_empty() {
            tracing::warn!("{} changed: this needs a restart", change.restart.join(", "));
        }
        self.facts = facts;
    }
}

/// How many times after a reload the allocator is made to give memory back to the system: it keeps what is free for a second, and
/// gives back a part at a time.
const SETTLING: u8 = 8;

/// The allocator looks for what it can give back when a large block is freed. Without traffic nothing else frees one.
fn give_back() {
    const LARGE: usize = 16 << 20;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE)));
}

/// The facts that a reload compares.
struct Facts {
    endpoints: Vec<String>,
    upstreams: Vec<String>,
    /// The document without the parts that are ready by now: as they are written they are large.
    settings: Document,
}

impl Facts {
    fn of(document: Document) -> Self {
        Facts {
            endpoints: document.endpoints.keys().cloned().collect(),
            upstreams: document.upstreams.iter().flat_map(|upstreams| upstreams.keys()).cloned().collect(),
            settings: Document {
                endpoints: Default::default(),
                groups: None,
                upstreams: None,
                databases: None,
                ..document
            },
        }
    }
}

/// The changes of a reload.
struct ReloadChanges {
    endpoints: NameChanges,
    upstreams: NameChanges,
    /// Settings that a reload does not change.
    restart: Vec<&'static str>,
}

/// Names that have come and gone.
struct NameChanges {
    added: Vec<String>,
    removed: Vec<String>,
}

impl NameChanges {
    fn between(before: &[String], after: &[String]) -> Self {
        let beyond = |one: &[String], other: &[String]| {
            let other: HashSet<&String> = other.iter().collect();
            one.iter().filter(|name| !other.contains(name)).cloned().collect()
        };
        NameChanges { added: beyond(after, before), removed: beyond(before, after) }
    }
}

impl fmt::Display for NameChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.added.as_slice(), self.removed.as_slice()) {
            ([], []) => f.write_str("the same names"),
            (added, []) => write!(f, "added {}", added.join(", ")),
            ([], removed) => write!(f, "removed {}", removed.join(", ")),
            (added, removed) => write!(f, "added {}; removed {}", added.join(", "), removed.join(", ")),
        }
    }
}

impl ReloadChanges {
    fn between(Facts { endpoints, upstreams, settings: before }: &Facts, after: &Facts) -> Self {
        let written = |admin: &Option<AdminSpec>| {
            admin.as_ref().map(|admin| (admin.address.value.clone(), admin.hosts.clone(), admin.token.clone()))
        };
        let now = &after.settings;
        let settings = [
            ("listen", before.listen.fixed() != now.listen.fixed()),
            ("admin", written(&before.admin) != written(&now.admin)),
            ("threads", before.threads != now.threads),
            ("clients", format!("{:?}", before.clients) != format!("{:?}", now.clients)),
        ];
        ReloadChanges {
            endpoints: NameChanges::between(endpoints, &after.endpoints),
            upstreams: NameChanges::between(upstreams, &after.upstreams),
            restart: settings.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect(),
        }
    }
}

impl fmt::Display for ReloadChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "endpoints: {}; upstreams: {}", self.endpoints, self.upstreams)
    }
}
