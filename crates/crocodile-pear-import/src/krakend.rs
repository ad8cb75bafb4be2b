//! `import krakend`: a configuration of KrakenD, version 2 or 3.
//!
//! The meaning is that of Lura 2, KrakenD's engine. A key is taken by the file of its concern, and whoever takes it says
//! what became of it (`ledger`): a key that nobody takes is reported, so that none vanishes.

mod auth;
mod backend;
mod cel;
mod cors;
mod elsewhere;
mod endpoint;
mod flatmap;
mod json;
mod keys;
mod ledger;
mod limit;
mod martian;
mod old;
mod path;
mod read;
mod router;
mod secure;
mod service;
mod shape;
mod steps;
mod telemetry;
mod tls;
mod toml;
mod upstreams;

#[cfg(test)]
mod tests;

use std::path::Path;

use crocodile_pear_spec::problem::{Problems, Span};

use super::outcome::{Imported, Unreadable};
use super::report::Report;
use keys::ObjectKeys;
use ledger::KeyLedger;
use read::KrakendFile;

/// Imports a file.
///
/// # Errors
/// Where it cannot be read, or is no configuration of KrakenD.
pub fn import(path: &Path) -> Result<Imported, Unreadable> {
    make(read::read(path)?)
}

fn make(read: KrakendFile) -> Result<Imported, Unreadable> {
    let KrakendFile { root, repeated, sources } = read;
    let version = match version(&root) {
        Ok(version) => version,
        Err((span, message, remedy)) => {
            let mut problems = Problems::default();
            problems.error::<()>(span, message, remedy);
            return Err(Unreadable { sources, problems: problems.into_sorted() });
        }
    };
    let ledger = KeyLedger::new(Report::new(sources), version);
    for key in &repeated {
        ledger.ignore(&key.value, key.span, "the same object has the key again, and the last one counts");
    }
    let configuration = ObjectKeys::root(&root, &ledger).map(|keys| service::read(&keys)).unwrap_or_default();
    Ok(Imported { configuration, report: ledger.close(&root) })
}

/// The version of the file's format.
fn version(root: &crocodile_pear_spec::settings::Node) -> Result<u64, (Span, String, &'static str)> {
    if root.as_map().is_none() {
        return Err((root.span, format!("found {}, wanted a configuration of KrakenD", root.found()), ""));
    }
    let Some(version) = root.field("version") else {
        return Err((
            Span { length: 1, ..root.span },
            "the file has no `version`".to_owned(),
            "a configuration of KrakenD has `\"version\": 3`",
        ));
    };
    match version.as_plain().and_then(|text| text.parse::<f64>().ok()) {
        Some(2.0) => Ok(2),
        Some(3.0) => Ok(3),
        _ => Err((version.span, format!("found version {}, and versions 2 and 3 are known", version.found()), "")),
    }
}
