//! The keys of a map, taken one by one: whoever takes a key as a value of some type has imported it.

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

use crocodile_pear_spec::problem::Span;
use crocodile_pear_spec::settings::{Node, NodeKind};
use serde_json::Value;

use super::ledger::{KeyLedger, join};
use crate::duration;

pub struct ObjectKeys<'a> {
    entries: &'a [(crocodile_pear_spec::settings::Located<String>, Node)],
    path: String,
    ledger: &'a KeyLedger,
    taken: RefCell<HashSet<Span>>,
}

/// A value with its key.
#[derive(Clone)]
pub struct Item<'a> {
    pub node: &'a Node,
    /// The path of its key.
    pub path: String,
    /// The place of its key, or its own in a list.
    pub span: Span,
    ledger: &'a KeyLedger,
}

impl<'a> ObjectKeys<'a> {
    /// The keys of the file; none if it is not a map.
    pub fn root(node: &'a Node, ledger: &'a KeyLedger) -> Option<Self> {
        Some(Self { entries: node.as_map()?, path: String::new(), ledger, taken: RefCell::default() })
    }

    /// The value of a key, unless it is null. Go compares the names of its fields without regard to case.
    pub fn take(&self, name: &str) -> Option<Item<'a>> {
        let exact = self.entries.iter().find(|(key, _)| key.value == name);
        let (key, node) =
            exact.or_else(|| self.entries.iter().find(|(key, _)| key.value.eq_ignore_ascii_case(name)))?;
        self.taken.borrow_mut().insert(key.span);
        let item = Item { node, path: join(&self.path, &key.value), span: key.span, ledger: self.ledger };
        if matches!(node.kind, NodeKind::Null) {
            item.ignore("it is null, as if it were not there");
            return None;
        }
        Some(item)
    }

    /// The value of a key, or that of the name it had in version 2.
    pub fn take_old(&self, name: &str, old: &str) -> Option<Item<'a>> {
        if self.ledger.version == 2
            && let Some(item) = self.take(old)
        {
            return Some(item);
        }
        self.take(name)
    }

    /// The values of all keys.
    pub fn all(&self) -> Vec<(&'a str, Item<'a>)> {
        let names = self.entries.iter().map(|(key, _)| key.value.as_str());
        names.filter_map(|name| Some((name, self.take(name)?))).collect()
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.take(name)?.text()
    }

    /// The text of a key, unless it is empty.
    pub fn filled(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty())
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        self.take(name).map(|item| item.texts()).unwrap_or_default()
    }

    pub fn list(&self, name: &str) -> Vec<Item<'a>> {
        self.take(name).map(|item| item.list()).unwrap_or_default()
    }

    pub fn map(&self, name: &str) -> Option<ObjectKeys<'a>> {
        self.take(name)?.map()
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.take(name)?.number()
    }

    pub fn whole(&self, name: &str) -> Option<u64> {
        self.take(name)?.whole()
    }

    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.take(name)?.duration()
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.take(name).is_some_and(|item| item.is_true())
    }

    /// Takes a key that is `true` or `false`. Both are the same to the gateway.
    pub fn accept_flag(&self, name: &str) {
        self.is_true(name);
    }

    /// Reports that these keys are ignored, and why.
    pub fn ignore(&self, names: &[&str], why: &str) {
        for item in names.iter().filter_map(|name| self.take(name)) {
            item.ignore(why);
        }
    }

    /// Ends the reading of a map: KrakenD knows none of the keys that nobody took.
    pub fn end(&self) {
        for (key, _) in self.entries.iter().filter(|(key, _)| !self.taken.borrow().contains(&key.span)) {
            let path = join(&self.path, &key.value);
            let why = match key.value.chars().next() {
                Some('@' | '$' | '_' | '#' | '/') => "a comment for people and editors".to_owned(),
                _ => match renamed(&key.value) {
                    Some(new) => format!("a name of version 2, which KrakenD 2 does not read; it is `{new}` now"),
                    None => "KrakenD knows no such key here".to_owned(),
                },
            };
            self.ledger.ignore(&path, key.span, why);
        }
    }
}

/// The name in version 3 of what version 2 calls so.
fn renamed(old: &str) -> Option<&'static str> {
    Some(match old {
        "whitelist" => "allow",
        "blacklist" => "deny",
        "headers_to_pass" => "input_headers",
        "querystring_params" => "input_query_strings",
        "maxRate" => "max_rate",
        "clientMaxRate" => "client_max_rate",
        "maxErrors" => "max_errors",
        _ => return None,
    })
}

