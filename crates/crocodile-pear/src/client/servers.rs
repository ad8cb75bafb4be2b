//! The servers that a program calls: found by the URLs of its requests, or named before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http::Uri;
use indexmap::IndexMap;

use super::observe::Hooks;
use super::upstream::Upstream;
use crate::cache::Store;
use crate::config::carried_state::Carry;
use crate::config::files::Files;
use crate::config::problem::{Problems, Span};
use crate::config::spec::Located;
use crate::database::Database;
use crate::error::{Error, Kind};
use crate::pipeline::step::{ByName, Known, KnownRoute};
use crate::upstream::program::{Interceptor, Program, Via};
use crate::upstream::{ReadyUpstream, Resolver, UpstreamEnvironment, UpstreamSettings, UpstreamSpec};

/// Origins that are remembered besides those in use: an upstream is 32 KiB, and a program has few that it calls again and again.
const MOST: usize = 96;

/// The bytes of the cache, unless the program says otherwise.
const CACHE: usize = 64 << 20;

/// The upstreams that the clones of a client share.
pub struct SharedUpstreams {
    known: Mutex<Remembered>,
    program: Arc<Program>,
    /// For origins that have no settings of their own.
    defaults: Upstream,
    resolver: Option<Resolver>,
    store: OnceLock<Arc<Store>>,
    cache: usize,
}

#[derive(Default)]
struct Remembered {
    plain: Origins,
    secure: Origins,
    /// Counts the uses, to find the origin that was not used for the longest time.
    turn: u64,
    named: Arc<NamedServers>,
}

/// By authority.
type Origins = HashMap<Box<str>, KnownOrigin>;

struct KnownOrigin {
    upstream: Arc<ReadyUpstream>,
    used: u64,
    /// Whether the program has named it, with settings.
    named: bool,
}

/// The upstreams and databases that steps may name.
#[derive(Clone, Default)]
pub struct NamedServers {
    pub upstreams: IndexMap<String, Arc<ReadyUpstream>>,
    pub databases: IndexMap<String, Arc<Database>>,
}

impl NamedServers {
    /// The same for a pipeline whose path has these parameters.
    pub fn known<'a>(&'a self, params: &'a [String]) -> Known<'a> {
        Known {
            upstreams: ByName::new(&self.upstreams, &[]),
            databases: ByName::new(&self.databases, &[]),
            route: KnownRoute { params, ..KnownRoute::default() },
            table: None,
        }
    }
}

/// An upstream, and a request's target there, from the root of the server.
#[derive(Clone)]
pub struct Aim {
    pub upstream: Arc<ReadyUpstream>,
    /// Path and query.
    pub target: String,
    /// Whether the upstream has settings that add to its calls.
    pub named: bool,
}

impl Default for SharedUpstreams {
    fn default() -> Self {
        // Spans of calls need no setting.
        let interceptor: Arc<dyn Interceptor> = Arc::new(Hooks::default());
        let program = Program { interceptor: Some(interceptor), via: Via::Absent, transport: None };
        SharedUpstreams::new(program, Upstream::default(), None, None)
    }
}

