//! A PostgreSQL server for the time of a demo, a test or a bench: in a folder of its own, on a free port, gone at the end.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::fs::{Access, StatVfs, access, statvfs};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use rustix::process::{Pid, Signal, geteuid, kill_process};

/// Longer than a server takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where Debian has the programs of the server, which are not in `PATH`.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Whom the server knows: nobody is asked for a password.
const USER: &str = "postgres";

/// Why there is none.
#[derive(Debug)]
pub enum Failure {
    /// No server is installed.
    Missing,
    /// The server does not start.
    Failed(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}

/// The reach of the server: who can connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Every user of this machine, at a port of 127.0.0.1.
    Machine,
    /// The user of this process, at a socket of the file system.
    User,
}

/// A running server; dropped, it is stopped and its folder removed.
pub struct Postgres {
    reach: Reach,
    port: u16,
    programs: PathBuf,
    folder: Folder,
    settings: Vec<String>,
    server: Child,
}

/// A folder, removed when it is dropped. Its watcher removes it, and ends the server in it, where this process ends without that.
struct Folder {
    path: PathBuf,
    watcher: Option<Child>,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(mut watcher) = self.watcher.take() {
            // A line says that the server has been stopped.
            let _ = watcher.stdin.take().map(|mut input| input.write_all(b"\n"));
            let _ = watcher.wait();
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Postgres {
    /// Starts one with these settings, like `fsync=off`, that every user of this machine can connect to.
    pub fn start(settings: &[&str]) -> Result<Self, Failure> {
        Self::reached(Reach::Machine, settings)
    }

    /// Starts one with these settings.
    pub fn reached(reach: Reach, settings: &[&str]) -> Result<Self, Failure> {
        let Cluster { programs, folder } = Cluster::new()?;
        Self::begin(programs, folder, reach, settings)
    }

    fn begin(programs: PathBuf, folder: Folder, reach: Reach, settings: &[&str]) -> Result<Self, Failure> {
        let listen = match reach {
            Reach::Machine => "listen_addresses=127.0.0.1",
            Reach::User => "listen_addresses=",
        };
        let settings = [&[listen, "unix_socket_permissions=0700"], settings].concat();
        let settings: Vec<String> = settings.into_iter().map(str::to_owned).collect();
        let port = free_port()?;
        let server = launch(&programs, &folder, port, &settings)?;
        let mut postgres = Postgres { reach, port, programs, folder, settings, server };
        postgres.ready()?;
        Ok(postgres)
    }

    /// Where it is, as clients write it.
    pub fn url(&self) -> String {
        match self.reach {
            Reach::Machine => format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port),
            Reach::User => {
                let folder = self.folder.path.to_string_lossy();
                let folder = utf8_percent_encode(&folder, NON_ALPHANUMERIC);
                format!("postgres://{USER}@{folder}:{}/postgres", self.port)
            }
        }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The number of its first process.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// Where files may be that the server reads.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Runs statements, with `psql`; what they say, row by row.
    pub fn run(&self, sql: &str) -> Result<String, Failure> {
        let told = Command::new(self.programs.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, &self.url()])
            .stdin(Stdio::null())
            .output()?;
        succeeded(&told)?;
        Ok(String::from_utf8_lossy(&told.stdout).trim_end().to_owned())
    }

    /// Ends it, and breaks all connections. Its data stay.
    pub fn stop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.server), Signal::INT);
        let _ = self.server.wait();
    }

    /// Ends it at once, as a crash would. Its data stay.
    pub fn kill(&mut self) {
        let _ = kill_process(Pid::from_child(&self.server), Signal::CONT);
        let _ = kill_process(Pid::from_child(&self.server), Signal::QUIT);
        let _ = self.server.wait();
    }

    /// Starts it again after `stop` or `kill`, at the same port or at another.
    pub fn restart(&mut self, port: u16) -> Result<(), Failure> {
        self.port = port;
        self.server = launch(&self.programs, &self.folder, port, &self.settings)?;
        self.ready()
    }

    fn ready(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        let status = self.folder.path.join("data/postmaster.pid");
        // The last line of its file says so.
        while !fs::read_to_string(&status).is_ok_and(|text| text.trim_end().ends_with("ready")) {
            if let Some(status) = self.server.try_wait()? {
                let log = fs::read_to_string(self.folder.path.join("log")).unwrap_or_default();
                return Err(Failure::Failed(format!("{status}\n{}", log.trim_end())));
            }
            if begun.elapsed() > PATIENCE {
                return Err(Failure::Failed(format!("not ready after {PATIENCE:?}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// The files of a new server. A program that starts many servers copies them: a copy costs a tenth of the CPU time of `initdb`.
pub struct Cluster {
    programs: PathBuf,
    folder: Folder,
}

impl Cluster {
    /// Makes the files.
    ///
    /// # Errors
    /// No server is installed, or `initdb` fails.
    pub fn new() -> Result<Self, Failure> {
        let programs = programs().ok_or(Failure::Missing)?;
        let folder = folder(&programs)?;
        let made = own(&programs.join("initdb"))?
            .args(["-A", "trust", "-N", "-U", USER, "-E", "UTF8", "--locale", "C", "-D"])
            .arg(folder.path.join("data"))
            .output()?;
        succeeded(&made)?;
        Ok(Cluster { programs, folder })
    }

    /// Starts a server with these settings on a copy of the files, as [`Postgres::start`] does.
    ///
    /// # Errors
    /// The files cannot be copied, or the server does not start.
    pub fn start(&self, settings: &[&str]) -> Result<Postgres, Failure> {
        let folder = folder(&self.programs)?;
        let mut copy = own(Path::new("cp"))?;
        succeeded(&copy.arg("-a").arg(self.folder.path.join("data")).arg(&folder.path).output()?)?;
        Postgres::begin(self.programs.clone(), folder, Reach::Machine, settings)
    }
}

fn launch(programs: &Path, folder: &Folder, port: u16, settings: &[String]) -> Result<Child, Failure> {
    // What the server before this one has left would say that this one is ready.
    let _ = fs::remove_file(folder.path.join("data/postmaster.pid"));
    let log = fs::File::options().create(true).append(true).open(folder.path.join("log"))?;
    let mut command = own(&programs.join("postgres"))?;
    command.arg("-D").arg(folder.path.join("data")).args(["-p", &port.to_string()]);
    command.arg("-c").arg(format!("unix_socket_directories={}", folder.path.display()));
    for setting in settings {
        command.args(["-c", setting]);
    }
    // Ctrl-C in a terminal is for the program that started it, which stops it last.
    command.process_group(0);
    Ok(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?)
}

fn succeeded(told: &Output) -> Result<(), Failure> {
    match told.status.success() {
        true => Ok(()),
        false => Err(Failure::Failed(String::from_utf8_lossy(&told.stderr).trim_end().to_owned())),
    }
}

/// The folder with the programs of the server.
pub fn programs() -> Option<PathBuf> {
    let here =
        |folder: &PathBuf| ["initdb", "postgres", "pg_ctl", "psql"].iter().all(|name| folder.join(name).exists());
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let told = Command::new("pg_config").arg("--bindir").output().ok();
    let told = told.map(|told| PathBuf::from(String::from_utf8_lossy(&told.stdout).trim()));
    let mut versions: Vec<PathBuf> = fs::read_dir(DEBIAN)
        .map(|folders| folders.filter_map(|folder| Some(folder.ok()?.path().join("bin"))).collect())
        .unwrap_or_default();
    versions.sort();
    std::env::split_paths(&paths).chain(told).chain(versions.into_iter().rev()).find(here)
}

/// A program that runs as somebody else than root, who may not start it.
///
/// # Errors
/// The errors of [`other`].
pub fn own(program: &Path) -> io::Result<Command> {
    let mut command = Command::new(program);
    if let Some((user, group)) = other()? {
        command.uid(user).gid(group);
    }
    // Where it may be: not the folder of root.
    command.current_dir("/");
    Ok(command)
}

/// Somebody else, by user and group, if this is root.
///
/// # Errors
/// The users of this machine cannot be read.
pub fn other() -> io::Result<Option<(u32, u32)>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2).map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    Ok(find("postgres").or_else(|| find("nobody")))
}

/// The folder in which each server gets its own folder. It is in memory if there is room: a new server writes a thousand files.
pub fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let room = |of: StatVfs| of.f_bavail.saturating_mul(of.f_frsize) > ROOM;
    let in_memory = statvfs(memory).is_ok_and(room) && access(memory, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    if in_memory { memory.into() } else { std::env::temp_dir() }
}

/// The free bytes of memory that there must be: more than all servers of a machine need at the same time.
const ROOM: u64 = 4 << 30;

/// A folder that the server may write to, and nobody else may read.
fn folder(programs: &Path) -> io::Result<Folder> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = place().join(format!("crocodile-pear-postgres-{}-{number}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&folder)?;
    let mut folder = Folder { path: folder, watcher: None };
    if let Some((user, group)) = other()? {
        chown(&folder.path, Some(user), Some(group))?;
    }
    folder.watcher = Some(watch(programs, &folder.path)?);
    Ok(folder)
}

/// Reads a line, or the end: then nobody is left who holds the other side.
const WATCH: &str = r#"read -r line || "$1" stop -s -m immediate -D "$2/data"; rm -rf "$2""#;

/// A process that outlives this one, even if it is killed: the server would go on else.
fn watch(programs: &Path, folder: &Path) -> io::Result<Child> {
    let mut command = own(Path::new("/bin/sh"))?;
    command.args(["-c", WATCH, "sh"]).arg(programs.join("pg_ctl")).arg(folder);
    // Ctrl-C in a terminal is not for it.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// Below the ports that the system gives to outgoing connections: one of these could take the port of a server that is started again.
const PORTS: std::ops::Range<u16> = 10_000..30_000;

/// The ports that a process claims together.
const BLOCK: u16 = 100;

/// The ports that this process has claimed and has not given out yet.
struct Claimed {
    /// The first port of each block. While this process listens on it, no other process claims the block.
    blocks: Vec<TcpListener>,
    left: std::ops::Range<u16>,
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}

/// Binds a socket to a port that nobody listens on. The socket does not listen: a program that is being started has a copy of
/// each socket of this process until it runs, and a copy that listens would keep everybody from the port.
fn take(port: u16) -> rustix::io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    Ok(socket)
}

/// A port that nobody listens on. Each call gives another one, in this process and in all others that use this function.
///
/// # Errors
/// `AddrInUse` if all are claimed.
pub fn free_port() -> io::Result<u16> {
    static CLAIMED: Mutex<Claimed> = Mutex::new(Claimed { blocks: Vec::new(), left: 0..0 });
    let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(port) = claimed.left.find(|port| take(*port).is_ok()) {
            return Ok(port);
        }
        let claim = |first| Some((listen(first)?, first + 1..first + BLOCK));
        let (block, left) = PORTS.step_by(BLOCK.into()).find_map(claim).ok_or(io::ErrorKind::AddrInUse)?;
        claimed.blocks.push(block);
        claimed.left = left;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_other_process_is_given_a_port_of_the_same_block() {
        let ports: HashSet<u16> = (0..150).map(|_| free_port().expect("a port")).collect();
        assert_eq!(ports.len(), 150);
        for port in ports {
            assert!(listen(port - port % BLOCK).is_none(), "nobody has claimed the block of {port}");
        }
    }

    #[test]
    fn a_port_that_is_still_held_elsewhere_can_be_listened_on() {
        let port = free_port().expect("a port");
        let held = take(port).expect("nobody listens");
        let listener = listen(port).expect("what is held does not listen");
        take(port).expect_err("somebody listens");
        drop((held, listener));
    }
}
