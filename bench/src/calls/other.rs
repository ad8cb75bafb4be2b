//! A gateway of others: it has a column where its program is in PATH.

use std::net::SocketAddr;
use std::process::Command;

use crate::Result;
use crate::expected::Expected;
use crate::process::{Folder, Process, free_address};

pub struct Other {
    pub name: &'static str,
    pub program: &'static str,
    /// Makes it print its version, on the first line.
    pub version: &'static str,
    /// The package to install if it is missing.
    pub install: &'static str,
    /// The report's note on its setup.
    pub setup: &'static str,
    /// The arguments before the name of its configuration file.
    pub arguments: &'static [&'static str],
    pub environment: &'static [(&'static str, &'static str)],
    /// The name of that file.
    pub file: &'static str,
    /// The configuration, for the address to listen on and that of the upstream.
    pub configure: fn(SocketAddr, SocketAddr) -> String,
    /// The request for the row with this target, with the host; `None` if it cannot be served.
    pub question: fn(&str, &str) -> Option<Question>,
}

/// A request, and what must come back.
pub struct Question {
    pub request: Vec<u8>,
    pub expected: Expected,
}

impl Other {
    /// The version, if it is installed.
    pub fn installed(&self) -> Option<String> {
        let told = Command::new(self.program).arg(self.version).output().ok()?;
        let told = String::from_utf8_lossy(&told.stdout).trim().to_owned();
        Some(told.lines().next().unwrap_or("without a version").to_owned())
    }

    pub fn start(&self, upstream: SocketAddr) -> Result<Process> {
        let folder = Folder::new(self.program)?;
        let address = free_address()?;
        let file = folder.write(self.file, &(self.configure)(address, upstream))?;
        let mut command = Command::new(self.program);
        command.args(self.arguments).arg(file).envs(self.environment.iter().copied()).current_dir(folder.path());
        Process::start(command, address, folder).map_err(|error| format!("{}: {error}", self.name).into())
    }
}