impl SharedUpstreams {
    pub fn new(program: Program, defaults: Upstream, resolver: Option<Resolver>, cache: Option<usize>) -> Self {
        SharedUpstreams {
            known: Mutex::default(),
            program: Arc::new(program),
            defaults,
            resolver,
            store: OnceLock::new(),
            cache: cache.unwrap_or(CACHE),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The upstreams and databases that steps may name.
    pub fn named(&self) -> Arc<NamedServers> {
        self.lock().named.clone()
    }

    /// Adds an upstream, whose servers have these URLs.
    ///
    /// # Errors
    /// If there is one of this name.
    pub fn add_upstream(&self, name: &str, upstream: Arc<ReadyUpstream>, urls: &[Uri]) -> Result<(), String> {
        let mut known = self.lock();
        if known.named.upstreams.contains_key(name) {
            return Err(format!("there are two upstreams with the name `{name}`; give the second another name"));
        }
        for url in urls {
            let Some(authority) = url.authority() else { continue };
            let secure = url.scheme_str() == Some("https");
            let key = plain_authority(authority.as_str(), secure);
            let origin = KnownOrigin { upstream: upstream.clone(), used: 0, named: true };
            // The first one that is named has the origin.
            let origins = known.origins(secure);
            if !origins.get(&*key).is_some_and(|origin| origin.named) {
                origins.insert(key, origin);
            }
        }
        Arc::make_mut(&mut known.named).upstreams.insert(name.to_owned(), upstream);
        Ok(())
    }

    /// Adds a database.
    ///
    /// # Errors
    /// If there is one of this name.
    pub fn add_database(&self, name: &str, database: Arc<Database>) -> Result<(), String> {
        let mut known = self.lock();
        if known.named.databases.contains_key(name) {
            return Err(format!("there are two databases with the name `{name}`; give the second another name"));
        }
        Arc::make_mut(&mut known.named).databases.insert(name.to_owned(), database);
        Ok(())
    }

    /// Compiles an upstream of a configuration or of the program.
    pub fn compile(
        &self,
        (name, span): (&str, Span),
        spec: &UpstreamSpec,
        files: Files<'_>,
        problems: &mut Problems,
    ) -> Option<Arc<ReadyUpstream>> {
        let cache = spec.cache.on().map(|_| self.store().clone());
        let given = UpstreamEnvironment { files, resolver: self.resolver.clone(), cache, carry: Carry::default() };
        spec.compile_for(name, span, &given, Some(self.program.clone()), problems)
    }

    fn store(&self) -> &Arc<Store> {
        self.store.get_or_init(|| Arc::new(Store::new(self.cache)))
    }

    /// Where a request goes.
    ///
    /// # Errors
    /// `InvalidCall` if its URL leads nowhere.
    pub fn aim(&self, url: &Uri) -> Result<Aim, Error> {
        let secure = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(unfit(&url.to_string())),
        };
        let authority = url.authority().ok_or_else(|| unfit(&url.to_string()))?.as_str();
        let target = url.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let set = !self.defaults.is_empty();
        let mut known = self.lock();
        if let Some((upstream, named)) = known.find(authority, secure) {
            return Ok(Aim { upstream, target, named: named || set });
        }
        let key = plain_authority(authority, secure);
        if *key != *authority
            && let Some((upstream, named)) = known.find(&key, secure)
        {
            return Ok(Aim { upstream, target, named: named || set });
        }
        let upstream = self.open(&key, secure).map_err(|error| error.at_url(url.clone()))?;
        known.remember(key, secure, upstream.clone());
        Ok(Aim { upstream, target, named: set })
    }

    /// An upstream for an origin that nobody has named; its name in errors is the host.
    fn open(&self, authority: &str, secure: bool) -> Result<Arc<ReadyUpstream>, Error> {
        let root = format!("{}://{authority}/", if secure { "https" } else { "http" });
        let url: Uri = root.parse().map_err(|_| unfit(&root))?;
        let host = url.host().unwrap_or(authority).to_owned();
        if self.defaults.is_empty() {
            let settings = UpstreamSettings {
                program: Some(self.program.clone()),
                resolver: self.resolver.clone(),
                ..UpstreamSettings::new(host, url)
            };
            return ReadyUpstream::new(settings).map_err(|error| invalid(error.detail()));
        }
        let mut problems = Problems::default();
        let read = self.defaults.with_url(&root).read(&mut problems);
        let files = |written: &Located<String>| self.defaults.file(written);
        let made = read.and_then(|spec| self.compile((&host, Span::default()), &spec, &files, &mut problems));
        made.ok_or_else(|| {
            let told: Vec<String> = problems.into_sorted().into_iter().map(|problem| problem.message).collect();
            invalid(&told.join("; "))
        })
    }
}

impl Remembered {
    fn origins(&mut self, secure: bool) -> &mut Origins {
        if secure { &mut self.secure } else { &mut self.plain }
    }