impl<'a> Item<'a> {
    pub fn map(&self) -> Option<ObjectKeys<'a>> {
        let Some(entries) = self.node.as_map() else { return self.wrong("a map") };
        self.ledger.import(&self.path, self.span);
        Some(ObjectKeys { entries, path: self.path.clone(), ledger: self.ledger, taken: RefCell::default() })
    }

    pub fn list(&self) -> Vec<Item<'a>> {
        let Some(items) = self.node.as_list() else { return self.wrong("a list").unwrap_or_default() };
        self.ledger.import(&self.path, self.span);
        let item = |(at, node): (usize, &'a Node)| Item {
            node,
            path: format!("{}[{at}]", self.path),
            span: node.span,
            ledger: self.ledger,
        };
        items.iter().enumerate().map(item).collect()
    }

    pub fn text(&self) -> Option<String> {
        match &self.node.kind {
            NodeKind::Scalar { text, quoted, .. } if *quoted || !is_other(text) => {
                self.done();
                Some(text.clone())
            }
            _ => self.wrong("a text"),
        }
    }

    pub fn texts(&self) -> Vec<String> {
        let Some(items) = self.node.as_list() else { return self.wrong("a list of texts").unwrap_or_default() };
        let texts: Option<Vec<String>> = items.iter().map(|item| Some(item.as_text()?.value)).collect();
        match texts {
            Some(texts) => {
                self.done();
                texts
            }
            None => self.wrong("a list of texts").unwrap_or_default(),
        }
    }

    pub fn number(&self) -> Option<f64> {
        let number = self.node.as_plain().and_then(|text| text.parse::<f64>().ok()).filter(|number| number.is_finite());
        if number.is_none() {
            return self.wrong("a number");
        }
        self.done();
        number
    }

    /// Its whole number, not below zero.
    pub fn whole(&self) -> Option<u64> {
        let number = self.node.as_plain().and_then(|text| text.parse::<f64>().ok());
        let whole = number.filter(|number| *number >= 0.0 && number.fract() == 0.0 && *number < 1e15);
        if whole.is_none() {
            return self.wrong("a whole number");
        }
        self.done();
        // Below 10^15 a float holds every whole number.
        whole.map(|number| number as u64)
    }

    pub fn is_true(&self) -> bool {
        match self.node.as_plain() {
            Some("true") => {
                self.done();
                true
            }
            Some("false") => {
                self.done();
                false
            }
            _ => self.wrong::<bool>("`true` or `false`").unwrap_or_default(),
        }
    }

    /// Its duration, as Go writes it. KrakenD takes 0 for what it cannot read, and for a number without a unit.
    pub fn duration(&self) -> Option<Duration> {
        let Some(text) = self.node.as_text() else { return self.wrong("a duration in quotes") };
        match duration::parse(&text.value) {
            Some(duration) if !duration.is_zero() => {
                self.done();
                Some(duration)
            }
            Some(_) => {
                self.ignore("zero stands for the default");
                None
            }
            None => {
                self.ignore(format!("KrakenD cannot read {:?} as a duration, and takes the default", text.value));
                None
            }
        }
    }

    pub fn json(&self) -> Value {
        self.done();
        json(self.node)
    }

    /// Its value is imported, with all that it contains.
    pub fn done(&self) {
        self.ledger.import_whole(&self.path, self.span);
    }

    /// Reports that the setting is not imported: why, and what to use instead.
    pub fn report(&self, message: impl Into<String>, remedy: impl Into<String>) {
        self.ledger.report(&self.path, self.span, message, remedy);
    }

    /// Notes that the setting is imported, and that its operator should know of a difference.
    pub fn remark(&self, message: impl Into<String>, remedy: impl Into<String>) {
        self.ledger.remark(&self.path, self.span, message, remedy);
    }

    /// KrakenD does nothing with it: why.
    pub fn ignore(&self, why: impl Into<String>) {
        self.ledger.ignore(&self.path, self.span, why);
    }

    fn wrong<T>(&self, wanted: &str) -> Option<T> {
        self.report(format!("found {}, wanted {wanted}", self.node.found()), "");
        None
    }
}

/// Whether a scalar without quotes is no text: a number, or true or false.
fn is_other(text: &str) -> bool {
    text.parse::<f64>().is_ok() || text == "true" || text == "false"
}

fn json(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Null => Value::Null,
        NodeKind::Scalar { text, quoted: false, .. } if is_other(text) || text == "null" => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        NodeKind::Scalar { text, .. } => Value::String(text.clone()),
        NodeKind::List(items) => items.iter().map(json).collect(),
        NodeKind::Map(entries) => entries.iter().map(|(key, value)| (key.value.clone(), json(value))).collect(),
    }
}
