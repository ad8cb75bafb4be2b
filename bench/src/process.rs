//! A process under measurement, with its children: started, read from `/proc`, stopped.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// How long a process may take to listen, and to stop: a JVM on a busy machine takes twenty seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Linux counts CPU time for `/proc` in hundredths of a second, whatever its own tick.
const TICK: Duration = Duration::from_millis(10);

pub struct Process {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Removed after it has stopped.
    _folder: Folder,
}

/// A folder for configurations and logs, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("crocodile-pear-bench-{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An address that nobody listens on at the moment.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

impl Process {
    /// Starts the command and returns once it accepts connections. What it says goes to a file in the folder,
    /// and into the error when it ends instead.
    pub fn start(mut command: Command, address: SocketAddr, folder: Folder) -> Result<Self> {
        let said = folder.path().join("output.log");
        let output = File::create(&said)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut process = Self { child: command.spawn()?, address, _folder: folder };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            let ended = process.child.try_wait()?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let how = ended.map_or("does not listen".to_owned(), |status| format!("ended: {status}"));
                return Err(format!("{how}\n{}", fs::read_to_string(&said)?.trim_end()).into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(process)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time in user and kernel mode, of the process and its children, all threads.
    pub fn cpu(&self) -> Result<Duration> {
        cpu(self.child.id())
    }

    /// The most memory that was ever resident, in bytes, summed over the process and its children.
    pub fn peak(&self) -> Result<u64> {
        let mut kibibytes = 0;
        for id in family(self.child.id())? {
            let status = fs::read_to_string(format!("/proc/{id}/status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc")?;
            kibibytes += line.trim().trim_end_matches(" kB").parse::<u64>()?;
        }
        Ok(kibibytes << 10)
    }
}

/// CPU time in user and kernel mode, of this process and its children, all threads.
pub fn cpu(id: u32) -> Result<Duration> {
    let mut ticks = 0;
    for id in family(id)? {
        // A child may end while they are added up.
        let Ok(stat) = stat(id) else { continue };
        // Fields 14 to 17 of proc(5), the last two of children that have ended; the third is the first after the name.
        for field in &stat[11..15] {
            ticks += field.parse::<u32>()?;
        }
    }
    Ok(TICK * ticks)
}

/// The resources of a process at a moment.
#[derive(Clone, Copy)]
pub struct Sample {
    pub threads: u64,
    /// Bytes of memory.
    pub resident: u64,
    pub files: u64,
}

impl Sample {
    /// The most of each.
    pub fn max(self, other: Self) -> Self {
        Self {
            threads: self.threads.max(other.threads),
            resident: self.resident.max(other.resident),
            files: self.files.max(other.files),
        }
    }
}

/// Looks at one process, without its children.
pub fn sample(id: u32) -> Result<Sample> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let number = |name: &str| {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| format!("no {name} in /proc"))?;
        Result::Ok(line.trim().trim_end_matches(" kB").parse::<u64>()?)
    };
    let files = fs::read_dir(format!("/proc/{id}/fd"))?.count() as u64;
    Ok(Sample { threads: number("Threads:")?, resident: number("VmRSS:")? << 10, files })
}

impl Drop for Process {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// Asks a process to stop, so that it stops its own children; kills it, and them, when it does not.
pub fn stop(child: &mut Child) {
    let family = family(child.id()).unwrap_or_default();
    signal("-TERM", &[child.id()]);
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if begun.elapsed() > PATIENCE {
            signal("-KILL", &family);
            let _ = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process and its children.
pub fn family(own: u32) -> Result<Vec<u32>> {
    let mut family = vec![own];
    for entry in fs::read_dir("/proc")? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end while the list is read.
        if stat(id).is_ok_and(|stat| stat[1] == own.to_string()) {
            family.push(id);
        }
    }
    Ok(family)
}

fn signal(name: &str, ids: &[u32]) {
    let ids = ids.iter().map(ToString::to_string);
    let _ = Command::new("kill").arg(name).args(ids).stderr(Stdio::null()).status();
}

/// The fields of `/proc/ID/stat` after the name, which may itself hold spaces and brackets.
fn stat(id: u32) -> Result<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{id}/stat"))?;
    let (_, fields) = text.rsplit_once(") ").ok_or("no name in /proc/ID/stat")?;
    Ok(fields.split(' ').map(str::to_owned).collect())
}
