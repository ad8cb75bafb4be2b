//! Documentation begins with a noun and its article, or with a verb in the third person: editors and search results show
//! its first line alone.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// The words with which the first line of a documentation comment does not begin: they need the line above.
const WORDS: [&str; 10] = ["What", "Who", "Of", "One", "It", "Nothing", "None", "Those", "Whoever", "As"];

#[test]
fn documentation_begins_with_a_noun_or_a_verb() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("../..").canonicalize().unwrap();
    let mut folders = vec![root.join("bench/src")];
    for member in entries(&root.join("crates")) {
        folders.extend(["src", "tests", "examples"].map(|folder| member.join(folder)));
    }
    let all = folders.iter().filter(|folder| folder.is_dir()).flat_map(|folder| files(folder));
    let mut read = 0;
    let mut wrong = Vec::new();
    for file in all.filter(|file| file.extension().is_some_and(|end| end == "rs")) {
        read += 1;
        let shown = file.strip_prefix(&root).unwrap().display();
        let text = std::fs::read_to_string(&file).unwrap();
        wrong.extend(faults(&text).into_iter().map(|(line, text)| format!("{shown}:{line}: {text}")));
    }
    assert!(read > 500, "only {read} files");
    assert!(wrong.is_empty(), "begin with a noun and its article, or a verb:\n{}", wrong.join("\n"));
}

#[test]
fn only_the_first_line_of_a_comment_counts() {
    let text = "//! What a module does.\n//! One line more.\n\n    /// It waits.\n    /// Of two lines.\n/// Italic.\n// As it is.\n/// `None`";
    assert_eq!(faults(text), [(1, "//! What a module does."), (4, "/// It waits.")]);
}

/// The first lines of comments that begin with one of the words, each with its number.
fn faults(text: &str) -> Vec<(usize, &str)> {
    let mut faults = Vec::new();
    let mut within = false;
    for (at, line) in text.lines().map(str::trim).enumerate() {
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let first = comment.filter(|_| !within).map(str::trim_start);
        let word = first.map(|text| text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
        if word.is_some_and(|word| WORDS.contains(&word)) {
            faults.push((at + 1, line));
        }
        within = comment.is_some();
    }
    faults
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let found = entries(folder).into_iter();
    found.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The files and folders in a folder, in the order of their names.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}
