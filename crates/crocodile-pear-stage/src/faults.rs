//! Faults of what a gateway depends on, under a steady load: each answer is judged by its status, its body and its time.
//!
//! A fault is an item of a table, in a file for its dependency. It sets servers up, breaks them and mends them, and says
//! what clients may get meanwhile. Everything else is here.

mod dns;
mod figures;
mod identity;
mod load;
mod machine;
mod pairs;
mod postgresql;
mod redis;
mod shutdown;
mod tls;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub use self::figures::Figures;
use self::figures::Phase;
use self::load::Load;
pub use self::pairs::pairs;
pub use self::shutdown::{SHUTDOWNS, shutdown};
use crate::gateway::Gateway;
use crate::{PATIENCE, found, pause, scratch, until, within};

/// All faults, by what fails.
pub fn all() -> impl Iterator<Item = &'static Fault> {
    let tables = [postgresql::FAULTS, redis::FAULTS, dns::FAULTS, tls::FAULTS, machine::FAULTS, identity::FAULTS];
    tables.into_iter().flatten()
}

/// A fault: a row of the table.
pub struct Fault {
    /// The name: what fails, and how: `postgresql/killed`.
    pub name: &'static str,
    /// The answers that clients may get while it lasts.
    pub meanwhile: Meanwhile,
    /// How long everything may take to be whole again.
    pub whole: Duration,
    /// Text of the log line that tells of it. Empty if there is nothing to tell.
    pub told: &'static str,
    /// Whether the short form of the tests runs it.
    pub short: bool,
    /// Starts what the gateway depends on, with names that begin with this letter. `None` if a program is not installed.
    pub set: fn(&str) -> Option<Box<dyn FaultScene>>,
}

impl Fault {
    /// The part that fails.
    pub fn dependency(&self) -> &'static str {
        self.name.split('/').next().unwrap_or_default()
    }
}

/// The answers that clients may get while a fault lasts.
#[derive(Clone, Copy, Debug)]
pub struct Meanwhile {
    /// The statuses of answers that are not the right one.
    pub statuses: &'static [u16],
    /// How long an answer may take, on a machine that does nothing else.
    pub within: Duration,
    /// The least share of right answers, in percent.
    pub right: u32,
}

/// The servers of a fault, and what is asked of the gateway in front of them.
pub trait FaultScene: Send {
    /// The configuration of the gateway.
    fn config(&self) -> Config;

    /// The request with this number, and the right answer.
    fn ask(&self, number: u64) -> Ask;

    /// Changes how the gateway is started.
    fn command(&self, _: &mut Command) {}

    /// Breaks it.
    fn strike(&mut self, gateway: &Gateway);

    fn mend(&mut self, gateway: &Gateway);

    /// Checks what must hold at the end: the numbers of the requests that were answered as they should be.
    fn check(&mut self, _: &[u64]) -> Result<(), String> {
        Ok(())
    }
}

/// Nobody notices.
const UNNOTICED: Meanwhile = Meanwhile { statuses: &[], within: Duration::from_millis(500), right: 100 };

/// Servers, and what is done to them: most faults are a value of it.
struct Staged<S> {
    servers: S,
    config: Config,
    ask: Box<dyn Fn(u64) -> Ask + Send>,
    strike: fn(&mut S, &Gateway),
    mend: fn(&mut S, &Gateway),
}

impl<S: Send> FaultScene for Staged<S> {
    fn config(&self) -> Config {
        self.config.clone()
    }

    fn ask(&self, number: u64) -> Ask {
        (self.ask)(number)
    }

    fn strike(&mut self, gateway: &Gateway) {
        (self.strike)(&mut self.servers, gateway);
    }

    fn mend(&mut self, gateway: &Gateway) {
        (self.mend)(&mut self.servers, gateway);
    }
}

/// Parts of a configuration. Those of two faults make one.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Lines of the document.
    pub document: String,
    /// Lines below `upstreams`, indented by two.
    pub upstreams: String,
    /// The same below `databases`.
    pub databases: String,
    /// The same below `endpoints`.
    pub endpoints: String,
}

impl Config {
    fn and(self, other: Self) -> Self {
        Config {
            document: self.document + &other.document,
            upstreams: self.upstreams + &other.upstreams,
            databases: self.databases + &other.databases,
            endpoints: self.endpoints + &other.endpoints,
        }
    }

    fn text(&self) -> String {
        let part = |name: &str, lines: &str| match lines {
            "" => String::new(),
            lines => format!("{name}:\n{lines}"),
        };
        let parts = [
            part("upstreams", &self.upstreams),
            part("databases", &self.databases),
            part("endpoints", &self.endpoints),
        ];
        format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 2\n{}{}", self.document, parts.concat())
    }
}

/// A request, and the right answer.
#[derive(Clone, Debug)]
pub struct Ask {
    /// `GET /a`.
    pub call: String,
    /// Lines of fields, each with its end.
    pub fields: String,
    /// The body of the request.
    pub body: String,
    /// The body of the right answer.
    pub wanted: Wanted,
}

/// The body of a right answer, whose status is 200.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// These bytes.
    Exactly(String),
    /// Any of these.
    OneOf(Vec<String>),
}

impl Wanted {
    fn is(&self, body: &[u8]) -> bool {
        match self {
            Wanted::Exactly(text) => text.as_bytes() == body,
            Wanted::OneOf(texts) => texts.iter().any(|text| text.as_bytes() == body),
        }
    }
}

