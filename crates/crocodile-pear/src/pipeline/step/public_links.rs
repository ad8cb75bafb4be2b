//! `links: public`: links in the body of an answer that lead into an upstream lead to the endpoint that serves them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_RANGE, ETAG, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use http_body::Frame;

use super::rewrite::{Rewrite, resolve_dots, up_to_slash};
use crate::error::Error;
use crate::format;
use crate::format::declared::{Declared, by_type};
use crate::http::http1::{AnswerFields, NameSet};
use crate::hypermedia::links::{EventLinks, JsonLinks, LinkFate, LinkMap, LinkNames, LinkPlace, XmlLinks};
use crate::message::answer::{Answer, OF_BYTES};
use crate::message::body::{AnswerBody, PulledBody};
use crate::request::context::Scope;
use crate::telemetry::log_limiter::LogLimiter;
use crate::upstream::{PublicSpec, ReadyUpstream, UnservedSpec, UpstreamAddress, asked_host};

/// Bytes of a body that are mapped before others have their turn.
const TURN: usize = 64 << 10;

/// Beginnings of URLs that are remembered for a body.
const REMEMBERED: usize = 32;

/// An endpoint's path for the paths of an upstream.
pub struct PublicWay {
    /// The upstream of its call.
    pub(crate) upstream: Arc<ReadyUpstream>,
    /// How a path of the upstream becomes one of the endpoint.
    pub(crate) way: Arc<Rewrite>,
}

impl PublicWay {
    /// The path of the call and that of the endpoint.
    pub fn outline(&self) -> (String, String) {
        self.way.patterns()
    }

    /// The upstream of its call.
    pub fn upstream(&self) -> &Arc<ReadyUpstream> {
        &self.upstream
    }
}

/// A way with where it is served.
struct ServedWay {
    way: PublicWay,
    /// The hosts of its endpoint, `*.example.com` for all below; none: any host.
    hosts: Box<[String]>,
    /// Whether its endpoint answers GET.
    reads: bool,
}

/// The ways of all endpoints. It is filled when all of them are compiled.
#[derive(Default)]
pub struct PublicTable(OnceLock<Ways>);

#[derive(Default)]
struct Ways {
    all: Vec<ServedWay>,
    /// The ways to each upstream.
    of: Vec<WaysOfUpstream>,
    /// The place of each upstream among them.
    places: HashMap<Arc<str>, usize>,
}

/// The ways to one upstream, as indices.
#[derive(Default)]
struct WaysOfUpstream {
    /// By the first segment of the upstream's path.
    by_segment: BTreeMap<Box<str>, Vec<usize>>,
    /// The ways that any segment fits.
    others: Vec<usize>,
}

impl WaysOfUpstream {
    fn add(&mut self, segment: &str, index: usize) {
        match segment {
            "" => self.others.push(index),
            _ => self.by_segment.entry(segment.into()).or_default().push(index),
        }
    }

    /// The ways that a path may take: those that begin with its first segment, and those that begin with any.
    fn of(&self, path: &str) -> [&[usize]; 2] {
        let segment = up_to_slash(path.strip_prefix('/').unwrap_or(path));
        [self.by_segment.get(segment).map_or(&[], Vec::as_slice), &self.others]
    }
}

impl PublicTable {
    /// Fills it: each way with the hosts and the method of its endpoint.
    pub fn fill(&self, ways: impl Iterator<Item = (PublicWay, Vec<String>, Option<Method>)>) {
        let mut filled = Ways::default();
        for (way, hosts, method) in ways {
            let segment = way.way.first_segment().unwrap_or_default().to_owned();
            let own = way.upstream.name().clone();
            let mut names = way.upstream.names();
            names.push(own);
            names.sort();
            names.dedup();
            for name in names {
                let at = *filled.places.entry(name).or_insert(filled.of.len());
                if at == filled.of.len() {
                    filled.of.push(WaysOfUpstream::default());
                }
                filled.of[at].add(&segment, filled.all.len());
            }
            let reads = method.is_none_or(|method| method == Method::GET);
            filled.all.push(ServedWay { way, hosts: hosts.into(), reads });
        }
        let _ = self.0.set(filled);
    }

