//! The same client on every kind of runtime: it has none of its own, and runs on the one that awaits its calls.
//!
//! `cargo run -p crocodile-pear --example runtimes -- http://127.0.0.1:9000/users/api/users/7`

use std::sync::LazyLock;

use crocodile_pear::{Client, Error};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// The client of the whole program, also where it has several runtimes.
static CLIENT: LazyLock<Client> = LazyLock::new(Client::new);

async fn get(url: String) -> Result<String, Error> {
    CLIENT.get(url).text().await
}

fn runtime(mut builder: Builder) -> Result<Runtime, Error> {
    Ok(builder.enable_all().build()?)
}

/// On one thread, from a program that is not async.
pub fn current_thread(url: &str) -> Result<String, Error> {
    runtime(Builder::new_current_thread())?.block_on(get(url.to_owned()))
}

/// On several threads, in a task.
pub fn multi_thread(url: &str) -> Result<String, Error> {
    let url = url.to_owned();
    let task = async { tokio::spawn(get(url)).await.map_err(Error::of_program)? };
    runtime(Builder::new_multi_thread())?.block_on(task)
}

/// In a task that stays on its thread.
pub fn local_set(url: &str) -> Result<String, Error> {
    let (local, url) = (LocalSet::new(), url.to_owned());
    let task = async { tokio::task::spawn_local(get(url)).await.map_err(Error::of_program)? };
    local.block_on(&runtime(Builder::new_current_thread())?, task)
}

/// A client that makes one call and is gone with its connections.
pub fn single_shot(url: &str) -> Result<String, Error> {
    runtime(Builder::new_current_thread())?.block_on(Client::new().get(url.to_owned()).text().value())
}

#[allow(dead_code, clippy::print_stdout, reason = "a program prints; the tests have a server of their own")]
fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000/users/api/users/7".to_owned());
    for run in [current_thread, multi_thread, local_set, single_shot] {
        println!("{}", run(&url)?);
    }
    Ok(())
}
