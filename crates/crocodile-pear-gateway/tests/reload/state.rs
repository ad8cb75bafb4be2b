//! Each piece of state, with what a reload does to it. Whoever adds state has to decide.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Types whose values change while they are shared, and those of tasks and channels.
const CHANGING: [&str; 24] = [
    "AbortHandle",
    "ArcSwap",
    "ArcSwapOption",
    "Cell",
    "JoinHandle",
    "LazyLock",
    "Mutex",
    "Notify",
    "OnceCell",
    "OnceLock",
    "RefCell",
    "Runtime",
    "RwLock",
    "Semaphore",
    "broadcast",
    "mpsc",
    "oneshot",
    "thread_local",
    "watch",
    "AtomicBool",
    "AtomicI64",
    "AtomicPtr",
    "AtomicU8",
    "AtomicUsize",
];

/// The crates that have state, with their folders.
const CRATES: [(&str, &str); 8] = [
    ("http1", "../crocodile-pear-http1/src"),
    ("jq", "../crocodile-pear-jq/src"),
    ("spec", "../crocodile-pear-spec/src"),
    ("library", "../crocodile-pear/src"),
    ("schema", "../crocodile-pear-schema/src"),
    ("import", "../crocodile-pear-import/src"),
    ("probe", "../crocodile-pear-probe/src"),
    ("gateway", "src"),
];

/// The decisions of a reload about state: the headings of the list.
const DECISIONS: [&str; 7] = ["anew", "call", "carried", "elsewhere", "persistent", "process", "static"];

#[test]
fn all_state_has_a_decision_about_reloads() {
    let list = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reload/state.txt")).unwrap();
    let decided = decisions(&list);
    let found: BTreeMap<String, bool> = CRATES.into_iter().flat_map(|(name, folder)| state(name, folder)).collect();
    assert!(found.len() > 200, "the state is not found: {found:?}");
    let mut wrong = Vec::new();
    for (name, fixed) in &found {
        match decided.get(name.as_str()) {
            None => wrong.push(format!(
                "`{name}` can change, and `tests/reload/state.txt` does not say what a reload does to it. If it belongs to a part \
                 of the configuration, take it from `carry.part(…).state(…)`, and write it below [carried]."
            )),
            Some(decision) if *fixed != (*decision == "static") => {
                wrong.push(format!("`{name}` stands below [{decision}]"));
            }
            Some(_) => {}
        }
    }
    wrong.extend(
        decided.keys().filter(|name| !found.contains_key(**name)).map(|name| format!("`{name}` is not there any more")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names in the list, each with its heading. State that begins anew has a reason.
fn decisions(list: &str) -> BTreeMap<&str, &str> {
    let mut heading = "";
    let mut decided = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((name, _)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            assert!(DECISIONS.contains(&name), "{name}");
            heading = name;
            continue;
        }
        let (name, reason) = line.split_once(": ").unwrap_or((line, ""));
        assert_eq!(heading == "anew", !reason.is_empty(), "{line}");
        assert_eq!(decided.insert(name, heading), None, "{name} stands there twice");
    }
    decided
}

/// The types and statics of a crate that can change: whether each is a static.
fn state(name: &str, folder: &str) -> Vec<(String, bool)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    for file in files(&root) {
        let module = file.strip_prefix(&root).unwrap().with_extension("");
        let text = fs::read_to_string(&file).unwrap();
        let code: Vec<&str> = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap()
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        for (item, is_static) in items(&code.join("\n")) {
            found.push((format!("{name} {} {item}", module.display()), is_static));
        }
    }
    found
}

/// Files with code that runs in a gateway.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let tests = ["tests.rs", "suite.rs", "agreement.rs", "model.rs"].iter().any(|name| path.ends_with(name));
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if path.extension().is_some_and(|end| end == "rs") && !tests => found.push(path),
            false => {}
        }
    }
    found
}

/// The items in a file whose declaration names something that changes.
fn items(code: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in code.split_inclusive('\n') {
        let at = start;
        start += line.len();
        let mut words = line.trim_start().split([' ', '<', '(', '{', ';', ':']).filter(|word| !word.is_empty());
        let mut word = words.next().unwrap_or_default();
        while ["pub", "in", "super"].contains(&word) || word.ends_with(')') {
            word = words.next().unwrap_or_default();
        }
        if word == "thread_local!" {
            word = words.next().unwrap_or_default();
        }
        let (true, Some(name)) = (matches!(word, "struct" | "enum" | "static" | "type"), words.next()) else {
            continue;
        };
        let own = declaration(&code[at..]);
        let identifiers = own.split(|c: char| !c.is_alphanumeric() && c != '_');
        let changes = |word: &str| CHANGING.contains(&word) || word.starts_with("Atomic");
        // Its own name says nothing.
        if identifiers.filter(|word| *word != name).any(changes) {
            found.push((name, word == "static"));
        }
    }
    found
}

/// A declaration, up to its end.
fn declaration(code: &str) -> &str {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth -= 1;
                if depth <= 0 && c == '}' {
                    return &code[..at];
                }
            }
            ';' if depth == 0 => return &code[..at],
            _ => {}
        }
    }
    code
}

#[test]
fn what_can_change_is_found() {
    let code = "pub(super) struct One {\n    a: u8,\n}\nstruct Two(Mutex<u8>);\nthread_local!(static THREE: Cell<u8> = 1);\n\
                pub enum Four {\n    A(watch::Receiver<()>),\n}\nfn five() {\n    static SIX: AtomicU16 = AtomicU16::new(0);\n}\n\
                struct Cell {\n    seven: u8,\n}\n";
    assert_eq!(items(code), [("Two", false), ("THREE", true), ("Four", false), ("SIX", true)]);
}
