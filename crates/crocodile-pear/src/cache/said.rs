//! Cache directives of the parts of an answer, added up as the parts arrive: the strictest counts.

use std::sync::LazyLock;

use http::header::{
    AGE, CACHE_CONTROL, CONTENT_LANGUAGE, EXPIRES, HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, PRAGMA, VARY,
};

use super::dependence::Dependence;
use super::rules::control::{AnswerControl, AnswerDates, CDN_CACHE_CONTROL};
use super::rules::policy;
use super::rules::vary::{NAMES, Vary, add_names};
use crate::http::date::Moment;
use crate::http::http1::{AnswerFields, NameSet};

/// The fields with which an answer says something about keeping it.
static TELLING: LazyLock<NameSet> = LazyLock::new(|| {
    NameSet::of([
        AGE,
        CACHE_CONTROL,
        CDN_CACHE_CONTROL,
        CONTENT_LANGUAGE,
        EXPIRES,
        LAST_MODIFIED,
        PRAGMA,
        VARY,
        TAGS[0].clone(),
        TAGS[1].clone(),
        TAGS[2].clone(),
    ])
});

/// The fields whose values are tags.
pub(super) const TAGS: [HeaderName; 3] =
    [HeaderName::from_static("cache-tag"), HeaderName::from_static("surrogate-key"), HeaderName::from_static("xkey")];

/// Lines of tags of one answer.
const MOST_TAGS: usize = 64;

/// How a part was asked for.
#[derive(Clone, Debug, Default)]
pub struct AskedWith {
    /// With credentials, cookies or something else of one client.
    pub personal: bool,
    /// With these header fields of the client.
    pub forwarded: Vec<HeaderName>,
}

/// The directives of all parts together.
#[derive(Clone, Debug, Default)]
pub struct CombinedDirectives {
    pub parts: usize,
    /// Whether a part must not be stored.
    pub no_store: bool,
    /// Whether a part is for one client.
    pub private: bool,
    /// Whether a part must be validated each time.
    pub no_cache: bool,
    /// Whether a part must not be used stale.
    pub must_revalidate: bool,
    /// Whether all parts so far say that they are public.
    pub public: bool,
    /// Until when those parts are fresh that say it: for every cache, and for shared caches.
    pub until: Option<(Moment, Moment)>,
    /// Until when the others may be guessed to be fresh.
    pub guessed: Option<Moment>,
    /// When a part was changed last, as long as all parts have said it.
    pub modified: Option<Moment>,
    /// The language of all parts, as long as it is the same.
    pub language: Option<HeaderValue>,
    /// The request fields that parts depend on.
    pub vary: Vec<HeaderName>,
    /// Whether a part depends on more than requests say.
    pub unknown: bool,
    /// Request fields that calls send as they came and that this request did not have: the answer to one that has them may
    /// be another.
    pub absent: Vec<HeaderName>,
    /// Whether calls send whatever fields a request has.
    pub sends_all: bool,
    /// Request fields of the client that a part was asked with and that its `vary` does not name.
    pub unnamed: Vec<HeaderName>,
    /// The tags of parts, as they came.
    pub tags: Vec<(HeaderName, HeaderValue)>,
}

impl CombinedDirectives {
    /// Whether an answer says something about keeping it.
    pub fn tells(headers: &AnswerFields) -> bool {
        headers.has_any(&TELLING)
    }

    /// Adds parts that say nothing about themselves. Their order does not matter, and after two of them further ones only
    /// count.
    pub fn add_all_silent(&mut self, parts: usize) {
        (0..parts.min(2)).for_each(|_| self.add_silent());
        self.parts += parts.saturating_sub(2);
    }

