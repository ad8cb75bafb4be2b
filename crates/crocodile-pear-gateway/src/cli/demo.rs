//! `demo`: example endpoints over built-in example upstreams.

mod items;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use crocodile_pear::unstable::config::spec::Node;

use super::file::compile;
use super::run;
use crate::config;
use crate::gateway::current_gateway::Live;
use crate::layers::Setting;
use crate::net::address::Address;
use crate::observe::log;
use crate::runtime::threads::{event_loop, start};
use crocodile_pear_demo as demo;

const CONFIG: &str = include_str!("../../../../examples/demo.yaml");

/// Where the documents and the examples look for the example upstreams.
const UPSTREAMS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9000);

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Demo {
    #[command(subcommand)]
    other: Option<Other>,
    /// The address of the gateway.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The address of the example upstreams; port 0 picks a free port [default: 127.0.0.1:9000, or a free port if it
    /// is taken].
    #[arg(long)]
    upstreams: Option<SocketAddr>,
    /// The response time of each example upstream, in milliseconds.
    #[arg(long, default_value_t = 20)]
    latency: u64,
    /// The number of cases in Streamflow's inbox.
    #[arg(long, default_value_t = 156)]
    cases: usize,
}

#[derive(Subcommand)]
enum Other {
    /// Serve an API for a PostgreSQL table. PostgreSQL is started in a temporary folder, which is removed at the end.
    Items(items::Items),
}

impl Demo {
    pub fn execute(self) -> ExitCode {
        if let Some(Other::Items(items)) = self.other {
            return items.execute();
        }
        let upstreams = match self.upstreams() {
            Ok(upstreams) => upstreams,
            Err(error) => {
                let address = self.upstreams.unwrap_or(UPSTREAMS);
                eprintln!("error: the example upstreams cannot listen on {address}: {error}");
                return ExitCode::from(1);
            }
        };
        let (node, sources, problems) = self.config(upstreams);
        let Some((document, gateway, _)) = compile(node.as_ref(), sources, &Arc::default(), problems).usable() else {
            return ExitCode::from(1);
        };
        let _flush = log::begin(document.layers.observe.as_ref().and_then(Setting::on));
        let live = Arc::new(Live::new(gateway));
        run::serve(&document, &live, Arc::default(), |address, admin| invite(address, admin, upstreams))
    }

    /// Starts the example upstreams on a thread of their own.
    fn upstreams(&self) -> io::Result<SocketAddr> {
        let listener = self.listener()?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let settings = demo::Demo { latency: Duration::from_millis(self.latency), cases: self.cases };
        let runtime = event_loop()?;
        start("upstreams", move || {
            runtime.block_on(async {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => demo::upstreams(listener, settings).await,
                    Err(error) => tracing::error!(%error, "the example upstreams cannot listen"),
                }
            });
        })?;
        Ok(address)
    }

    fn listener(&self) -> io::Result<TcpListener> {
        match (self.upstreams, TcpListener::bind(self.upstreams.unwrap_or(UPSTREAMS))) {
            (None, Err(error)) if error.kind() == io::ErrorKind::AddrInUse => {
                eprintln!("note: {UPSTREAMS} is taken, so the example upstreams listen on another port");
                TcpListener::bind((UPSTREAMS.ip(), 0))
            }
            (_, bound) => bound,
        }
    }

    fn config(
        &self,
        upstreams: SocketAddr,
    ) -> (Option<Node>, config::Sources, crocodile_pear::unstable::config::problem::Problems) {
        config::parse("demo.yaml", CONFIG, &|name| match name {
            "LISTEN" => Some(self.listen.to_string()),
            // Any free port: several may run beside each other.
            "ADMIN" => Some("127.0.0.1:0".to_owned()),
            "UPSTREAMS" => Some(format!("http://{upstreams}")),
            _ => None,
        })
    }
}

/// Says what to try.
fn invite(gateway: &Address, admin: Option<&Address>, upstreams: SocketAddr) {
    let page = admin.map(|admin| format!("The operators' page is at http://{admin}/.\n")).unwrap_or_default();
    eprintln!(
        "\nThe gateway is at http://{gateway}, the example upstreams at http://{upstreams}.
{page}See http://{gateway}/gallery.html, or try:\n
  curl http://{gateway}/users/7
  curl http://{gateway}/users
  curl -i 'http://{gateway}/temperatures?q=Lund,SE|Copenhagen,DK|Oslo,NO'
  curl -N http://{gateway}/events
  curl http://{gateway}/dashboard/7
  curl -s http://{gateway}/gallery | wc
  curl -d hello http://{gateway}/echo
  curl http://{gateway}/cases/b35873ba-4007-40ac-9936-975eab38395a-1

The configuration is examples/demo.yaml. For one of your own, run this in another terminal:\n
  crocodile-pear init
  crocodile-pear run\n
Ctrl-C stops.\n"
    );
}
