//! The parts of a request that the answers of an endpoint depend on: caches downstream must know them.

use std::time::Duration;

use http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, EXPIRES, HeaderName};

use super::rules::vary::add_names;
use crate::jq::Read;

/// The parts of a request that the answers of an endpoint depend on, as the configuration shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependence {
    pub(super) fields: Vec<HeaderName>,
    /// All header fields.
    pub(super) everything: bool,
    /// Whether answers depend on the client's identity.
    pub(super) personal: bool,
    /// The client's credentials, which the gateway checks: only an answer that allows it is shared (RFC 9111, 3.5).
    pub(super) checked: bool,
    /// How long the answers are fresh for everybody, if the configuration says that they are public.
    pub(super) public: Option<Duration>,
    /// The fields of answers that the configuration sets itself.
    pub(super) written: Vec<HeaderName>,
    /// Request fields of the client that calls send as they came; `None` for all.
    sent: Option<Vec<HeaderName>>,
}

impl Default for Dependence {
    fn default() -> Self {
        Dependence {
            fields: Vec::new(),
            everything: false,
            personal: false,
            checked: false,
            public: None,
            written: Vec::new(),
            sent: Some(Vec::new()),
        }
    }
}

impl Dependence {
    /// Adds the parts of requests that expressions read.
    pub fn add_reads<'a>(&mut self, reads: impl IntoIterator<Item = &'a Read>) {
        for read in reads {
            match (read.variable.as_str(), &read.field) {
                // What is not a name is in no request.
                ("headers", Some(field)) => {
                    let name = HeaderName::from_bytes(field.as_bytes()).ok();
                    self.add_fields(name.as_slice());
                }
                ("headers", None) => self.everything = true,
                ("cookies", _) => {
                    self.add_fields(&[COOKIE]);
                    self.personal = true;
                }
                ("claims" | "client", _) => self.personal = true,
                _ => {}
            }
        }
    }

    pub fn add_fields(&mut self, names: &[HeaderName]) {
        add_names(&mut self.fields, names);
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Dependence) {
        self.add_fields(&other.fields);
        self.everything |= other.everything;
        self.personal |= other.personal;
        self.checked |= other.checked;
        self.public = self.public.or(other.public);
        add_names(&mut self.written, &other.written);
        self.send(other.sent.as_deref());
    }

    /// Calls send these request fields of the client as they came; `None` for all.
    pub fn send(&mut self, names: Option<&[HeaderName]>) {
        match (&mut self.sent, names) {
            (Some(known), Some(names)) => add_names(known, names),
            _ => self.sent = None,
        }
    }

    /// Why answers are not the same for everybody, if they may not be.
    pub fn why_personal(&self) -> Option<String> {
        let credentials = |name: &&HeaderName| **name == AUTHORIZATION || **name == COOKIE;
        if self.personal || self.everything {
            return Some("depends on who the client is".to_owned());
        }
        if self.checked {
            return Some("is for clients that have authenticated".to_owned());
        }
        let Some(sent) = &self.sent else {
            return Some("is made of calls with all header fields of the client".into());
        };
        let unnamed = |name: &&HeaderName| !self.names(name);
        let name = sent.iter().find(credentials).or_else(|| sent.iter().find(unnamed))?;
        Some(format!("is made of calls with the client's `{name}`"))
    }

    /// Answers are for one client.
    pub fn personalise(&mut self) {
        self.personal = true;
    }

    /// The gateway has checked who the client is.
    pub fn check(&mut self) {
        self.checked = true;
    }

    /// The gateway keeps the answers, or makes them of parts: those for checked credentials are for one client.
    pub fn settle(&mut self) {
        self.personal |= self.checked;
    }

    /// Answers are public, and fresh for so long.
    pub fn publish(&mut self, fresh: Duration) {
        self.public = Some(fresh);
    }

    /// The configuration sets these fields of answers.
    pub fn write(&mut self, names: &[HeaderName]) {
        add_names(&mut self.written, names);
    }

    /// Whether answers are for one client.
    pub fn is_personal(&self) -> bool {
        self.personal || self.checked
    }

    /// The header fields of requests that answers depend on; `None` for all of them.
    pub fn fields(&self) -> Option<&[HeaderName]> {
        (!self.everything).then_some(&*self.fields)
    }

    /// Whether there is nothing to say of an answer that one server has made.
    pub fn is_nothing(&self) -> bool {
        self.fields.is_empty() && !self.everything && !self.is_personal() && self.public.is_none()
    }

    /// Whether there is nothing to say of an answer that has a part with this dependence.
    pub fn is_silent(&self) -> bool {
        self.fields.is_empty() && !self.everything && !self.is_personal()
    }

    /// Whether the fields of an answer stay as they are.
    pub(super) fn adds_nothing(&self) -> bool {
        self.is_silent() && self.public.is_none() && self.written.is_empty()
    }

    /// Whether the configuration says how long answers are fresh.
    pub fn sets_lifetime(&self) -> bool {
        self.written.iter().any(|name| *name == CACHE_CONTROL || *name == EXPIRES)
    }

    /// Whether answers depend on this field in a way that caches see.
    pub(super) fn names(&self, name: &HeaderName) -> bool {
        self.everything || self.fields.contains(name)
    }
}
