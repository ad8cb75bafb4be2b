//! `runtimes` with reqwest: a client's connections belong to the runtime that opened them, so each has a client of its own.

use reqwest::Client;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn get(url: String) -> Result<String, Failure> {
    Ok(Client::new().get(url).send().await?.error_for_status()?.text().await?)
}

fn runtime(mut builder: Builder) -> Result<Runtime, Failure> {
    Ok(builder.enable_all().build()?)
}

pub fn current_thread(url: &str) -> Result<String, Failure> {
    runtime(Builder::new_current_thread())?.block_on(get(url.to_owned()))
}

pub fn multi_thread(url: &str) -> Result<String, Failure> {
    let url = url.to_owned();
    runtime(Builder::new_multi_thread())?.block_on(async { tokio::spawn(get(url)).await? })
}

pub fn local_set(url: &str) -> Result<String, Failure> {
    let (local, url) = (LocalSet::new(), url.to_owned());
    let task = async { tokio::task::spawn_local(get(url)).await? };
    local.block_on(&runtime(Builder::new_current_thread())?, task)
}

pub fn single_shot(url: &str) -> Result<String, Failure> {
    runtime(Builder::new_current_thread())?.block_on(get(url.to_owned()))
}