    /// The paths of an upstream that endpoints serve, each with the endpoint's.
    fn outline(&self, upstream: &str) -> Vec<(String, String)> {
        let leads = |entry: &&ServedWay| entry.way.upstream.names().iter().any(|name| **name == *upstream);
        self.0.get().iter().flat_map(|ways| &ways.all).filter(leads).map(|entry| entry.way.outline()).collect()
    }

    /// The place of the ways to an upstream.
    fn place(&self, upstream: &str) -> Option<usize> {
        self.0.get()?.places.get(upstream).copied()
    }

    /// The ways that a path of an upstream may take, as indices of these.
    fn of(&self, place: usize, path: &str) -> Option<(&[ServedWay], [&[usize]; 2])> {
        let ways = self.0.get()?;
        Some((&ways.all, ways.of.get(place)?.of(path)))
    }
}

/// The mapping of one endpoint's answers.
pub struct PublicLinks {
    table: Arc<PublicTable>,
    /// The way of the endpoint itself.
    own: Option<(Arc<ReadyUpstream>, Arc<Rewrite>)>,
    /// The upstreams whose links are mapped.
    upstreams: Vec<Arc<ReadyUpstream>>,
    /// How many of them the endpoint calls: a path without a host is one of theirs. They come first.
    called: usize,
    unserved: UnservedSpec,
    names: Arc<LinkNames>,
    log: LogLimiter,
}

/// The known facts about an endpoint when its pipeline is compiled.
pub(crate) struct EndpointFacts<'a> {
    pub(crate) table: Option<&'a Arc<PublicTable>>,
    /// The setting at the endpoint: `None` if there is none, and `Some(None)` if links stay as they are.
    pub(crate) written: Option<Option<&'a PublicSpec>>,
    pub(crate) called: &'a [Arc<ReadyUpstream>],
    pub(crate) all: Vec<Arc<ReadyUpstream>>,
    pub(crate) own: Option<(Arc<ReadyUpstream>, Arc<Rewrite>)>,
}

impl PublicLinks {
    /// `None` where links stay as they are.
    pub(crate) fn new(found: EndpointFacts<'_>) -> Option<Arc<Self>> {
        let written = match found.written {
            Some(None) => return None,
            Some(Some(written)) => Some(written),
            None => None,
        };
        let leads_to = |upstream: &Arc<ReadyUpstream>| {
            let names = upstream.names();
            found.all.iter().filter(move |other| names.contains(other.name())).cloned()
        };
        let mut upstreams: Vec<Arc<ReadyUpstream>> = Vec::new();
        let called = found.called.iter().flat_map(leads_to).filter(|own| written.is_some() || own.links().is_some());
        for upstream in called {
            if !upstreams.iter().any(|known| known.name() == upstream.name()) {
                upstreams.push(upstream);
            }
        }
        let called = upstreams.len();
        if called == 0 {
            return None;
        }
        for upstream in found.all.iter().filter(|upstream| upstream.links().is_some()) {
            if !upstreams.iter().any(|known| known.name() == upstream.name()) {
                upstreams.push(upstream.clone());
            }
        }
        let said = upstreams.iter().take(called).filter_map(|upstream| upstream.links().map(|spec| &**spec));
        let specs: Vec<&PublicSpec> = written.into_iter().chain(said).collect();
        let names = specs.iter().flat_map(|spec| &spec.names).map(|name| name.value.clone());
        let names = Arc::new(LinkNames::with(names));
        let unserved = specs.first().map_or(UnservedSpec::Keep, |spec| spec.unserved);
        Some(Arc::new(PublicLinks {
            table: found.table.cloned().unwrap_or_default(),
            own: found.own,
            upstreams,
            called,
            unserved,
            names,
            log: LogLimiter::default(),
        }))
    }

