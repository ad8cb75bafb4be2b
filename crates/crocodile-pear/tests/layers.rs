//! Knowledge points one way: a floor names only those that stand before it in these lists, and there is no ring.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The floors of the crate of jq, the lowest first.
const JQ: &[&str] = &["error", "calendar", "hex", "meter", "json", "jq"];

/// The floors of the crate of settings likewise.
const SPEC: &[&str] = &["visible", "problem", "settings", "yaml", "document"];

/// The floors of the crate of HTTP/1.1 likewise.
const HTTP1: &[&str] = &[
    "error",
    "line",
    "list",
    "media_type",
    "fields",
    "trailers",
    "name",
    "chunk",
    "framing",
    "headers",
    "unread",
    "target",
    "request",
    "answer",
    "write",
];

/// The floors of the library likewise: its folders, and the order within where there is one.
const LIBRARY: &[&str] = &[
    "error",
    "config",
    "runtime",
    "telemetry",
    "offload",
    "json",
    "http",
    "jq",
    "message",
    "format",
    "hypermedia",
    "template",
    "request",
    "resilience",
    "net",
    "cache::rules",
    "cache",
    "upstream",
    "database",
    "pipeline::flow",
    "pipeline::step",
    "pipeline::call",
    "pipeline::steps",
    "pipeline",
    "client",
    "unstable",
];

/// The crate of JSON Schema likewise.
const SCHEMA: &[&str] = &["pattern", "unique", "rules", "compile"];

/// The importers likewise: neither knows the other.
const IMPORT: &[&str] = &["duration", "jq", "upstream_name", "yaml", "report", "outcome", "krakend", "nginx"];

/// The crate of `probe` likewise.
const PROBE: &[&str] = &[
    "trouble",
    "certificate",
    "target",
    "way",
    "trust",
    "link",
    "keep",
    "progress",
    "offer",
    "measure",
    "found",
    "advice",
    "json",
    "table",
];

/// The gateway likewise.
const GATEWAY: &[&str] = &[
    "net",
    "config",
    "runtime",
    "server",
    "listeners",
    "http",
    "telemetry",
    "shared",
    "layer",
    "observe",
    "layers",
    "gateway",
    "admin",
    "acme",
    "cli",
];

/// The crates with their floors.
const FLOORS: [(&str, &[&str]); 8] = [
    ("crocodile-pear-http1", HTTP1),
    ("crocodile-pear-jq", JQ),
    ("crocodile-pear-spec", SPEC),
    ("crocodile-pear-schema", SCHEMA),
    ("crocodile-pear", LIBRARY),
    ("crocodile-pear-import", IMPORT),
    ("crocodile-pear-probe", PROBE),
    ("crocodile-pear-gateway", GATEWAY),
];

/// Macros live at the root of their crate, wherever they are written.
const MACROS: [&str; 2] = ["choice", "spec"];

/// Where programs have the words of the configuration.
const PROGRAMS: [&str; 4] = ["client::items", "client::pipeline", "client::shape", "client::steps"];

#[test]
fn a_file_knows_only_what_stands_before() {
    for (name, floors) in FLOORS {
        check(&crates().join(name), floors);
    }
}

#[test]
fn no_files_know_each_other_in_a_ring() {
    for (name, _) in FLOORS {
        check_rings(&crates().join(name).join("src"));
    }
    check_rings(&crates().join("../bench/src"));
}

#[test]
fn no_importer_knows_the_other() {
    for (importer, other) in [("nginx", "krakend::"), ("krakend", "nginx::")] {
        let files = files(&crates().join("crocodile-pear-import/src").join(importer));
        let known = files.into_iter().filter(|file| lines(file).join("\n").contains(other));
        assert_eq!(known.collect::<Vec<_>>(), Vec::<PathBuf>::new());
    }
}

/// These crates are bytes and their meaning, of use to other programs too.
#[test]
fn the_lowest_crates_need_neither_the_library_nor_a_runtime() {
    for name in ["crocodile-pear-http1", "crocodile-pear-jq", "crocodile-pear-spec"] {
        let manifest = std::fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        let needed = manifest.split_once("[dependencies]").unwrap().1;
        for other in ["crocodile-pear", "tokio", "futures"] {
            assert!(!needed.contains(other), "{name} needs {other}");
        }
    }
}

