//! Who runs: the gateway, and whoever else is installed.

use std::net::SocketAddr;
use std::path::Path;

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
    Other(&'static Other),
}

/// Somebody who runs.
pub struct Entrant {
    pub who: Who,
    pub process: Process,
}

/// Starts the gateway, and whoever else is installed.
pub fn start(binary: &Path, upstream: SocketAddr, failed: &mut Vec<String>) -> Result<Vec<Entrant>> {
    let mut entrants = Vec::new();
    if Peer::Nginx.missing().is_none() {
        entrants.push(Entrant { who: Who::Nginx, process: Peer::Nginx.start(binary, upstream)? });
    }
    let process = product::start(binary, "calls", |listen| product::calls(listen, upstream))?;
    entrants.push(Entrant { who: Who::Own, process });
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
            Self::Other(other) => other.name,
        }
    }

    pub fn other(self) -> Option<&'static Other> {
        match self {
            Self::Other(other) => Some(other),
            Self::Nginx | Self::Own => None,
        }
    }

    /// What it is asked for the row, if it can do that.
    pub fn question(self, row: &Row, host: &str) -> Option<Question> {
        match self {
            Self::Nginx if row.target != ROWS[0].target => None,
            Self::Nginx | Self::Own => {
                Some(Question { request: load::get(row.target, host), expected: (row.expected)() })
            }
            Self::Other(other) => (other.question)(row.target, host),
        }
    }
}