    fn find(&mut self, authority: &str, secure: bool) -> Option<(Arc<ReadyUpstream>, bool)> {
        self.turn += 1;
        let turn = self.turn;
        let origin = self.origins(secure).get_mut(authority)?;
        origin.used = turn;
        Some((origin.upstream.clone(), origin.named))
    }

    /// Remembers an origin, and forgets the one that was not used for the longest time.
    fn remember(&mut self, authority: Box<str>, secure: bool, upstream: Arc<ReadyUpstream>) {
        let used = self.turn;
        let origins = self.origins(secure);
        if origins.len() >= MOST {
            // What calls hold goes on, with its connections.
            let idle = origins.iter().filter(|(_, origin)| !origin.named && Arc::strong_count(&origin.upstream) == 1);
            if let Some(oldest) = idle.min_by_key(|(_, origin)| origin.used).map(|(authority, _)| authority.clone()) {
                origins.remove(&oldest);
            }
        }
        origins.insert(authority, KnownOrigin { upstream, used, named: false });
    }
}

/// In lower case, and without the port that the scheme has anyway.
fn plain_authority(authority: &str, secure: bool) -> Box<str> {
    let lower = authority.to_ascii_lowercase();
    let port = if secure { ":443" } else { ":80" };
    lower.strip_suffix(port).unwrap_or(&lower).into()
}

/// Reads the URL of a request.
///
/// # Errors
/// `InvalidCall`, which names it.
pub fn url(text: &str) -> Result<Uri, Error> {
    checked(text.parse().map_err(|error: http::uri::InvalidUri| unfit(text).caused_by(error))?)
}

/// The URL, if a call can go there.
///
/// # Errors
/// `InvalidCall`, which names it.
pub fn checked(url: Uri) -> Result<Uri, Error> {
    match (url.scheme_str(), url.authority()) {
        (Some("http" | "https"), Some(authority)) if !authority.host().is_empty() => Ok(url),
        _ => Err(unfit(&url.to_string())),
    }
}

fn unfit(text: &str) -> Error {
    const SHOWN: usize = 200;
    let shown: String = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    invalid(&format!("`{shown}` is not the URL of a call; write it whole, as in `http://127.0.0.1:9000/orders`"))
}

fn invalid(detail: &str) -> Error {
    Error::new(Kind::InvalidCall, detail.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::servers::*;

    #[test]
    fn an_origin_is_one_however_it_is_written() {
        let servers = SharedUpstreams::default();
        let aim = |text: &str| servers.aim(&url(text).expect("a URL")).expect("an upstream").upstream;
        assert!(Arc::ptr_eq(&aim("http://Example.org:80/a"), &aim("http://example.org/b")));
        assert!(!Arc::ptr_eq(&aim("http://example.org/"), &aim("http://example.org:81/")));
    }

    #[test]
    fn a_client_forgets_the_origins_that_it_does_not_use() {
        let servers = SharedUpstreams::default();
        let busy = servers.aim(&url("http://127.0.0.1:1/").expect("a URL")).expect("an upstream").upstream;
        for at in 0..2_000 {
            let at = url(&format!("http://127.0.{}.{}:9/", at / 250, at % 250)).expect("a URL");
            servers.aim(&at).expect("an upstream");
        }
        assert!(servers.lock().plain.len() <= MOST + 1);
        let again = servers.aim(&url("http://127.0.0.1:1/").expect("a URL")).expect("an upstream").upstream;
        assert!(Arc::ptr_eq(&busy, &again), "one in use is not forgotten");
    }

    #[test]
    fn a_url_that_leads_nowhere_is_named() {
        for text in ["not a uri", "/orders", "127.0.0.1:80/a", "ftp://127.0.0.1/", "http:///a"] {
            let error = url(text).expect_err(text);
            assert_eq!((error.kind(), error.status().as_u16()), (Kind::InvalidCall, 500));
            assert!(error.detail().contains(text), "{error}");
        }
    }
}