    /// The lines of `explain`: where the links of each upstream lead, and what becomes of the others.
    pub fn outline(&self) -> Vec<String> {
        /// More would hide the rest.
        const MOST: usize = 24;
        let mut lines = Vec::new();
        for upstream in &self.upstreams {
            let ways = self.table.outline(upstream.name());
            let more = ways.len().saturating_sub(MOST);
            let named =
                ways.iter().take(MOST).map(|(from, to)| format!("{from} to {to}")).collect::<Vec<_>>().join(", ");
            let named = match (ways.is_empty(), more) {
                (true, _) => "no endpoint serves any".to_owned(),
                (_, 0) => named,
                (_, more) => format!("{named}, and {more} more"),
            };
            lines.push(format!("links of {} lead here: {named}", upstream.name()));
        }
        lines.push(match self.unserved {
            UnservedSpec::Keep => "links that no endpoint serves stay as they are".to_owned(),
            UnservedSpec::Null => "links that no endpoint serves become null".to_owned(),
            UnservedSpec::Remove => "links that no endpoint serves are left out".to_owned(),
        });
        lines
    }

    /// The answer with its links mapped.
    ///
    /// # Errors
    /// `Malformed` for a body in an unknown coding.
    pub(crate) fn apply(self: &Arc<Self>, answer: Answer, scope: &Arc<Scope>) -> Result<Answer, Error> {
        static FIELDS: LazyLock<NameSet> = LazyLock::new(|| NameSet::of(OF_BYTES));
        if answer.status == StatusCode::NOT_MODIFIED {
            let mut answer = answer;
            weaken(&mut answer.headers);
            return Ok(answer);
        }
        let Some(form) = BodyForm::from_answer(&answer) else { return Ok(answer) };
        let mut answer = format::plain(answer)?;
        answer.headers.remove_all(&FIELDS);
        weaken(&mut answer.headers);
        if *scope.call_method() == Method::HEAD {
            answer.body = AnswerBody::without_length();
            return Ok(answer);
        }
        let mut mapped =
            Mapped { body: None, waiting: Bytes::new(), trailers: None, reading: self.reading(form, scope) };
        answer.body = match answer.body {
            AnswerBody::Bytes(bytes) if bytes.len() <= TURN => AnswerBody::Bytes(mapped.reading.whole(&bytes)),
            AnswerBody::Json(raw) if raw.bytes().len() <= TURN => {
                set_json(&mut answer.headers);
                AnswerBody::Bytes(mapped.reading.whole(raw.bytes()))
            }
            body => {
                if matches!(body, AnswerBody::Json(_) | AnswerBody::Value(_)) {
                    set_json(&mut answer.headers);
                }
                mapped.body = Some(body.into_pulled()?);
                AnswerBody::Pulled(Box::pin(mapped))
            }
        };
        Ok(answer)
    }

    fn reading(self: &Arc<Self>, form: BodyForm, scope: &Arc<Scope>) -> BodyLinks {
        let (names, removes) = (self.names.clone(), self.unserved == UnservedSpec::Remove);
        let links = match form {
            BodyForm::Json => LinkReader::Json(JsonLinks::new(names, removes)),
            BodyForm::Events => LinkReader::Events(EventLinks::new(names, removes)),
            BodyForm::Xml => LinkReader::Xml(XmlLinks::new(names)),
        };
        BodyLinks { links, map: Mapper::new(self.clone(), scope.clone()) }
    }
}

fn set_json(headers: &mut AnswerFields) {
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
}

/// An `etag` of other bytes is no strong one of these.
fn weaken(headers: &mut AnswerFields) {
    let weak = headers
        .get(ETAG)
        .filter(|etag| !etag.as_bytes().starts_with(b"W/"))
        .and_then(|etag| HeaderValue::from_bytes(&[b"W/", etag.as_bytes()].concat()).ok());
    if let Some(weak) = weak {
        headers.insert(ETAG, weak);
    }
}

/// The `if-match` of a client that has a weakened `etag`, as the upstream knows it.
pub(crate) fn strengthen(condition: &HeaderValue) -> Option<HeaderValue> {
    let text = condition.to_str().ok().filter(|text| text.contains("W/\""))?;
    HeaderValue::from_str(&text.replace("W/\"", "\"")).ok()
}