/// A step tells about itself, so that a new one needs no line elsewhere. The methods of programs have the words of the
/// configuration, and so name its steps.
#[test]
fn no_step_is_known_by_name_outside_of_the_steps() {
    let steps = steps(&crates().join("crocodile-pear/src/pipeline/steps.rs"));
    assert!(steps.len() > 10, "the list of the steps is not found: {steps:?}");
    let mut wrong = Vec::new();
    for (package, _) in FLOORS {
        let source = crates().join(package).join("src");
        for file in files(&source) {
            let name = module(&source, &file);
            if name == "pipeline::steps" || name.starts_with("pipeline::steps::") || PROGRAMS.contains(&name.as_str()) {
                continue;
            }
            let text = lines(&file).join("\n");
            let named = steps.iter().filter(|(module, spec)| names_step(&text, module, spec));
            wrong.extend(named.map(|(step, _)| format!("{package}: {name} knows {step}")));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Code that two steps share stands below both.
#[test]
fn no_step_knows_another() {
    let source = crates().join("crocodile-pear/src");
    let steps = steps(&source.join("pipeline/steps.rs"));
    let mut wrong = Vec::new();
    for file in files(&source.join("pipeline/steps")) {
        let (name, text) = (module(&source, &file), lines(&file).join("\n"));
        let others = steps.iter().filter(|(step, _)| name.split("::").nth(2) != Some(&**step));
        let named = others.filter(|(module, spec)| names_step(&text, module, spec));
        wrong.extend(named.map(|(step, _)| format!("{name} knows {step}")));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Waits for another process happen in `stage::until`, with a bound, and a pause of a scene says that it is one.
#[test]
fn tests_sleep_in_one_place_alone() {
    let crates = crates();
    let folders = [
        "crocodile-pear/tests",
        "crocodile-pear-gateway/tests",
        "crocodile-pear-stage/src",
        "crocodile-pear-peers/src",
    ];
    let all = folders.iter().flat_map(|folder| files(&crates.join(folder)));
    let sleep = ["thread", "sleep"].join("::");
    let sleeps = |file: &PathBuf| lines(file).iter().any(|line| line.contains(&sleep));
    let found: Vec<PathBuf> =
        all.filter(|file| file.extension().is_some_and(|end| end == "rs")).filter(sleeps).collect();
    assert_eq!(found, [crates.join("crocodile-pear-peers/src/wait.rs")]);
}

/// The folder of all crates.
fn crates() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("..")
}

/// The modules of the steps with their specs, as they stand in the list.
fn steps(file: &Path) -> Vec<(String, String)> {
    let lines = lines(file).into_iter().skip_while(|line| line != "steps! {").skip(1);
    let lines = lines.filter(|line| !line.starts_with("#["));
    let pair =
        |line: String| line.trim_end_matches(',').split_once(": ").map(|(name, spec)| (name.into(), spec.into()));
    lines.map_while(pair).collect()
}

fn names_step(text: &str, module: &str, spec: &str) -> bool {
    let own = BTreeMap::from([("crocodile_pear", String::new())]);
    let path = |path: String| path.split("::").collect::<Vec<_>>().windows(2).any(|pair| pair == ["steps", module]);
    let variant = format!("Written::{spec}");
    let whole = |end: usize| !text[end..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    roots(text, &own).into_iter().any(path) || text.match_indices(&variant).any(|(at, _)| whole(at + variant.len()))
}

fn check(root: &Path, order: &[&str]) {
    let source = root.join("src");
    let mut wrong = Vec::new();
    for file in files(&source) {
        let name = module(&source, &file);
        if matches!(name.as_str(), "lib" | "main" | "tests") {
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
    assert_eq!(wrong, Vec::<String>::new(), "in {}", root.display());
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

/// `src/json/value.rs` is `json::value`.
fn module(source: &Path, file: &Path) -> String {
    let path = file.strip_prefix(source).unwrap().with_extension("");
    path.iter().map(|part| part.to_str().unwrap()).collect::<Vec<_>>().join("::")
}

/// The lines of a file without comments and unit tests: those may know anything.
fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let tests = file.ends_with("tests.rs") || file.ends_with("trial.rs");
    let lines: Vec<&str> = code.lines().map(str::trim).filter(|line| !line.starts_with("//") && !tests).collect();
    // A line that only tests need says `#[cfg(test)]` above it.
    let for_tests = |at: usize| at > 0 && lines[at - 1] == "#[cfg(test)]" && lines[at].starts_with("use ");
    let kept = lines.iter().enumerate().filter(|(at, _)| !for_tests(*at));
    kept.map(|(_, line)| (*line).to_owned()).collect()
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

fn check_rings(source: &Path) {
    let rings = rings(source);
    assert!(
        rings.is_empty(),
        "these files know each other in a ring; what they share belongs into a file below them:\n{rings:#?}"
    );
}

/// Each ring, told as one way around it.
fn rings(source: &Path) -> Vec<String> {
    let knows = knowledge(source);
    let reached: BTreeMap<&String, BTreeSet<&String>> = knows.keys().map(|file| (file, reach(file, &knows))).collect();
    let mut found: BTreeMap<BTreeSet<String>, String> = BTreeMap::new();
    for (file, known) in &reached {
        let ring: BTreeSet<String> =
            known.iter().filter(|other| reached[**other].contains(*file)).map(|other| (*other).clone()).collect();
        if ring.len() > 1 {
            found.entry(ring).or_insert_with(|| around(file, &knows));
        }
    }
    found.into_values().collect()
}

/// All files that one knows, by way of others too.
fn reach<'a>(from: &String, knows: &'a BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = knows[from].iter().collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(&knows[file]);
        }
    }
    reached
}

/// A shortest way from a file back to itself.
fn around(file: &String, knows: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut ways: Vec<Vec<&String>> = vec![vec![file]];
    let mut seen = BTreeSet::new();
    let mut at = 0;
    while let Some(way) = ways.get(at).cloned() {
        at += 1;
        for next in &knows[way[way.len() - 1]] {
            if next == file {
                let names: Vec<&str> = way.iter().copied().chain([file]).map(String::as_str).collect();
                return names.join(" -> ");
            }
            if seen.insert(next) {
                ways.push(way.iter().copied().chain([next]).collect());
            }
        }
    }
    String::new()
}

/// Which file names something of which other ones: by `crate`, `super` or `self`, or as a child of its own.
fn knowledge(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let files = files(source).into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs"));
    let all: BTreeMap<String, Vec<String>> = files.map(|file| (module(source, &file), lines(&file))).collect();
    let tests: BTreeSet<String> = all.iter().flat_map(|(name, lines)| tests_of(name, lines)).collect();
    let test = |name: &str| {
        tests.iter().any(|test| name == test || name.strip_prefix(&**test).is_some_and(|rest| rest.starts_with("::")))
    };
    let modules: BTreeSet<&String> = all.keys().filter(|name| !test(name)).collect();
    let entry = |name: &&String| {
        let text = all[*name].join("\n");
        let found =
            roots(&text, &children(name, &all[*name])).into_iter().filter_map(|path| target(name, &path, &modules));
        ((*name).clone(), found.filter(|known| known != *name).collect())
    };
    modules.iter().map(entry).collect()
}

/// The children of a module that are there for tests alone.
fn tests_of(name: &str, lines: &[String]) -> Vec<String> {
    let pairs = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    pairs.filter_map(|pair| Some(below(name, declared(&pair[1])?))).collect()
}

/// The child that a line declares.
fn declared(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("mod ")?;
    let name = after.strip_suffix(';')?;
    (before.is_empty() || before.starts_with("pub")).then_some(name)
}

fn children<'a>(name: &str, lines: &'a [String]) -> BTreeMap<&'a str, String> {
    lines.iter().filter_map(|line| declared(line)).map(|child| (child, below(name, child))).collect()
}

fn below(name: &str, child: &str) -> String {
    if matches!(name, "lib" | "main") { child.to_owned() } else { format!("{name}::{child}") }
}

/// The paths in a text that begin with a root or with a child, groups in braces taken apart.
fn roots(text: &str, children: &BTreeMap<&str, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("::") {
        let start = text[..at].rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |before| before + 1);
        let before = &text[..start];
        let root = matches!(&text[start..at], "crate" | "super" | "self") || children.contains_key(&text[start..at]);
        if root && !before.ends_with(['$', ':', '.']) {
            tree(&text[start..], "", &mut found);
        }
    }
    found
}

/// Reads one path, or a group of them; returns what follows.
fn tree<'a>(text: &'a str, prefix: &str, found: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = tree(rest, prefix, found);
            rest = rest.find([',', '}']).map_or("", |end| &rest[end..]);
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let path = if prefix.is_empty() { text[..end].to_owned() } else { format!("{prefix}::{}", &text[..end]) };
    let rest = &text[end..];
    match rest.strip_prefix("::") {
        Some(rest) if end > 0 => tree(rest, &path, found),
        _ => {
            found.push(path);
            rest
        }
    }
}

/// The file that a path leads to, read in the file `from`; nothing, where it leads out of the crate or to its root.
fn target(from: &str, path: &str, modules: &BTreeSet<&String>) -> Option<String> {
    let mut words: Vec<&str> = path.split("::").collect();
    let mut here: Vec<&str> = if matches!(from, "lib" | "main") { Vec::new() } else { from.split("::").collect() };
    match words[0] {
        "crate" => here.clear(),
        "super" => {
            while words.first() == Some(&"super") {
                words.remove(0);
                here.pop();
            }
            words.insert(0, "");
        }
        "self" => {}
        child => here.push(child),
    }
    here.extend(&words[1..]);
    (1..=here.len()).rev().map(|end| here[..end].join("::")).find(|name| modules.contains(name))
}
