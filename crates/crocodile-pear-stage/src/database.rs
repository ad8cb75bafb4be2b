//! A PostgreSQL server of the test's own.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crocodile_pear_gateway::demo::postgres::{other, own, programs};
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use crate::ports::free_port;

/// Longer than a server takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Database {
    pub port: u16,
    folder: PathBuf,
    settings: Vec<String>,
    server: Child,
}

impl Drop for Database {
    fn drop(&mut self) {
        // At once, and its children with it.
        let _ = kill_process(Pid::from_child(&self.server), Signal::QUIT);
        let _ = self.server.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Database {
    /// Nothing, where none is installed.
    pub fn start() -> Option<Self> {
        Self::with(&[])
    }

    /// The same with further settings.
    pub fn with(settings: &[&str]) -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: install postgresql to run this test");
            assert!(std::env::var_os("CI").is_none(), "nothing is skipped in CI");
            return None;
        };
        let folder = folder();
        let data = folder.join("data");
        let made = own(&programs.join("initdb"))
            .unwrap()
            .args(["-A", "trust", "-N", "-U", "postgres", "-E", "UTF8", "--locale", "C", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = free_port();
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let server = serve(&programs, &folder, port, &settings);
        let database = Database { port, folder, settings, server };
        database.await_start();
        Some(database)
    }

    /// Stops it, and breaks all connections.
    pub fn stop(&mut self) {
        kill_process(Pid::from_child(&self.server), Signal::INT).unwrap();
        self.server.wait().unwrap();
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        kill_process(Pid::from_child(&self.server), Signal::QUIT).unwrap();
        self.server.wait().unwrap();
    }

    /// Starts it again, on the same port.
    pub fn restart(&mut self) {
        self.server = serve(&programs().unwrap(), &self.folder, self.port, &self.settings);
        self.await_start();
    }

    /// Sends a signal, as `STOP`, to the server and all that it has started.
    pub fn signal(&self, name: &str) {
        let server = self.server.id();
        let children = format!("kill -s {name} {server} $(cat /proc/{server}/task/*/children)");
        assert!(Command::new("sh").args(["-c", &children]).status().unwrap().success());
    }

    fn await_start(&self) {
        let begun = Instant::now();
        while self.try_connect().is_none() {
            assert!(begun.elapsed() < PATIENCE, "PostgreSQL does not listen");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Where files of the test may be that the server reads.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn try_connect(&self) -> Option<Session> {
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

    /// The notifications that came, behind what was run before.
    pub fn notices(&self) -> Vec<String> {
        // Those of a transaction come before the answer to what is asked next.
        self.run("select 1").unwrap();
        self.notices.try_iter().collect()
    }
}

fn serve(programs: &Path, folder: &Path, port: u16, settings: &[String]) -> Child {
    let sockets = format!("unix_socket_directories={}", folder.display());
    let mut command = own(&programs.join("postgres")).unwrap();
    command.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string(), "-c", &sockets]);
    let usual = ["listen_addresses=127.0.0.1", "fsync=off", "max_connections=50", "log_min_messages=fatal"];
    for setting in usual.into_iter().chain(settings.iter().map(String::as_str)) {
        command.args(["-c", setting]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// A folder that the server may write to.
fn folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("crocodile-pear-{}-{number}", std::process::id()));
    let made = fs::create_dir(&folder).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => fs::remove_dir_all(&folder).and_then(|()| fs::create_dir(&folder)),
        _ => Err(error),
    });
    made.unwrap();
    if let Some((user, group)) = other().unwrap() {
        chown(&folder, Some(user), Some(group)).unwrap();
    }
    folder
}