/// A body that has links which can be mapped.
#[derive(Clone, Copy)]
enum BodyForm {
    Json,
    Events,
    Xml,
}

impl BodyForm {
    fn from_answer(answer: &Answer) -> Option<Self> {
        let part = answer.status == StatusCode::PARTIAL_CONTENT || answer.headers.get(CONTENT_RANGE).is_some();
        match answer.body {
            AnswerBody::Tunnel(_) => return None,
            AnswerBody::Value(_) | AnswerBody::Json(_) => return Some(BodyForm::Json),
            AnswerBody::Bytes(_) | AnswerBody::Pulled(_) if part => return None,
            AnswerBody::Bytes(_) | AnswerBody::Pulled(_) => {}
        }
        let media = answer.headers.media()?;
        match by_type(Some(media)) {
            Declared::Sse => Some(BodyForm::Events),
            Declared::Json | Declared::Ndjson | Declared::JsonSeq => Some(BodyForm::Json),
            Declared::Xml => Some(BodyForm::Xml),
            _ => None,
        }
    }
}

/// Reads the links of one body.
struct BodyLinks {
    links: LinkReader,
    map: Mapper,
}

enum LinkReader {
    Json(JsonLinks),
    Events(EventLinks),
    Xml(XmlLinks),
}

impl BodyLinks {
    fn feed(&mut self, came: &[u8], out: &mut Vec<u8>) {
        match &mut self.links {
            LinkReader::Json(links) => links.feed(came, &mut self.map, out),
            LinkReader::Events(links) => links.feed(came, &mut self.map, out),
            LinkReader::Xml(links) => links.feed(came, &mut self.map, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        match &mut self.links {
            LinkReader::Json(links) => links.reset(out),
            LinkReader::Events(links) => links.finish(out),
            LinkReader::Xml(links) => links.finish(out),
        }
    }

    fn whole(&mut self, bytes: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 8);
        self.feed(bytes, &mut out);
        self.finish(&mut out);
        out.into()
    }
}

/// A body whose links are mapped while it is pulled.
struct Mapped {
    /// `None` after its end.
    body: Option<PulledBody>,
    /// The bytes that have come and are not mapped yet.
    waiting: Bytes,
    trailers: Option<HeaderMap>,
    reading: BodyLinks,
}

impl http_body::Body for Mapped {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        loop {
            if !this.waiting.is_empty() {
                let part = this.waiting.split_to(this.waiting.len().min(TURN));
                let mut out = Vec::with_capacity(part.len() + part.len() / 8);
                this.reading.feed(&part, &mut out);
                if !out.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(out.into()))));
                }
                continue;
            }
            let Some(body) = &mut this.body else {
                return Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            };
            match ready!(body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.waiting = data,
                    Err(frame) => {
                        this.trailers = frame.into_trailers().ok().map(|mut trailers| {
                            OF_BYTES.iter().for_each(|name| drop(trailers.remove(name)));
                            trailers
                        });
                        this.trailers = this.trailers.take().filter(|trailers| !trailers.is_empty());
                        this.body = None;
                    }
                },
                Some(Err(error)) => {
                    this.body = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => this.body = None,
            }
            if this.body.is_none() {
                let mut out = Vec::new();
                this.reading.finish(&mut out);
                if !out.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(out.into()))));
                }
            }
        }
    }
}

/// Links of a body and what they became: items of a list name the same authors and categories again and again.
#[derive(Default)]
struct KnownLinks {
    hash: hashbrown::DefaultHashBuilder,
    /// The links, each at its place. Empty until a body has some.
    places: Box<[KnownLink]>,
    asked: usize,
}

#[derive(Clone, Default)]
struct KnownLink {
    link: String,
    public: String,
    upstream: usize,
}

impl KnownLinks {
    /// The links that are known: each has one place.
    const PLACES: usize = 256;

    /// The links of a body that has too few of them to be worth it.
    const FEW: usize = 16;

    /// The bytes of the longest link that is remembered.
    const LONGEST: usize = 200;

