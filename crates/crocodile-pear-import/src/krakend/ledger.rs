//! The account of a file's keys: each is imported, reported or ignored, and none is forgotten.

use std::cell::RefCell;
use std::collections::HashMap;

use crocodile_pear_spec::problem::Span;
use crocodile_pear_spec::settings::Node;

use crate::report::Report;

pub struct KeyLedger {
    report: RefCell<Report>,
    seen: RefCell<HashMap<Span, Cover>>,
    /// The version of the file's format: 2 or 3.
    pub version: u64,
}

/// How much of a key's value an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cover {
    /// The key; what its value contains has entries of its own.
    Key,
    /// The key with all that its value contains.
    Whole,
}

impl KeyLedger {
    pub fn new(report: Report, version: u64) -> Self {
        Self { report: RefCell::new(report), seen: RefCell::default(), version }
    }

    /// The key is imported; the keys in its value have entries of their own.
    pub fn import(&self, key: &str, span: Span) {
        if self.see(span, Cover::Key) {
            self.report.borrow_mut().imported(key, span);
        }
    }

    /// The key is imported with all that its value contains.
    pub fn import_whole(&self, key: &str, span: Span) {
        if self.see(span, Cover::Whole) {
            self.report.borrow_mut().imported(key, span);
        }
    }

    /// The key is imported, and its operator should know of a difference.
    pub fn remark(&self, key: &str, span: Span, message: impl Into<String>, remedy: impl Into<String>) {
        self.see(span, Cover::Key);
        self.report.borrow_mut().remarked(key, span, message, remedy);
    }

    /// The key is not imported, with all that its value contains.
    pub fn report(&self, key: &str, span: Span, message: impl Into<String>, remedy: impl Into<String>) {
        self.see(span, Cover::Whole);
        self.report.borrow_mut().reported(key, span, message, remedy);
    }

    /// KrakenD does nothing with the key and all that its value contains.
    pub fn ignore(&self, key: &str, span: Span, why: impl Into<String>) {
        self.see(span, Cover::Whole);
        self.report.borrow_mut().ignored(key, span, why);
    }

    /// Notes that a key has an entry. Whether it is the first one.
    fn see(&self, span: Span, cover: Cover) -> bool {
        let mut seen = self.seen.borrow_mut();
        let first = !seen.contains_key(&span);
        if first || cover == Cover::Whole {
            seen.insert(span, cover);
        }
        first
    }

    /// The report. A key without an entry is one that nobody looked at: it is reported, so that none vanishes.
    pub fn close(self, root: &Node) -> Report {
        self.walk("", root);
        self.report.into_inner()
    }

    fn walk(&self, path: &str, node: &Node) {
        for (key, value) in node.as_map().unwrap_or_default() {
            let path = join(path, &key.value);
            let cover = self.seen.borrow().get(&key.span).copied();
            match cover {
                Some(Cover::Whole) => {}
                Some(Cover::Key) => self.walk(&path, value),
                None => self.report(&path, key.span, format!("`{}` is not imported", key.value), ""),
            }
        }
        for (at, item) in node.as_list().unwrap_or_default().iter().enumerate() {
            let cover = self.seen.borrow().get(&item.span).copied();
            if cover != Some(Cover::Whole) {
                self.walk(&format!("{path}[{at}]"), item);
            }
        }
    }
}

/// The path of a key below another one.
pub fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
