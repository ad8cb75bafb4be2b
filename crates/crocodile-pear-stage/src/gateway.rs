//! The binary, run as an operator runs it.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::script::like;
use crate::{PATIENCE, within};

/// A gateway in a process of its own, which ends with it.
pub struct Gateway {
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
    log: Log,
}

impl Gateway {
    /// Runs it with a configuration, in a file that no other gateway has.
    pub fn of(config: impl AsRef<[u8]>) -> Self {
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let file = crate::scratch(format!("gateway_{}.yaml", FILES.fetch_add(1, Ordering::Relaxed)));
        std::fs::write(&file, config).unwrap();
        Self::run(file)
    }

    /// Runs it with this file.
    pub fn run(file: impl AsRef<OsStr>) -> Self {
        Self::start(["run".as_ref(), file.as_ref()], []).unwrap()
    }

    /// Starts it, and waits until it listens.
    pub fn start<A: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = A>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, String> {
        let mut command = Command::new(crate::program("crocodile-pear"));
        command.args(arguments).envs(environment);
        Self::begin(command)
    }

    /// Starts it by this command, and waits until it listens.
    pub fn begin(mut command: Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let log = Log::default();
        if let Some(lines) = child.stderr.take() {
            let log = log.clone();
            thread::spawn(move || log.follow(BufReader::new(lines)));
        }
        let mut gateway = Gateway { address: ([127, 0, 0, 1], 0).into(), child, log };
        let line =
            gateway.logged("*listening on http*://*").map_err(|_| format!("it does not start: {}", gateway.said()))?;
        gateway.address = address(&line)?;
        Ok(gateway)
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The memory that it has, in bytes.
    pub fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most memory that it ever had, in bytes.
    pub fn peak(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// The CPU time that it has had, in ticks: hundredths of a second.
    pub fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // `utime` and `stime`.
        fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum()
    }

    /// Waits for a line of the log; `*` is any text.
    pub fn logged(&self, pattern: &str) -> Result<String, String> {
        self.log.wait(pattern)
    }

    /// Where operators ask it.
    pub fn admin(&self) -> Result<SocketAddr, String> {
        address(&self.logged("*health and metrics on http://*")?)
    }

    /// Everything it has said so far.
    pub fn said(&self) -> String {
        self.log.lines.0.lock().unwrap_or_else(PoisonError::into_inner).lines.join("\n")
    }

    /// Reads no further line of its log, until `read` is called.
    pub fn stop_reading(&self) {
        self.log.add(|log| log.paused = true);
    }

    /// Reads its log again.
    pub fn read(&self) {
        self.log.add(|log| log.paused = false);
    }

    /// Sends it a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) -> Result<(), String> {
        // The shell's own `kill`: no other program need be there.
        let sent = Command::new("sh").args(["-c", &format!("kill -s {name} {}", self.child.id())]).status();
        sent.ok().filter(ExitStatus::success).map(drop).ok_or_else(|| format!("SIG{name} could not be sent"))
    }

    /// Waits until it ends.
    pub fn ended(&mut self) -> Result<ExitStatus, String> {
        // The standard library cannot wait for a process with a bound.
        let ended = within(PATIENCE, || self.child.try_wait().transpose());
        ended.ok_or("the gateway does not end")?.map_err(|error| error.to_string())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address of the last URL in a line.
fn address(line: &str) -> Result<SocketAddr, String> {
    let address = line.rsplit("://").next().unwrap_or_default();
    let end = address.find(|c: char| !c.is_ascii_digit() && !".:[]".contains(c)).unwrap_or(address.len());
    address[..end].parse().map_err(|_| format!("no address in {line:?}"))
}

/// The lines that a gateway writes to its standard error stream.
#[derive(Clone, Default)]
struct Log {
    lines: Arc<(Mutex<Lines>, Condvar)>,
}

#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    over: bool,
    paused: bool,
}

impl Log {
    fn follow(&self, lines: impl BufRead) {
        for line in lines.lines().map_while(Result::ok) {
            self.add(|log| log.lines.push(line));
            let log = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.lines.1.wait_while(log, |log| log.paused));
        }
        self.add(|log| log.over = true);
    }

    fn add(&self, change: impl FnOnce(&mut Lines)) {
        change(&mut self.lines.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.lines.1.notify_all();
    }

    fn wait(&self, pattern: &str) -> Result<String, String> {
        let log = self.lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        let missing = |log: &mut Lines| {
            found = log.lines.iter().find(|line| like(line, pattern)).cloned();
            found.is_none() && !log.over
        };
        drop(self.lines.1.wait_timeout_while(log, PATIENCE, missing));
        found.ok_or_else(|| format!("no line of the log is like {pattern:?}"))
    }
}
