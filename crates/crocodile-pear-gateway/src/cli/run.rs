//! `run`: the gateway itself.

use std::fmt;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use crocodile_pear::problem::Problems;
use crocodile_pear::spec::{Entries, Located};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::file::File;
use crate::acme::Renewals;
use crate::address::{self, Address};
use crate::admin;
use crate::certificates::{self, Certificates};
use crate::document::{Clients, Document};
use crate::layers::Setting;
use crate::listen::Listening;
use crate::live::{Core, Live};
use crate::log;
use crate::operators::AdminSpec;
use crate::pool;
use crate::server::{self, Listeners, Settings, Shutdown};

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    file: File,
}

impl Run {
    pub fn execute(self) -> ExitCode {
        let loaded = self.file.load();
        let warnings = loaded.lines();
        let Some((document, gateway, sources)) = loaded.usable() else { return ExitCode::from(1) };
        // Before anything runs that may have something to say: health checks begin with the gateway.
        log::begin(document.layers.observe.as_ref().and_then(Setting::on));
        let live = Arc::new(Live::new(gateway));
        live.configured().accept(warnings);
        let (serving, served) = watch::channel(false);
        let renewals = Renewals::new(&live.current(), &sources, served);
        let certificates = Certificates::new(live.current().listening(), sources);
        let reload = Reload { file: self.file, live: live.clone(), document: document.clone(), certificates, renewals };
        // Before anybody knows that it serves: a SIGHUP that nothing waits for ends the process.
        reload.begin();
        serve(&document, &live, |_, _| _ = serving.send(true))
    }
}

/// Serves until it is told to stop. `started` learns where clients connect, once they can, and where operators do.
pub fn serve(document: &Document, live: &Arc<Live>, started: impl FnOnce(&Address, Option<&Address>)) -> ExitCode {
    match try_serve(document, live, started) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn try_serve(
    document: &Document,
    live: &Arc<Live>,
    started: impl FnOnce(&Address, Option<&Address>),
) -> Result<(), Failure> {
    let cores = document.threads.or(thread::available_parallelism().ok()).map_or(1, usize::from);
    let mut listeners = Listeners::new(cores);
    let mut bound = Vec::new();
    for Listening { address, mode, entry, .. } in live.current().listening() {
        bound.push((listeners.add(address, *mode, entry.clone())?, entry.clone()));
    }
    let secured = bound.iter().find(|(_, entry)| entry.tls.is_some()).and_then(|(address, _)| address.port());
    if let Some(port) = secured {
        bound.iter().filter_map(|(_, entry)| entry.redirect.as_ref()).for_each(|redirect| redirect.settle(port));
    }
    live.current().metrics().set_listeners(bound.clone());
    let shutdown = Shutdown::default();
    shutdown.on_signals(grace(document))?;
    let admin = match &document.admin {
        Some(admin) => Some(admin::begin(&listening(&admin.address)?, admin, live.clone(), shutdown.clone())?),
        None => None,
    };
    for (local, entry) in &bound {
        let (scheme, redirects) = (entry.scheme(), if entry.redirect.is_some() { ", redirects to https" } else { "" });
        tracing::info!("listening on {scheme}://{local}, {cores} threads{redirects}");
    }
    pool::apply(document.thread_pool.as_ref());
    started(listeners.address(), admin.as_ref().map(|serving| &serving.address));
    let settings = document.clients.as_ref().map(settings).unwrap_or_default();
    let served = server::serve(listeners, &settings, &shutdown, |core| Core::new(live.clone(), core));
    // Last: operators watch how it stops.
    admin.into_iter().for_each(admin::Serving::end);
    live.current().lasting().analytics.close();
    live.current().flush(FLUSH);
    served?;
    tracing::info!("stopped");
    Ok(())
}

/// A load balancer that asks whether the gateway is ready needs this time to notice that it is not.
const NOTICE: Duration = Duration::from_secs(5);

/// A log file that takes nothing does not hold the end of the process for longer.
const FLUSH: Duration = Duration::from_secs(2);

fn grace(document: &Document) -> Duration {
    let usual = if document.admin.is_some() && !std::io::stderr().is_terminal() { NOTICE } else { Duration::ZERO };
    document.clients.as_ref().and_then(|clients| clients.grace).unwrap_or(usual)
}

fn listening(written: &Located<String>) -> Result<Address, Failure> {
    // `check` has refused what is no address.
    address::read(written, &mut Problems::default()).ok_or_else(|| format!("`{written}` is no address").into())
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
        per_address: clients.connections_per_address,
        ..Settings::default()
    }
}

