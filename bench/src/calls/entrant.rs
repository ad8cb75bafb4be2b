//! The entrants: the gateway, and other programs that are installed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::other::{Other, Question};
use super::rows::{ROWS, Row};
use super::{krakend, tailcall};
use crate::peers::Peer;
use crate::process::Process;
use crate::{Result, load, product};

pub const OTHERS: [Other; 2] = [krakend::KRAKEND, tailcall::TAILCALL];

/// Whom a column is of.
#[derive(Clone, Copy)]
pub enum Who {
    Nginx,
    Own,
    /// Another build of the gateway.
    Build(&'static str),
    Other(&'static Other),
}

/// Another build of the gateway, which has a column.
#[derive(Clone)]
pub struct Build {
    pub name: &'static str,
    binary: PathBuf,
}

impl FromStr for Build {
    type Err = String;

    /// Reads `NAME=BINARY`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, binary) = text.split_once('=').ok_or("write NAME=BINARY")?;
        // The process has a handful of them, and keeps them to its end.
        Ok(Build { name: name.to_owned().leak(), binary: binary.into() })
    }
}

/// Somebody who runs.
pub struct Entrant {
    pub who: Who,
    pub process: Process,
}

/// Starts the gateway, its other builds, and whoever else is installed.
pub fn start(binary: &Path, builds: &[Build], upstream: SocketAddr, failed: &mut Vec<String>) -> Result<Vec<Entrant>> {
    let mut entrants = Vec::new();
    if Peer::Nginx.missing().is_none() {
        entrants.push(Entrant { who: Who::Nginx, process: Peer::Nginx.start(binary, upstream)? });
    }
    let own = |binary: &Path| product::start(binary, "calls", |listen| product::calls(listen, upstream));
    entrants.push(Entrant { who: Who::Own, process: own(binary)? });
    for build in builds {
        entrants.push(Entrant { who: Who::Build(build.name), process: own(&build.binary)? });
    }
    for other in OTHERS.iter().filter(|other| other.installed().is_some()) {
        match other.start(upstream) {
            Ok(process) => entrants.push(Entrant { who: Who::Other(other), process }),
            Err(error) => failed.push(error.to_string()),
        }
    }
    Ok(entrants)
}

impl Who {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Own => "crocodile-pear",
            Self::Build(name) => name,
            Self::Other(other) => other.name,
        }
    }

    pub fn other(self) -> Option<&'static Other> {
        match self {
            Self::Other(other) => Some(other),
            Self::Nginx | Self::Own | Self::Build(_) => None,
        }
    }

    /// The request for the row, if the entrant can serve it.
    pub fn question(self, row: &Row, host: &str) -> Option<Question> {
        match self {
            Self::Nginx if row.target != ROWS[0].target => None,
            Self::Nginx | Self::Own | Self::Build(_) => {
                Some(Question { request: load::get(row.target, host), expected: (row.expected)() })
            }
            Self::Other(other) => (other.question)(row.target, host),
        }
    }
}