    fn at(&self, link: &str) -> Option<usize> {
        let fits = !self.places.is_empty() && link.len() <= Self::LONGEST;
        fits.then(|| self.hash.hash_one(link) as usize % Self::PLACES)
    }

    /// The link that this one became, with its upstream.
    fn get(&mut self, link: &str) -> Option<(&str, usize)> {
        self.asked += 1;
        if self.asked == Self::FEW {
            self.places = vec![KnownLink::default(); Self::PLACES].into();
        }
        let known = &self.places[self.at(link)?];
        (known.link == link).then_some((&*known.public, known.upstream))
    }

    fn put(&mut self, link: &str, public: &str, upstream: usize) {
        let Some(known) = self.at(link).and_then(|at| self.places.get_mut(at)) else { return };
        for (place, text) in [(&mut known.link, link), (&mut known.public, public)] {
            place.clear();
            place.push_str(text);
        }
        known.upstream = upstream;
    }
}

/// Says where the links of one answer lead.
struct Mapper {
    links: Arc<PublicLinks>,
    scope: Arc<Scope>,
    /// The addresses of the upstreams, each with the index of its upstream.
    addresses: Vec<(usize, UpstreamAddress)>,
    /// The place of the ways to each upstream, once it has been looked up.
    places: Box<[OnceCell<Option<usize>>]>,
    /// Beginnings of URLs, each with the addresses that it leads to.
    seen: Vec<(Box<str>, Box<[usize]>)>,
    /// The host that the client asked for.
    host: Option<Box<str>>,
    /// The beginning of the client's path that its upstream was told.
    prefix: Option<String>,
    known: KnownLinks,
    /// Links of each upstream: those that were mapped, and those that nobody serves.
    counts: Vec<(u64, u64)>,
}

impl Drop for Mapper {
    fn drop(&mut self) {
        for (upstream, (mapped, unserved)) in self.links.upstreams.iter().zip(&self.counts) {
            upstream.count_links(*mapped, *unserved);
        }
    }
}

impl Mapper {
    fn new(links: Arc<PublicLinks>, scope: Arc<Scope>) -> Self {
        let all = links.upstreams.iter().enumerate();
        let addresses = all.flat_map(|(index, upstream)| {
            // A host of the client's is one of those that were told it.
            let own = index < links.called;
            let addresses = upstream.addresses(&scope).into_iter().filter(move |address| own || !address.told);
            addresses.map(move |address| (index, address))
        });
        let addresses = addresses.collect();
        let host = asked_host(&scope).and_then(|host| host.to_str().ok()).map(Box::from);
        let prefix = links.own.as_ref().filter(|(upstream, _)| upstream.tells_prefix());
        let prefix = prefix.and_then(|(upstream, way)| way.prefix(upstream, &scope));
        let counts = vec![(0, 0); links.upstreams.len()];
        let places = vec![OnceCell::new(); links.upstreams.len()].into();
        let known = KnownLinks::default();
        Mapper { links, scope, addresses, places, seen: Vec::new(), host, prefix, known, counts }
    }

    /// The addresses that a URL leads to that begins so: scheme and authority, or an authority behind `//`.
    fn beginning(&mut self, begin: &str) -> usize {
        if let Some(at) = self.seen.iter().position(|(known, _)| **known == *begin) {
            return at;
        }
        let (scheme, authority) = match begin.split_once("://") {
            Some((scheme, authority)) => (Some(scheme), authority),
            None => (None, begin.trim_start_matches('/')),
        };
        let leads =
            |(at, (_, address)): (usize, &(usize, UpstreamAddress))| address.is(scheme, authority).then_some(at);
        let found = self.addresses.iter().enumerate().filter_map(leads).collect();
        if self.seen.len() == REMEMBERED {
            self.seen.remove(0);
        }
        self.seen.push((begin.into(), found));
        self.seen.len() - 1
    }