/// What changes while the gateway serves.
struct Reload {
    file: File,
    live: Arc<Live>,
    document: Document,
    certificates: Certificates,
    renewals: Renewals,
}

impl Reload {
    /// Begins a thread for it.
    fn begin(self) {
        if let Err(error) = self.try_begin() {
            tracing::warn!(%error, "cannot listen for SIGHUP and SIGUSR1; a changed configuration needs a restart");
        }
    }

    fn try_begin(mut self) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (hangups, moves) = {
            let _within = runtime.enter();
            (signal(SignalKind::hangup())?, signal(SignalKind::user_defined1())?)
        };
        thread::Builder::new().name("reload".into()).spawn(move || runtime.block_on(self.follow(hangups, moves)))?;
        Ok(())
    }

    /// SIGHUP reads the configuration again, SIGUSR1 opens log files again; certificates are read again when their files change.
    async fn follow(&mut self, mut hangups: Signal, mut moves: Signal) {
        let mut look = tokio::time::interval(certificates::LOOK);
        loop {
            tokio::select! {
                hangup = hangups.recv() => match hangup {
                    Some(()) => self.reload(),
                    None => return,
                },
                Some(()) = moves.recv() => self.live.current().lasting().journals.reopen(),
                _ = look.tick() => self.certificates.look(),
            }
        }
    }

    /// What is found wrong is told, and the old configuration goes on.
    fn reload(&mut self) {
        let began = Instant::now();
        let loaded = self.file.reload(self.live.current().lasting());
        loaded.log();
        let lines = loaded.lines();
        let (Some(document), Some(gateway)) = (loaded.document, loaded.gateway) else {
            self.live.current().metrics().count_refused_reload(began.elapsed());
            self.live.configured().refuse(lines);
            return tracing::error!("the configuration has problems; the old one goes on");
        };
        self.renewals.reload(&gateway, &loaded.sources);
        self.certificates.reload(gateway.listening(), loaded.sources);
        self.live.replace(gateway);
        self.live.current().metrics().count_reload(began.elapsed());
        self.live.configured().accept(lines);
        pool::apply(document.thread_pool.as_ref());
        let change = Change::between(&self.document, &document);
        tracing::info!("the configuration was read again; {change}");
        if !change.restart.is_empty() {
            tracing::warn!("{} changed: this needs a restart", change.restart.join(", "));
        }
        self.document = document;
    }
}

/// What a reload has changed.
struct Change {
    endpoints: Names,
    upstreams: Names,
    /// Settings that a reload does not change.
    restart: Vec<&'static str>,
}

/// Names that have come and gone.
struct Names {
    added: Vec<String>,
    removed: Vec<String>,
}

impl Names {
    fn between<T>(before: &Entries<T>, after: &Entries<T>) -> Self {
        let beyond = |one: &Entries<T>, other: &Entries<T>| {
            one.keys().filter(|name| !other.contains_key(*name)).cloned().collect::<Vec<_>>()
        };
        Names { added: beyond(after, before), removed: beyond(before, after) }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.added.as_slice(), self.removed.as_slice()) {
            ([], []) => f.write_str("the same names"),
            (added, []) => write!(f, "added {}", added.join(", ")),
            ([], removed) => write!(f, "removed {}", removed.join(", ")),
            (added, removed) => write!(f, "added {}; removed {}", added.join(", "), removed.join(", ")),
        }
    }
}

impl Change {
    fn between(before: &Document, after: &Document) -> Self {
        let none = Entries::new();
        let written = |admin: &Option<AdminSpec>| {
            admin.as_ref().map(|admin| (admin.address.value.clone(), admin.hosts.clone(), admin.token.clone()))
        };
        let settings = [
            ("listen", before.listen.fixed() != after.listen.fixed()),
            ("admin", written(&before.admin) != written(&after.admin)),
            ("threads", before.threads != after.threads),
            ("clients", format!("{:?}", before.clients) != format!("{:?}", after.clients)),
        ];
        Change {
            endpoints: Names::between(&before.endpoints, &after.endpoints),
            upstreams: Names::between(
                before.upstreams.as_ref().unwrap_or(&none),
                after.upstreams.as_ref().unwrap_or(&none),
            ),
            restart: settings.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect(),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "endpoints: {}; upstreams: {}", self.endpoints, self.upstreams)
    }
}
