//! The account of a file's directives: each has one entry in the report, and none is forgotten.

use std::cell::RefCell;
use std::collections::HashMap;

use super::known;
use super::parse::Directive;
use crate::report::{Fate, Report};

#[derive(Default)]
pub struct DirectiveLedger {
    entries: RefCell<HashMap<usize, LedgerEntry>>,
}

struct LedgerEntry {
    fate: Fate,
    message: String,
    remedy: String,
    /// Whether it is about the directives of its block, too.
    is_whole: bool,
}

impl DirectiveLedger {
    /// The configuration has it.
    pub fn import(&self, directive: &Directive) {
        self.note(directive, Fate::Imported, String::new(), String::new(), false);
    }

    /// The configuration has it with all that its block contains.
    pub fn import_whole(&self, directive: &Directive) {
        self.note(directive, Fate::Imported, String::new(), String::new(), true);
    }

    /// The configuration has it, and its operator should know of a difference.
    pub fn remark(&self, directive: &Directive, message: impl Into<String>, remedy: impl Into<String>) {
        self.note(directive, Fate::Remarked, message.into(), remedy.into(), false);
    }

    /// Reports a directive that is not imported, with all that its block contains.
    pub fn report(&self, directive: &Directive, message: impl Into<String>, remedy: impl Into<String>) {
        self.note(directive, Fate::Reported, message.into(), remedy.into(), true);
    }

    /// Notes a directive that changes no answer here.
    pub fn ignore(&self, directive: &Directive, why: impl Into<String>) {
        self.note(directive, Fate::Ignored, why.into(), String::new(), true);
    }

    fn note(&self, directive: &Directive, fate: Fate, message: String, remedy: String, is_whole: bool) {
        let mut entries = self.entries.borrow_mut();
        let entry = LedgerEntry { fate, message, remedy, is_whole };
        match entries.get(&directive.number) {
            Some(known) if known.fate >= fate => {}
            _ => drop(entries.insert(directive.number, entry)),
        }
    }

    pub fn has(&self, directive: &Directive) -> bool {
        self.entries.borrow().contains_key(&directive.number)
    }

    /// Adds all entries to the report. A directive without one was looked at by nobody.
    pub fn close(&self, directives: &[Directive], report: &mut Report) {
        self.walk("", directives, report);
    }

    fn walk(&self, path: &str, directives: &[Directive], report: &mut Report) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for directive in directives {
            let count = counts.entry(&directive.name).or_default();
            *count += 1;
            let mut key = match path {
                "" => directive.name.clone(),
                path => format!("{path}.{}", directive.name),
            };
            match directive.block.as_ref().zip(directive.args.last()) {
                Some((_, last)) => key.push_str(&format!("[{}]", last.text)),
                None if *count > 1 => {
                    key.push_str(&format!("[{}]", *count - 1));
                }
                None => {}
            }
            if !self.has(directive) {
                self.unseen(directive);
            }
            let entries = self.entries.borrow();
            let Some(entry) = entries.get(&directive.number) else { continue };
            let (message, remedy) = (entry.message.clone(), entry.remedy.clone());
            match entry.fate {
                Fate::Imported => report.imported(&key, directive.span),
                Fate::Remarked => report.remarked(&key, directive.span, message, remedy),
                Fate::Reported => report.reported(&key, directive.span, message, remedy),
                Fate::Ignored => report.ignored(&key, directive.span, message),
            }
            let is_whole = entry.is_whole;
            drop(entries);
            if !is_whole {
                self.walk(&key, directive.inner(), report);
            }
        }
    }

    /// A directive that no part of the import has looked at.
    fn unseen(&self, directive: &Directive) {
        let name = directive.name.as_str();
        if name == "include" {
            match &directive.note {
                Some(note) => self.ignore(directive, note.clone()),
                None => self.import(directive),
            }
        } else if name == "charset" && matches!(directive.arg(0), Some("utf-8" | "UTF-8" | "off")) {
            self.ignore(directive, "files of text are sent as UTF-8, and an upstream says its own charset");
        } else if let Some(why) = known::without_effect(name) {
            self.ignore(directive, why);
        } else if let Some((why, instead)) = known::not_here(name) {
            self.report(directive, why, instead);
        } else if known::is_used(name) {
            self.ignore(directive, "no location that is imported uses it");
        } else {
            self.report(directive, format!("`{name}` is not imported: the directive is not known"), "");
        }
    }
}
