//! `docs/security.md`: each promise has a test that exists; and promises that are held by files of the repository.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::documents::root;

/// The names of all tests in the tree, and of the files that are tests.
pub fn tests() -> HashSet<String> {
    let mut folders = vec![root().join("crates"), root().join("bench")];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let mut names = HashSet::new();
    for path in files {
        let parent = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        if let (Some("scenarios" | "problems"), Some(name)) = (parent, path.file_name()) {
            names.insert(name.to_string_lossy().into_owned());
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut marked = false;
            for line in text.lines().map(str::trim) {
                let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
                match name.and_then(|rest| rest.split_once('(')) {
                    Some((name, _)) if marked => drop(names.insert(name.to_owned())),
                    _ => {
                        marked = line.starts_with("#[test]")
                            || line.starts_with("#[tokio::test")
                            || (marked && line.starts_with("#["));
                    }
                }
            }
        }
    }
    names
}

#[test]
fn each_promise_of_security_has_a_test() {
    let page = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let tests = tests();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && !line.contains("held by |")).collect();
    assert!(rows.len() > 20, "{} promises", rows.len());
    for row in rows {
        let (promise, held) = row.trim_matches(['|', ' ']).rsplit_once(" | ").unwrap();
        let names: Vec<&str> = held.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test holds: {promise}");
        let missing: Vec<_> = names.into_iter().filter(|name| !tests.contains(*name)).collect();
        assert!(missing.is_empty(), "there are no tests {missing:?} for: {promise}");
    }
}

/// The rules are in `deny.toml`; `.ci/run` lets cargo-deny and cargo-audit hold them. This holds that it does, and by
/// itself what `Cargo.lock` says of sources.
#[test]
fn every_dependency_is_looked_at() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let run = read(".ci/run");
    assert!(
        run.contains("\n    cargo-deny --locked check licenses bans sources\n")
            && run.contains("\n    cargo-audit audit ")
    );
    let lock = read("Cargo.lock");
    let foreign = lock.lines().filter(|line| line.starts_with("source = "));
    let foreign: Vec<_> =
        foreign.filter(|line| !line.contains("registry+https://github.com/rust-lang/crates.io-index")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    let packages: HashSet<&str> =
        lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).collect();
    for advised in fs::read_dir(root().join(".ci/advisories/crates")).unwrap() {
        let name = advised.unwrap().file_name().into_string().unwrap();
        assert!(packages.contains(name.as_str()), "`{name}` is no dependency any more: remove its advisories");
    }
    for line in read(".ci/tools.txt").lines().filter(|line| !line.starts_with('#')) {
        assert!(line.contains("==") && line.contains("--hash=sha256:"), "{line}");
    }
}

#[test]
fn no_unsafe_code_is_allowed() {
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    assert!(read(&root().join("Cargo.toml")).contains("unsafe_code = \"forbid\""));
    for member in fs::read_dir(root().join("crates")).unwrap() {
        let manifest = member.unwrap().path().join("Cargo.toml");
        assert!(read(&manifest).contains("[lints]\nworkspace = true"), "{}", manifest.display());
    }
}
