//! The stage on which the documents are tried: the real binary, on free ports in the place of those that the documents name.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crocodile_pear_demo::postgres::Postgres;
use crocodile_pear_stage::database::launch;
use crocodile_pear_stage::{until, within};
use rustix::process::{Pid, Signal, kill_process};

const BINARY: &str = env!("CARGO_BIN_EXE_crocodile-pear");

/// Longer than any start, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is told to stop has this long.
const STOP: Duration = Duration::from_secs(5);

/// The lines of a log that are kept: its start, where the addresses are.
const LINES: usize = 1000;

/// A gateway, or the demo, until it is dropped.
pub struct Served {
    process: Child,
    // Several pages look at one demo.
    lines: Mutex<mpsc::Receiver<String>>,
}

impl Served {
    /// Starts the binary.
    pub fn begin(arguments: &[&str], environment: &[(&str, &str)], folder: &Path) -> Self {
        let mut command = Command::new(BINARY);
        command.args(arguments).envs(environment.iter().copied()).current_dir(folder);
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let told = BufReader::new(process.stderr.take().unwrap());
        let (sender, lines) = mpsc::sync_channel(LINES);
        // It reads on when nobody listens any more, and drops what it cannot keep: a full pipe would stop the process.
        thread::spawn(move || told.lines().map_while(Result::ok).for_each(|line| drop(sender.try_send(line))));
        Served { process, lines: Mutex::new(lines) }
    }

    /// Waits until one signal has ended it.
    pub fn stop(mut self) {
        self.terminate();
        until("the process ends", || self.process.try_wait().unwrap().is_some());
    }

    fn terminate(&self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The next line with `words` in what it says.
    pub fn line(&self, words: &str) -> String {
        let (mut told, lines) = (String::new(), self.lines.lock().unwrap());
        loop {
            let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no `{words}` in:\n{told}"));
            if line.contains(words) {
                return line;
            }
            told += &(line + "\n");
        }
    }

    /// The address behind `words` in what it says at its start.
    pub fn address(&self, words: &str) -> String {
        let line = self.line(words);
        let rest = line.split_once(words).unwrap().1;
        let end = rest.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c)));
        rest[..end.unwrap_or(rest.len())].trim_end_matches('.').to_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Processes that it has started end with it. The first signal begins a notice to load balancers that takes seconds; the
        // second one ends that.
        let _ = within(STOP, || {
            let ended = self.process.try_wait().transpose();
            if ended.is_none() {
                self.terminate();
            }
            ended
        });
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The demo, and where it is.
pub struct Demo {
    /// Its gateway.
    pub gateway: String,
    /// Its example upstreams.
    pub upstreams: String,
    _served: Served,
}

impl Demo {
    /// Starts the demo as anyone would, on free ports.
    pub fn begin() -> Self {
        let served = Served::begin(
            &["demo", "--listen", "127.0.0.1:0", "--upstreams", "127.0.0.1:0"],
            &[],
            &std::env::temp_dir(),
        );
        // One line tells both.
        let line = served.line("The gateway is at");
        let mut addresses = line.split("http://").skip(1).map(|rest| rest.split([',', ' ']).next().unwrap());
        let mut next = || addresses.next().unwrap().trim_end_matches('.').to_owned();
        Demo { gateway: next(), upstreams: next(), _served: served }
    }
}

/// Runs a line of a shell; `crocodile-pear` is the binary, and curl shows no progress.
pub fn shell(line: &str, folder: &Path) -> Output {
    let line = line.replace("curl ", "curl -sS ");
    let binary = Path::new(BINARY).parent().unwrap().display();
    let path = std::env::var("PATH").unwrap_or_default();
    // For a name without a folder, `Command` forks and then searches `PATH`. A fork copies the page tables of all tests.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &line]).current_dir(folder).env("PATH", format!("{binary}:{path}")).env("NO_COLOR", "1");
    // Help is wrapped for the reader of the reference, not for this terminal.
    command.env_remove("COLUMNS");
    command.stdin(Stdio::null()).output().unwrap()
}

/// Starts a PostgreSQL if the page or example needs one. Gives nothing if PostgreSQL is not installed.
pub fn postgres() -> Option<Postgres> {
    launch(&["max_connections=50"])
}
