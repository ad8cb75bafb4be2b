//! A file of nginx while it is imported.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::ledger::DirectiveLedger;
use super::location::{self, Location};
use super::parse::Directive;
use super::scope::Scope;
use super::upstreams::ProxyUpstreams;
use super::variable::Maps;

/// A file of nginx while it is imported.
pub struct NginxFile<'a> {
    pub ledger: &'a DirectiveLedger,
    /// The directives of `http`.
    pub http: Scope<'a>,
    /// The `upstream` blocks by name.
    pub blocks: HashMap<String, &'a Directive>,
    pub maps: &'a Maps<'a>,
    /// `limit_req_zone`, `limit_conn_zone` and `log_format` by name.
    pub requests: HashMap<String, &'a Directive>,
    pub connections: HashMap<String, &'a Directive>,
    pub formats: HashMap<String, &'a Directive>,
    /// Whether endings of files have content types.
    pub has_types: bool,
    /// The folder of the main file, and that of the configuration that is written.
    pub main: PathBuf,
    pub output: PathBuf,
    pub upstreams: RefCell<ProxyUpstreams>,
    /// The locations of the server that is being read.
    pub locations: RefCell<Vec<Location<'a>>>,
    pub told_open: Cell<bool>,
    /// How many endpoints use a zone, by the number of its directive.
    pub counted: RefCell<HashMap<usize, usize>>,
}

impl<'a> NginxFile<'a> {
    /// Where a file is that the input names.
    pub fn real(&self, written: &str) -> PathBuf {
        self.main.join(written)
    }

    /// The path of a file as the configuration names it: relative to its own folder.
    pub fn path(&self, written: &str) -> String {
        if written.starts_with('/') {
            return written.to_owned();
        }
        let folder = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if folder(&self.main) == folder(&self.output) {
            return written.to_owned();
        }
        folder(&self.real(written)).display().to_string()
    }

    /// The location with a call that answers a subrequest.
    pub fn internal(&self, uri: &str) -> Option<(&'a Directive, Scope<'a>)> {
        let locations = self.locations.borrow();
        let found = location::find(&locations, uri, true)?;
        let has_call = found.scope.own().iter().any(|directive| directive.name == "proxy_pass");
        has_call.then(|| (found.directive, found.scope.clone()))
    }

    /// Whether requests are not logged where others are.
    pub fn is_silent(&self, scope: &Scope<'_>) -> bool {
        let Some(directive) = scope.own().iter().find(|directive| directive.name == "access_log") else { return false };
        if directive.is("off") {
            self.ledger.import(directive);
        }
        directive.is("off")
    }
}
