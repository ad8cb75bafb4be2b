//! Measures the gateway beside its peers, in one run and on the same upstream.

mod asked;
mod calls;
mod client;
mod compression;
mod downloads;
mod expected;
mod hold;
mod hypermedia;
mod items;
mod keepalive;
mod library;
mod load;
mod peers;
mod process;
mod product;
mod rc10k;
mod repeat;
mod report;
mod shape;
mod streamflow;
mod table;
mod thumbnails;
mod upstream;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

/// The result of a bench. An error is shown to the person who runs it, and ends the run.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "Measures the gateway beside its peers, in one run and on the same upstream")]
struct Options {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// CPU, throughput, memory and latency of a proxied answer, a merge of three, a concatenation of ten
    Table(table::Options),
    /// Header and payload bytes of ten users, in ten requests and in one
    Wire(wire::Options),
    /// The thesis's inbox: every link followed by the client, and one request through the gateway
    Streamflow(streamflow::Options),
    /// The cost of checking, selecting and merging on the bytes and by the expression engine
    Shape(shape::Options),
    /// The cost of a call, and of an item, in requests that nginx proxies, beside the bound of each
    Calls(calls::Options),
    /// Time, size, CPU and memory of a large streamed answer, without compression and with each
    Compression(compression::Options),
    /// Sixty pictures in a browser, one request each and one for all: when each is there
    Thumbnails(thumbnails::Options),
    /// The same request many times over many connections, each answer compared byte by byte
    Loop(repeat::Options),
    /// Source B: ten thousand calls waiting at once, and what the gateway needs for them
    Rc10k(rc10k::Options),
    /// Source C: cold and kept connections over a link of 15 ms
    Keepalive(keepalive::Options),
    /// Source E: a REST API on PostgreSQL under up to 1,000 clients, beside pgbench, fastify and Go, with pictures
    Items(items::Options),
    /// The library beside reqwest and futures: typed calls for each of many ids, and three at once
    Library(library::Options),
    /// Tasks of hypermedia with Django REST framework and json-server: a client that follows links, and one request
    Hypermedia(hypermedia::Options),
    /// A hundred downloads of 50 MiB over HTTP/2 for each kind of client: how many of them stop
    Downloads(downloads::Options),
    /// The servers of `rc10k`
    #[command(hide = true)]
    Hold(hold::Options),
}

fn main() -> ExitCode {
    match start(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(options: Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // A signal drops the bench, and with it the processes that it started.
        tokio::select! {
            done = run(options.bench) => done,
            stopped = stopped() => stopped.and(Err("stopped".into())),
        }
    })
}

async fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Table(options) => table::run(options).await,
        Bench::Wire(options) => wire::run(options).await,
        Bench::Streamflow(options) => streamflow::run(options).await,
        Bench::Shape(options) => shape::run(&options),
        Bench::Calls(options) => calls::run(options).await,
        Bench::Compression(options) => compression::run(options).await,
        Bench::Thumbnails(options) => thumbnails::run(options).await,
        Bench::Loop(options) => repeat::run(options).await,
        Bench::Rc10k(options) => rc10k::run(options).await,
        Bench::Keepalive(options) => keepalive::run(options).await,
        Bench::Items(options) => items::run(options).await,
        Bench::Library(options) => library::run(options).await,
        Bench::Hypermedia(options) => hypermedia::run(options).await,
        Bench::Downloads(options) => downloads::run(options).await,
        Bench::Hold(options) => hold::run(options).await,
    }
}

async fn stopped() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
