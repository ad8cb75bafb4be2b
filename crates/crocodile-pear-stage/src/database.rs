//! A PostgreSQL server for one test, or a database for one test in a shared server.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crocodile_pear_demo::postgres::{Cluster, Failure, Postgres};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use crate::relay::Relay;

pub struct Database {
    pub port: u16,
    server: Arc<Postgres>,
    name: String,
}

/// The condition for [`Session::sessions`] that counts those of gateways.
pub const OF_GATEWAYS: &str = "application_name = 'crocodile-pear'";

/// The server that tests share. Its watcher ends it with the process.
static SHARED: OnceLock<Option<Arc<Postgres>>> = OnceLock::new();

/// The files that each server begins with.
static CLUSTER: OnceLock<Result<Cluster, Failure>> = OnceLock::new();

static DATABASES: AtomicUsize = AtomicUsize::new(0);

impl Database {
    /// `None` where PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        Self::with(&[])
    }

    /// The same with further settings.
    pub fn with(settings: &[&str]) -> Option<Self> {
        Some(Self::of(Arc::new(launch(&[&["max_connections=50"], settings].concat())?), "postgres".to_owned()))
    }

    /// A database in the shared server, for a test that neither stops the server nor changes its settings.
    pub fn shared() -> Option<Self> {
        let server = SHARED.get_or_init(|| launch(&["max_connections=300"]).map(Arc::new)).clone()?;
        let name = format!("own{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let whole = Self::of(server.clone(), "postgres".to_owned());
        whole.connect().run(&format!("create database {name}")).unwrap();
        Some(Self::of(server, name))
    }

    fn of(server: Arc<Postgres>, name: String) -> Self {
        Database { port: server.port(), server, name }
    }

    fn own(&mut self) -> &mut Postgres {
        Arc::get_mut(&mut self.server).expect("no other test has this server")
    }

    /// Stops it, and breaks all connections.
    pub fn stop(&mut self) {
        self.own().stop();
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        self.own().kill();
    }

    /// Starts it again, on the same port.
    pub fn restart(&mut self) {
        let port = self.port;
        self.own().restart(port).unwrap();
    }

    /// Sends a signal, as `STOP`, to the server and all that it has started.
    pub fn signal(&self, signal: &str) {
        assert_eq!(Arc::strong_count(&self.server), 1, "no other test has this server");
        let server = self.server.id();
        // A child of the server may end before the signal is sent.
        let children = format!("kill -s {signal} $(cat /proc/{server}/task/*/children) 2>/dev/null");
        let all = format!("kill -s {signal} {server} && {{ {children} || :; }}");
        assert!(Command::new("sh").args(["-c", &all]).status().unwrap().success());
    }

    /// The name of the database in its server.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn url(&self) -> String {
        let url = self.server.url();
        let (server, _) = url.rsplit_once('/').expect("a URL with the name of a database");
        format!("{server}/{}", self.name)
    }

    /// The URL of the database through a relay.
    pub fn by(&self, relay: &Relay) -> String {
        self.url().replace(&format!("127.0.0.1:{}", self.port), &relay.address.to_string())
    }

    /// Where files of the test may be that the server reads.
    pub fn folder(&self) -> &Path {
        self.server.folder()
    }

    /// A connection, if there is one left.
    pub fn try_connect(&self) -> Option<Session> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let config: Config = self.url().parse().unwrap();
        let (client, mut connection) = runtime.block_on(config.connect(NoTls)).ok()?;
        let (told, notices) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(notification) = message {
                    let _ = told.send(notification.payload().to_owned());
                }
            }
        });
        Some(Session { client, runtime, notices })
    }

    pub fn connect(&self) -> Session {
        self.try_connect().expect("it listens")
    }
}

/// A server with these settings; `None` where PostgreSQL is not installed.
pub fn launch(settings: &[&str]) -> Option<Postgres> {
    let cluster = match CLUSTER.get_or_init(Cluster::new) {
        Ok(cluster) => cluster,
        Err(Failure::Failed(why)) => panic!("PostgreSQL cannot be set up: {why}"),
        Err(Failure::Missing) => {
            crate::skip("postgresql");
            return None;
        }
    };
    let started = cluster.start(&[&["fsync=off", "log_min_messages=fatal"], settings].concat());
    Some(started.unwrap_or_else(|why| panic!("PostgreSQL does not start: {why:?}")))
}

/// A connection of the test's.
pub struct Session {
    client: Client,
    runtime: Runtime,
    notices: std::sync::mpsc::Receiver<String>,
}

impl Session {
    /// Runs statements.
    pub fn run(&self, sql: &str) -> Result<(), String> {
        let done = self.runtime.block_on(self.client.batch_execute(sql));
        done.map_err(|error| error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned()))
    }

    /// The first column of the first row, as text.
    pub fn one(&self, sql: &str) -> Option<String> {
        let rows = self.runtime.block_on(self.client.simple_query(sql)).unwrap();
        rows.into_iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }

    /// The number of other sessions in this database for which the condition holds; its columns are those of `pg_stat_activity`.
    pub fn sessions(&self, condition: &str) -> usize {
        let others = "datname = current_database() and pid <> pg_backend_pid()";
        let sql = format!("select count(*) from pg_stat_activity where {others} and {condition}");
        self.one(&sql).unwrap().parse().unwrap()
    }

    /// The notifications that came, behind what was run before.
    pub fn notices(&self) -> Vec<String> {
        // Those of a transaction come before the answer to what is asked next.
        self.run("select 1").unwrap();
        self.notices.try_iter().collect()
    }
}
