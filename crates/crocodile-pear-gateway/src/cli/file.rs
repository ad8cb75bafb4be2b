//! The configuration of a command: read and compiled, with what was found.

use std::path::PathBuf;
use std::thread;

use crocodile_pear::unstable::config::problem::{ConfigProblem, Problems, Severity, Span};
use crocodile_pear::unstable::config::spec::Decode;

use crate::config::visible;
use crate::config::{self, Colour, ProblemFormat, Source, Sources};
use crate::gateway::choices;
use crate::gateway::document::{self, Document, Unread};
use crate::gateway::locked_settings;
use crate::gateway::{CompileEnvironment, Gateway};
use crate::layers::Setting;
use crate::observe::log::Log;
use crate::shared::persistent_state::PersistentState;

/// The configuration that commands take if none is named.
pub(super) const CONFIG: &str = "crocodile-pear.yaml";

/// The usual stack of a process's first thread: a configuration can be deeply nested.
const STACK: usize = 8 << 20;

/// Where the configuration is.
#[derive(clap::Args)]
pub(super) struct ConfigFile {
    /// The configuration file; `-` for the standard input.
    #[arg(default_value = CONFIG)]
    pub(super) file: PathBuf,
}

/// A configuration that was read, with what was found.
pub(super) struct Loaded {
    pub(super) document: Option<Document>,
    pub(super) gateway: Option<Gateway>,
    pub(super) problems: Vec<ConfigProblem>,
    pub(super) sources: Sources,
    /// The settings of the log, if they can be read.
    pub(super) log: Option<Log>,
}

impl ConfigFile {
    /// Reads and compiles it: the same way for `run`, `check`, `explain` and a reload.
    pub(super) fn load(&self) -> Loaded {
        self.reload(&PersistentState::default())
    }

    /// The same for a gateway that goes on with what the one before it has.
    pub(super) fn reload(&self, persistent: &PersistentState) -> Loaded {
        let read = || {
            let (node, sources, problems) = config::load(&self.file);
            compile(node.as_ref(), sources, persistent, problems)
        };
        self.on_a_thread(read)
    }

    /// Reads it on a thread that ends. The allocator keeps freed memory for the thread that used it, so a thread that lives on
    /// would keep the memory of every replaced gateway.
    ///
    /// A panic becomes a problem of the configuration: a gateway that runs keeps the old one, and can read the next one.
    fn on_a_thread(&self, read: impl Fn() -> Loaded + Sync) -> Loaded {
        let named = || thread::Builder::new().name("load".into()).stack_size(STACK);
        thread::scope(|scope| match named().spawn_scoped(scope, &read) {
            Ok(reading) => reading.join().unwrap_or_else(|_| self.broken()),
            Err(_) => read(),
        })
    }

    fn broken(&self) -> Loaded {
        let mut problems = Problems::default();
        let remedy = "the message before this one says where it happened; please report it";
        let _: Option<()> = problems.error(
            Span::default(),
            "the configuration could not be read because of a fault in crocodile-pear itself",
            remedy,
        );
        let source = Source { path: self.file.clone(), text: String::new() };
        let sources = Sources { files: vec![source], ..Sources::default() };
        Loaded { document: None, gateway: None, problems: problems.into_sorted(), sources, log: None }
    }
}

pub(super) fn compile(
    node: Option<&crocodile_pear::unstable::config::spec::Node>,
    sources: Sources,
    persistent: &PersistentState,
    mut problems: Problems,
) -> Loaded {
    if let Some(node) = node {
        document::check_served(node, &mut problems);
        document::check_trust(node, &mut problems);
        choices::check(node, &mut problems);
        locked_settings::check(node, &mut problems);
    }
    let node = node.filter(|node| !document::is_empty(node, &mut problems));
    let document = node.and_then(|node| Document::decode(node, &mut problems));
    let files = |written: &_| sources.beside(written);
    let paths = |written: &_| sources.path(written);
    let unread = Unread::default();
    let given = CompileEnvironment { unread: &unread, files: &files, paths: &paths, persistent };
    let gateway = document.as_ref().and_then(|document| Gateway::compile(document, given, &mut problems));
    let mut log = document.as_ref().and_then(|document| document.layers.observe.clone());
    if let (None, Some(node)) = (&document, node) {
        let (readable, broken) = Document::partial(node);
        log = readable.layers.observe.clone();
        let given = CompileEnvironment { unread: &broken, ..given };
        drop(Gateway::compile(&readable, given, &mut problems));
    }
    let gateway = gateway.filter(|_| !problems.fatal());
    let log = log.as_ref().and_then(Setting::on).cloned();
    Loaded { document, gateway, problems: problems.into_sorted(), sources, log }
}

impl Loaded {
    /// The report on the problems, empty when there are none.
    pub(super) fn report(&self, format: ProblemFormat) -> String {
        config::report(&self.problems, &self.sources, format)
    }

    /// The problems, each as one line.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |problem: &ConfigProblem| {
            let ConfigProblem { message, .. } = self.sources.masked(problem);
            visible::plain(&format!("{}: {message}", self.sources.place(problem.span)))
        };
        self.problems.iter().map(line).collect()
    }

    /// Writes the problems to the log, each as one line.
    pub(super) fn log(&self) {
        for problem in &self.problems {
            let problem = self.sources.masked(problem);
            let at = self.sources.place(problem.span);
            let remedy = problem.remedy.as_deref().unwrap_or_default();
            match problem.severity {
                Severity::Error => tracing::error!(at, remedy, "{}", problem.message),
                Severity::Warning => tracing::warn!(at, remedy, "{}", problem.message),
            }
        }
    }

    /// Reports the problems; the gateway and its document if it can run, and where they were read from.
    pub(super) fn usable(self) -> Option<(Document, Gateway, Sources)> {
        self.tell();
        self.parts()
    }

    /// Writes the report to the standard error stream.
    pub(super) fn tell(&self) {
        if !self.problems.is_empty() {
            eprint!("{}", self.report(ProblemFormat::Text(Colour::on(&std::io::stderr()))));
        }
    }

    /// The gateway and its document if it can run, and where they were read from.
    pub(super) fn parts(self) -> Option<(Document, Gateway, Sources)> {
        Some((self.document?, self.gateway?, self.sources))
    }

    pub(super) fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_problem() {
        let file = ConfigFile { file: "a.yaml".into() };
        let loaded = file.on_a_thread(|| panic!("a fault"));
        assert!(loaded.has_errors() && loaded.gateway.is_none());
        assert_eq!(
            loaded.lines(),
            ["a.yaml: the configuration could not be read because of a fault in crocodile-pear itself"]
        );
    }
}
