//! A page of the documents, as its blocks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::documents::root;

/// A block between fences.
#[derive(Debug)]
pub struct Block {
    /// The word behind the fence.
    pub kind: String,
    /// The line of the fence, from 1.
    pub line: usize,
    /// The text between the fences.
    pub text: String,
}

/// A command, and what it must say.
#[derive(Debug)]
pub struct Command {
    pub line: String,
    pub output: String,
}

/// Every page: the README, what stands beside it, and `docs`.
pub fn all() -> Vec<PathBuf> {
    let mut pages = markdown(&root());
    pages.extend(markdown(&root().join("docs")));
    pages.extend(markdown(&root().join("docs/how-to")));
    pages.extend(markdown(&root().join("docs/coming-from")));
    pages.extend(markdown(&root().join("docs/decisions")));
    pages
}

fn markdown(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.sort();
    pages
}

/// The blocks of a page, in order.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(kind) if !open => {
                blocks.push(Block { kind: kind.trim().to_owned(), line: at + 1, text: String::new() });
                open = true;
            }
            Some(_) => open = false,
            None if open => blocks.last_mut().unwrap().text += &format!("{line}\n"),
            None => {}
        }
    }
    blocks
}

/// The commands of a `console` block: lines that begin with `$ `, each with the output below it.
pub fn commands(text: &str) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(line), _) => commands.push(Command { line: line.to_owned(), output: String::new() }),
            (None, Some(command)) => command.output += &format!("{line}\n"),
            (None, None) => panic!("an output before any command: {line}"),
        }
    }
    commands
}

/// Whether `told` is what is `wanted`, in which `...` stands for anything.
pub fn agrees(told: &str, wanted: &str) -> bool {
    let told = told.replace('\r', "");
    let (mut rest, wanted) = (told.trim_end(), wanted.trim_end());
    let mut pieces = wanted.split("...");
    let Some(after) = rest.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    rest = after;
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn three_dots_stand_for_anything() {
    assert!(agrees("HTTP/1.1 200 OK\r\ndate: now\r\n\r\n[]\n", "HTTP/1.1 200 OK\n...\n\n[]"));
    assert!(agrees("same", "same\n") && agrees("abc", "...") && agrees("abcd", "a...c..."));
    assert!(!agrees("same but longer", "same") && !agrees("abc", "...b") && !agrees("", "a..."));
}
