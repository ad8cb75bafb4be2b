//! Knowledge points one way: a module names only those that stand above it in these lists, so there is no ring.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// The library, from what knows nothing to what knows everything.
const LIBRARY: &[&str] = &[
    "error",
    "problem",
    "spec",
    "socket",
    "timeline",
    "trace",
    "record",
    "limiter",
    "alarm",
    "threads",
    "histogram",
    "offload",
    "via",
    "http1",
    "jq::value",
    "format::json",
    "format::xml",
    "jq",
    "flow",
    "format",
    "scope",
    "cache",
    "template",
    "upstream",
    "database",
    "step",
    "steps",
    "plan",
    "client",
];

/// The gateway likewise.
const GATEWAY: &[&str] = &[
    "config",
    "address",
    "operators",
    "network",
    "forwarded",
    "background",
    "analytics",
    "watched",
    "stamp",
    "journal",
    "pool",
    "server",
    "rate",
    "strict",
    "listen",
    "traces",
    "ledger",
    "metrics",
    "history",
    "lasting",
    "route",
    "respond",
    "compress",
    "version",
    "store",
    "purge",
    "events",
    "layer",
    "access",
    "log",
    "counted",
    "stack",
    "layers",
    "upgrade",
    "document",
    "itself",
    "demo",
    "gateway",
    "health",
    "configured",
    "live",
    "admin",
    "certificates",
    "acme",
    "cli",
];

/// Macros live at the root of their crate, wherever they are written.
const MACROS: [&str; 2] = ["choice", "spec"];

#[test]
fn the_library_knows_only_what_stands_before() {
    check(Path::new(env!("CARGO_MANIFEST_DIR")), LIBRARY);
}

#[test]
fn the_gateway_knows_only_what_stands_before() {
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crocodile-pear-gateway"), GATEWAY);
}

/// The engine may be replaced, and every limit that it lacks stands in one place.
#[test]
fn only_the_expressions_name_their_engine() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let named = files(&source).into_iter().filter(|file| lines(file).iter().any(|line| line.contains("jaq_")));
    let outside: Vec<String> =
        named.map(|file| module(&source, &file)).filter(|name| !name.starts_with("jq")).collect();
    assert_eq!(outside, Vec::<String>::new());
}

fn check(root: &Path, order: &[&str]) {
    let source = root.join("src");
    let mut wrong = Vec::new();
    for file in files(&source) {
        let name = module(&source, &file);
        if matches!(name.as_str(), "lib" | "main") {
            continue;
        }
        let own = layer(&name, order).unwrap_or_else(|| panic!("{name} stands in no list"));
        for known in lines(&file).iter().flat_map(|line| named(line)) {
            match layer(&known, order) {
                Some(known) if known <= own => {}
                None if MACROS.contains(&known.as_str()) => {}
                _ => wrong.push(format!("{name} knows {known}")),
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert_eq!(wrong, Vec::<String>::new());
}

/// Where a module stands: by the longest entry that it is, or is in.
fn layer(name: &str, order: &[&str]) -> Option<usize> {
    let within = |entry: &str| name == entry || name.strip_prefix(entry).is_some_and(|rest| rest.starts_with("::"));
    let found = order.iter().enumerate().filter(|(_, entry)| within(entry));
    found.max_by_key(|(_, entry)| entry.len()).map(|(at, _)| at)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

/// `src/jq/value.rs` is `jq::value`.
fn module(source: &Path, file: &Path) -> String {
    let path = file.strip_prefix(source).unwrap().with_extension("");
    path.iter().map(|part| part.to_str().unwrap()).collect::<Vec<_>>().join("::")
}

/// The lines of a file without comments and unit tests: those may know anything.
fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let tests = file.ends_with("tests.rs") || file.ends_with("trial.rs");
    let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//") && !tests);
    lines.map(str::to_owned).collect()
}

/// The modules that a line names behind `crate::`, as deep as they are written.
fn named(line: &str) -> Vec<String> {
    let path = |rest: &str| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && !"_:".contains(c)).unwrap_or(rest.len());
        rest[..end].trim_end_matches(':').to_owned()
    };
    let after = line.match_indices("crate::").filter(|(at, _)| !line[..*at].ends_with('$'));
    let rests = after.map(|(at, word)| &line[at + word.len()..]);
    rests
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(group) => {
                group.split('}').next().unwrap_or_default().split(',').map(|part| path(part.trim())).collect()
            }
            None => vec![path(rest)],
        })
        .filter(|name| !name.is_empty())
        .collect()
}
