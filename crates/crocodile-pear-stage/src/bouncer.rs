//! PgBouncer in front of a database.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::database::Database;
use crate::ports::free_port;
use crate::until;

/// PgBouncer, which ends with the test.
pub struct Bouncer {
    pub port: u16,
    file: PathBuf,
    server: Child,
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Bouncer {
    /// `None` if none is installed.
    pub fn start(database: &Database, mode: &str) -> Option<Self> {
        let port = free_port();
        let file = database.folder().join(format!("{mode}_{port}.ini"));
        let settings = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} user=postgres dbname={}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n\
             default_pool_size = {}\nmax_client_conn = 500\n",
            database.port,
            database.name(),
            if mode == "session" { 40 } else { 4 },
        );
        fs::write(&file, settings).unwrap();
        let Ok(server) = launch(&file) else {
            crate::skip("pgbouncer");
            return None;
        };
        let bouncer = Bouncer { port, file, server };
        bouncer.ready();
        Some(bouncer)
    }

    fn ready(&self) {
        until("pgbouncer listens", || std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }

    /// Starts it again, on the same port.
    pub fn restart(&mut self) {
        self.server = launch(&self.file).unwrap();
        self.ready();
    }

    /// Sends a signal, as `STOP`.
    pub fn signal(&self, name: &str) {
        let command = format!("kill -s {name} {}", self.server.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }
}

fn launch(file: &Path) -> std::io::Result<Child> {
    const DEBIAN: &str = "/usr/sbin/pgbouncer";
    let mut command = Command::new(if Path::new(DEBIAN).exists() { DEBIAN } else { "pgbouncer" });
    command.arg("-q").arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    // It does not run as root, but as the owner of the database.
    let owner = fs::metadata(file.parent().unwrap())?;
    if owner.uid() != 0 {
        command.uid(owner.uid()).gid(owner.gid());
    }
    command.spawn()
}