impl Ask {
    /// A plain GET.
    pub fn get(target: impl AsRef<str>, wanted: impl Into<String>) -> Self {
        let call = format!("GET {}", target.as_ref());
        Ask { call, fields: String::new(), body: String::new(), wanted: Wanted::Exactly(wanted.into()) }
    }

    /// A POST without a body.
    pub fn post(target: impl AsRef<str>, wanted: impl Into<String>) -> Self {
        Ask { call: format!("POST {}", target.as_ref()), ..Ask::get("", wanted) }
    }
}

/// How long each part of a run takes.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// While all is well.
    pub before: Duration,
    /// While the fault lasts.
    pub during: Duration,
    /// After it is whole.
    pub after: Duration,
    /// Requests a second.
    pub rate: u32,
    /// By how much longer than on an idle machine an answer may take.
    pub slack: u32,
}

impl Times {
    /// The times of the table.
    pub const LONG: Times = Times {
        before: Duration::from_secs(2),
        during: Duration::from_secs(6),
        after: Duration::from_secs(2),
        rate: 200,
        slack: 1,
    };

    /// The times of the tests, which run several faults at the same time.
    pub const SHORT: Times = Times {
        before: Duration::from_millis(500),
        during: Duration::from_millis(1500),
        after: Duration::from_millis(500),
        rate: 100,
        slack: 10,
    };
}

/// Whether the configuration is read again while the fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The configuration is not read again.
    Never,
    /// In the middle.
    Meanwhile,
}

static RUNS: AtomicUsize = AtomicUsize::new(0);

/// Faults with their servers, and a gateway under load.
struct Stage {
    name: String,
    scenes: Vec<Box<dyn FaultScene>>,
    config: Config,
    file: PathBuf,
    gateway: Gateway,
    load: Load,
}

impl Stage {
    /// `None` if a program is not installed.
    fn set(program: &Path, faults: &[&Fault], rate: u32, document: &str) -> Option<Self> {
        let name = faults.iter().map(|fault| fault.name).collect::<Vec<_>>().join(" + ");
        let letters = ["a", "b"];
        let scenes: Option<Vec<_>> = faults.iter().zip(letters).map(|(fault, letter)| (fault.set)(letter)).collect();
        let scenes = scenes?;
        let mut config = scenes.iter().map(|scene| scene.config()).reduce(Config::and)?;
        config.document.push_str(document);
        let file = scratch(format!("faults_{}_{}.yaml", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed)));
        write(&file, &config.text());
        let mut command = Command::new(program);
        command.arg("run").arg(&file);
        scenes.iter().for_each(|scene| scene.command(&mut command));
        let gateway = Gateway::begin(command).unwrap_or_else(|error| panic!("{name}: {error}\n{}", config.text()));
        let asks = scenes.iter().map(|scene| (0..load::KNOWN).map(|number| scene.ask(number)).collect()).collect();
        let load = Load::begin(gateway.address, rate, asks);
        Some(Stage { name, scenes, config, file, gateway, load })
    }
}

/// Runs faults at the same time, and judges every answer. `None` if a program is not installed.
pub fn run(program: &Path, faults: &[&Fault], times: Times, reload: Reload) -> Option<Figures> {
    let Stage { name, mut scenes, config, file, gateway, load } = Stage::set(program, faults, times.rate, "")?;
    pause(times.before);
    load.enter(Phase::During);
    scenes.iter_mut().for_each(|scene| scene.strike(&gateway));
    pause(times.during / 2);
    if reload == Reload::Meanwhile {
        // A changed file is another configuration; what it says of the parts is the same.
        let before = reloads(&gateway);
        write(&file, &format!("{}# again\n", config.text()));
        gateway.signal("HUP").unwrap();
        until("the configuration is read again", || reloads(&gateway) > before);
    }
    pause(times.during / 2);
    // On a busy machine the gateway tells of a fault later. Whether it has done so is judged at the end.
    let told = || faults.iter().all(|fault| gateway.said().contains(fault.told));
    within(PATIENCE, || told().then_some(()));
    let mended = Instant::now();
    scenes.iter_mut().for_each(|scene| scene.mend(&gateway));
    load.enter(Phase::Mended);
    let whole =
        found(|| load.whole().then(|| mended.elapsed()), || format!("{name}: all is well again\n{}", gateway.said()));
    load.enter(Phase::After);
    pause(times.after);
    let replies = load.end();
    let said = gateway.said();
    let mut figures = Figures::of(name, &replies, faults, (whole, times.slack), &said);
    for (at, scene) in scenes.iter_mut().enumerate() {
        let right: Vec<u64> =
            replies.iter().filter(|reply| reply.fault == at && reply.right).map(|reply| reply.number).collect();
        if let Err(reason) = scene.check(&right) {
            figures.wrong.push(reason);
        }
    }
    let _ = std::fs::remove_file(file);
    Some(figures)
}

/// How often the configuration was read again: its metric, since a log may not be read.
fn reloads(gateway: &Gateway) -> u64 {
    let ask = || {
        let mut admin = TcpStream::connect(gateway.admin().ok()?).ok()?;
        admin.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").ok()?;
        let mut said = String::new();
        admin.read_to_string(&mut said).ok()?;
        let line = said.lines().find(|line| line.starts_with("crocodile_pear_reloads_total{result=\"success\""))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    ask().unwrap_or_default()
}

fn write(file: &Path, text: &str) {
    std::fs::File::create(file).and_then(|mut file| file.write_all(text.as_bytes())).unwrap();
}

type Asks = Arc<[Vec<Ask>]>;
