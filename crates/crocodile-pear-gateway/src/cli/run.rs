//! `run`: the gateway itself.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use clap::Args;
use crocodile_pear::problem::Problems;
use crocodile_pear::spec::Located;

use super::File;
use crate::address;
use crate::admin;
use crate::document::{Clients, Document};
use crate::layers::Setting;
use crate::live::{Core, Live};
use crate::log;
use crate::server::{self, Listeners, Settings, Shutdown};

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    file: File,
}

impl Run {
    pub fn execute(self) -> ExitCode {
        let loaded = self.file.load();
        let Some((document, gateway)) = loaded.usable() else { return ExitCode::from(1) };
        // Before anything runs that may have something to say: health checks begin with the gateway.
        log::begin(document.layers.observe.as_ref().and_then(Setting::on));
        let live = Arc::new(Live::new(gateway));
        let reload = live.clone();
        let started = move |_: SocketAddr| reload_on_signal(self.file, reload);
        serve(&document, &live, started)
    }
}

/// Serves until it is told to stop. `started` learns the address when clients can connect.
pub fn serve(document: &Document, live: &Arc<Live>, started: impl FnOnce(SocketAddr)) -> ExitCode {
    match try_serve(document, live, started) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn try_serve(document: &Document, live: &Arc<Live>, started: impl FnOnce(SocketAddr)) -> Result<(), Failure> {
    let cores = document.threads.or(thread::available_parallelism().ok()).map_or(1, usize::from);
    let listeners = Listeners::bind(listening(&document.listen)?, cores)?;
    let shutdown = Shutdown::default();
    shutdown.on_signals()?;
    if let Some(admin) = &document.admin {
        admin::begin(listening(admin)?, live.clone(), shutdown.clone())?;
    }
    let local = listeners.address();
    tracing::info!("listening on http://{local}, {cores} threads");
    started(local);
    let settings = document.clients.as_ref().map(settings).unwrap_or_default();
    server::serve(listeners, &settings, &shutdown, |core| Core::new(live.clone(), core))?;
    tracing::info!("stopped");
    Ok(())
}

fn listening(written: &Located<String>) -> Result<SocketAddr, Failure> {
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
        drain: clients.drain,
        max_head,
        max_target: clients.max_target.bytes(),
        ..Settings::default()
    }
}

/// SIGHUP reads the file again. What is found wrong is told, and the old configuration goes on.
fn reload_on_signal(file: File, live: Arc<Live>) {
    let listen = move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut hangups = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?;
            while hangups.recv().await.is_some() {
                reload(&file, &live);
            }
            Ok(())
        })
    };
    let spawned = thread::Builder::new().name("reload".into()).spawn(move || {
        if let Err(error) = listen() {
            tracing::warn!(%error, "SIGHUP cannot be listened to; a changed configuration needs a restart");
        }
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread for reloads; a changed configuration needs a restart");
    }
}

fn reload(file: &File, live: &Live) {
    match file.reload(live.current().metrics()).usable() {
        Some((_, gateway)) => {
            live.replace(gateway);
            tracing::info!(
                "the configuration was read again; addresses, threads, and the level and format of the log change with a restart only"
            );
        }
        None => tracing::error!("the configuration has problems; the old one goes on"),
    }
}