    /// Adds a part that came from a server.
    pub fn add(&mut self, headers: &AnswerFields, asked: &AskedWith, came: Moment) {
        if !Self::tells(headers) {
            self.personalise(asked, &[]);
            return self.add_silent();
        }
        let (control, times) = (AnswerControl::all(headers), AnswerDates::from_headers(headers));
        self.no_store |= control.no_store;
        self.private |= control.private.is_whole();
        self.no_cache |= control.no_cache.is_whole();
        self.must_revalidate |= control.must_revalidate;
        match lifetime(&control, &times, came) {
            Ok((until, shared)) => {
                let known = self.until.unwrap_or((until, shared));
                self.until = Some((known.0.min(until), known.1.min(shared)));
            }
            Err(guessed) => self.guess(guessed),
        }
        let modified = times.modified.filter(|modified| *modified <= came);
        self.count(control.public, modified, headers.get(CONTENT_LANGUAGE));
        self.add_tags(headers);
        match Vary::from_headers(headers) {
            Vary::On(names) => {
                self.personalise(asked, &names);
                self.vary_by(&names);
            }
            Vary::Unknown => {
                self.personalise(asked, &[]);
                self.unknown = true;
            }
        }
    }

    /// Adds a part that says nothing about itself, such as rows of a database.
    pub fn add_silent(&mut self) {
        // It may be another one in a moment.
        self.guess(Moment::default());
        self.count(false, None, None);
    }

    /// Adds what a call depends on by its configuration.
    pub fn depend(&mut self, dependence: &Dependence) {
        self.private |= dependence.is_personal();
        match dependence.fields() {
            Some(names) => self.vary_by(names),
            None => self.unknown = true,
        }
    }

    fn vary_by(&mut self, names: &[HeaderName]) {
        if !self.unknown {
            add_names(&mut self.vary, names);
            self.unknown = self.vary.len() > NAMES;
        }
    }

    /// Notes that a call sends these fields of the client's request as they came, which this one does not have.
    pub fn miss<'a>(&mut self, absent: impl Iterator<Item = &'a HeaderName>) {
        absent.for_each(|name| add_names(&mut self.absent, std::slice::from_ref(name)));
    }

    /// Notes a part that is missing: the whole is not what it will be.
    pub fn lack(&mut self) {
        self.no_cache = true;
        self.add_silent();
    }

    fn guess(&mut self, until: Moment) {
        self.guessed = Some(self.guessed.map_or(until, |known| known.min(until)));
    }

    /// The tags by which caches purge the whole are those of all parts.
    fn add_tags(&mut self, headers: &HeaderMap) {
        for name in &TAGS {
            for value in headers.get_all(name) {
                let tag = (name.clone(), value.clone());
                if !self.tags.contains(&tag) {
                    self.tags.push(tag);
                }
            }
        }
        if self.tags.len() > MOST_TAGS {
            self.tags.clear();
            // Nobody could purge it.
            self.no_cache = true;
        }
    }

    fn count(&mut self, public: bool, modified: Option<Moment>, language: Option<&HeaderValue>) {
        let first = self.parts == 0;
        self.public = public && (first || self.public);
        self.modified = match (first, self.modified) {
            (true, _) => modified,
            (false, known) => known.zip(modified).map(|(known, new)| known.max(new)),
        };
        if first {
            self.language = language.cloned();
        } else if self.language.as_ref() != language {
            self.language = None;
        }
        self.parts += 1;
    }

    /// A field of the client that the part does not name may have made it what it is.
    fn personalise(&mut self, asked: &AskedWith, named: &[HeaderName]) {
        self.private |= asked.personal;
        let unnamed = asked.forwarded.iter().filter(|name| !named.contains(name));
        for name in unnamed {
            if !self.unnamed.contains(name) {
                self.unnamed.push(name.clone());
            }
        }
    }
}

/// Until when a part is fresh, for every cache and for shared ones; if it does not say it, until when caches may guess that
/// it is.
fn lifetime(control: &AnswerControl, times: &AnswerDates, came: Moment) -> Result<(Moment, Moment), Moment> {
    let date = times.date.unwrap_or(came);
    let born = came.before(came.since(date).max(times.age));
    let general = control.max_age.or_else(|| times.expires.map(|expires| expires.since(date)));
    match (general, control.s_maxage) {
        (None, None) => Err(born.after(policy::guess(times, came))),
        (general, shared) => {
            let general = general.unwrap_or_default();
            Ok((born.after(general), born.after(shared.unwrap_or(general))))
        }
    }
}