    /// A path below that of an upstream, as a path of an endpoint, with another host where it is only served there.
    fn public(&self, upstream: usize, path: &str) -> Option<(Option<String>, String)> {
        let name = self.links.upstreams[upstream].name();
        if let Some((own, way)) = &self.links.own
            && (own.name() == name || own.names().contains(name))
            && let Some(path) = way.public(path, &self.scope)
        {
            return Some((None, path));
        }
        let place = (*self.places[upstream].get_or_init(|| self.links.table.place(name)))?;
        let (all, [named, others]) = self.links.table.of(place, path)?;
        let rank = |entry: &ServedWay, host: &Option<String>| {
            let near = self.links.own.as_ref().map_or(0, |(_, own)| own.shared(&entry.way.way));
            (entry.reads, host.is_none(), entry.way.way.literal(), near)
        };
        let (mut best, mut best_rank) = (None, None);
        for index in named.iter().chain(others) {
            let entry = &all[*index];
            let Some(host) = self.host_of(entry) else { continue };
            let Some(path) = entry.way.way.public(path, &self.scope) else { continue };
            match &best {
                None => best = Some((entry, (host, path))),
                Some((known, (known_host, _))) => {
                    // Of equals the first.
                    let known = *best_rank.get_or_insert_with(|| rank(known, known_host));
                    let new = rank(entry, &host);
                    if new > known {
                        (best, best_rank) = (Some((entry, (host, path))), Some(new));
                    }
                }
            }
        }
        best.map(|(_, found)| found)
    }

    /// The host that an entry is served at: `Some(None)` for the one that the client asked for, `None` if none is known.
    fn host_of(&self, entry: &ServedWay) -> Option<Option<String>> {
        if entry.hosts.is_empty() {
            return Some(None);
        }
        let asked = self.host.as_deref().unwrap_or_default();
        let (name, port) = match asked.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, Some(port)),
            _ => (asked, None),
        };
        let fits = |pattern: &String| match pattern.strip_prefix('*') {
            Some(domain) => name.len() > domain.len() && name.to_ascii_lowercase().ends_with(domain),
            None => name.eq_ignore_ascii_case(pattern),
        };
        if entry.hosts.iter().any(fits) {
            return Some(None);
        }
        let exact = entry.hosts.iter().find(|pattern| !pattern.starts_with('*'))?;
        Some(Some(port.map_or_else(|| exact.clone(), |port| format!("{exact}:{port}"))))
    }

    /// The link to a path of an endpoint, in the form that the upstream's had.
    fn link(&self, host: Option<&str>, form: UrlForm, mut path: String, tail: &str) -> String {
        let host = match (host, form) {
            (None, UrlForm::Path) => None,
            (None, _) => self.host.as_deref(),
            (host, _) => host,
        };
        let scheme = self.scope.facts().client().map_or("http", |client| client.scheme());
        path.push_str(tail);
        // It has room for the host.
        if let Some(host) = host {
            path.insert_str(0, host);
            path.insert_str(0, "//");
            if !matches!(form, UrlForm::Authority) {
                path.insert(0, ':');
                path.insert_str(0, scheme);
            }
        }
        path
    }

    fn served(&mut self, link: &str, public: String, upstream: usize) -> LinkFate {
        self.counts[upstream].0 += 1;
        self.known.put(link, &public, upstream);
        LinkFate::Replace(public)
    }

    fn unserved(&mut self, upstream: usize, path: &str) -> LinkFate {
        self.counts[upstream].1 += 1;
        if self.links.log.allows() {
            let name = &**self.links.upstreams[upstream].name();
            tracing::info!(target: "crocodile_pear::links", upstream = name, path, "no endpoint serves this link");
        }
        match self.links.unserved {
            UnservedSpec::Keep => LinkFate::Keep,
            UnservedSpec::Null => LinkFate::Null,
            UnservedSpec::Remove => LinkFate::Remove,
        }
    }

    fn is_public(&self, path: &str) -> bool {
        let below =
            |prefix: &String| path.strip_prefix(&**prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.prefix.as_ref().is_some_and(below)
    }

    /// A link that is only a path.
    fn path(&mut self, link: &str) -> LinkFate {
        let (path, tail) = cut(link);
        if self.is_public(path) {
            return LinkFate::Keep;
        }
        let path = &*resolve_dots(path);
        for upstream in 0..self.links.called {
            let Some(below) = below(path, self.links.upstreams[upstream].base()) else { continue };
            if let Some((host, path)) = self.public(upstream, below) {
                let public = self.link(host.as_deref(), UrlForm::Path, path, tail);
                return self.served(link, public, upstream);
            }
        }
        self.unserved(0, path)
    }

    /// A link with a host.
    fn url(&mut self, link: &str, form: UrlForm, start: usize) -> LinkFate {
        let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#' | b'{' | b'\\');
        let end = link.as_bytes()[start..].iter().position(ends).map_or(link.len(), |end| start + end);
        let known = self.beginning(&link[..end]);
        if self.seen[known].1.is_empty() {
            return LinkFate::Keep;
        }
        let (path, tail) = cut(&link[end..]);
        let path = &*resolve_dots(path);
        let mut told = true;
        for at in 0..self.seen[known].1.len() {
            let (upstream, address) = &self.addresses[self.seen[known].1[at]];
            let upstream = *upstream;
            told &= address.told;
            if address.told && self.is_public(path) {
                return LinkFate::Keep;
            }
            let Some(below) = below(path, &address.base) else { continue };
            if let Some((host, path)) = self.public(upstream, below) {
                let public = self.link(host.as_deref(), form, path, tail);
                return self.served(link, public, upstream);
            }
        }
        // A host of the client's is no address of the upstream alone: the link may lead here already.
        if told {
            return LinkFate::Keep;
        }
        let upstream = self.addresses[self.seen[known].1[0]].0;
        self.unserved(upstream, path)
    }
}

