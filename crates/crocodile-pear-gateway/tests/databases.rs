//! `sql` on a real PostgreSQL: what comes back, what is refused, and what happens when the database does not serve.

// What a test skips it prints.
#![allow(clippy::print_stdout)]

use crocodile_pear_stage::database;
mod breaker;
mod hosts;
mod outages;
mod poolers;
mod refusals;
mod replicas;
mod rows;
mod shared;
use crate::stage;
mod tls;
mod transactions;
mod values;

use database::Database;
use stage::scene::Scene;

/// A gateway in front of a database, with these endpoints and further settings of the database.
fn gateway(name: &str, database: &Database, settings: &str, endpoints: &str) -> Scene {
    let url = database.url();
    // A busy machine takes long for it.
    let connect = if settings.contains("connect:") { "" } else { ", connect: 60s" };
    let config = format!("databases:\n  main: {{ url: '{url}'{settings}{connect} }}\nendpoints:\n{endpoints}");
    Scene::new(&format!("databases_{name}"), &config)
}

/// An endpoint that runs one statement with the client's body as its only value.
fn echo(path: &str, query: &str) -> String {
    format!(
        "  POST {path}:\n    pipeline:\n      - sql: {{ to: main, query: '{query}', values: [$body], one: true }}\n"
    )
}