impl LinkMap for Mapper {
    fn map(&mut self, link: &str, _: LinkPlace) -> LinkFate {
        if let Some((public, upstream)) = self.known.get(link) {
            self.counts[upstream].0 += 1;
            return LinkFate::Replace(public.to_owned());
        }
        if link.bytes().fold(false, |any, byte| any | (byte <= b' ') | (byte == 0x7f)) {
            return LinkFate::Keep;
        }
        if link.starts_with("//") {
            return self.url(link, UrlForm::Authority, 2);
        }
        match memchr::memchr(b':', link.as_bytes()).filter(|colon| link[*colon..].starts_with("://")) {
            Some(colon) if !link.starts_with('/') => self.url(link, UrlForm::Whole, colon + 3),
            _ => self.path(link),
        }
    }
}

#[derive(Clone, Copy)]
enum UrlForm {
    Whole,
    /// `//host/path`
    Authority,
    Path,
}

/// The path of a link, and what stands behind it: query, fragment, and expressions of a template that make them.
fn cut(link: &str) -> (&str, &str) {
    let bytes = link.as_bytes();
    let ends = |at: &usize| bytes[*at] != b'{' || matches!(bytes.get(at + 1), Some(b'?' | b'&' | b'#' | b'/'));
    link.split_at(memchr::memchr3_iter(b'?', b'#', b'{', bytes).find(ends).unwrap_or(bytes.len()))
}

fn below<'p>(path: &'p str, base: &str) -> Option<&'p str> {
    path.strip_prefix(base).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use crocodile_pear_peers::test_rng::TestRng;

    use super::*;

    #[test]
    fn a_link_is_known_as_it_was_put_or_not_at_all() {
        let mut known = KnownLinks::default();
        let public = |number: usize| format!("/shop/items/{number}");
        let (mut hits, mut rng) = (0, TestRng(1));
        for _ in 0..20_000 {
            let number = rng.below(400);
            let link = format!("http://in/items/{number}");
            match known.get(&link) {
                Some(found) => {
                    assert_eq!(found, (&*public(number), number % 3));
                    hits += 1;
                }
                None => known.put(&link, &public(number), number % 3),
            }
        }
        assert!(hits > 5_000, "{hits}");
        let long = "x".repeat(KnownLinks::LONGEST + 1);
        known.put(&long, "/y", 0);
        assert_eq!(known.get(&long), None);
    }
}
