//! An upstream in the configuration.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;

use super::cached::UpstreamCache;
use super::call::forward::{FieldsSpec, Forward, ForwardSettings, ForwardedSpec, HostSpec};
use super::call::public::LinksSpec;
use super::call::rewrite::RewriteSpec;
use super::call::timeouts::{TimeoutSpec, Timeouts};
use super::connect::connections::{Connections, ConnectionsSpec};
use super::connect::location::{DnsService, Location, ServerSpec, servers};
use super::connect::resolve::Resolver;
use super::credentials::CredentialsSpec;
use super::environment::UpstreamEnvironment;
use super::health::HealthSpec;
use super::program::Program;
use super::ready::{AffinityRule, CallWrappers, ReadyUpstream};
use super::servers::balance::{BalanceSpec, Way};
use super::servers::choice::{Choice, ChoiceRuleSpec, Choices, outline, request};
use super::servers::mirror::MirrorSpec;
use super::servers::retry::RetrySpec;
use super::servers::settings::UpstreamSettings;
use super::types::Types;
use crate::cache::CacheSpec;
use crate::config::carried_state::MarkedFiles;
use crate::config::files::Files;
use crate::config::problem::{Problems, Span};
use crate::config::spec::{Entries, Located, Marked, Size, defaults, only};
use crate::message::xml_lists::{CsvSpec, Lists, XmlSpec};
use crate::net::protocol::{self, Protocol};
use crate::net::tls::{TlsSettings, TlsSpec};
use crate::net::url::{is_service, service, url};
use crate::resilience::breaker::BreakerSpec;
use crate::spec;

spec! {
    /// An API: its servers, and how to call them. Short form: the URL.
    pub struct UpstreamSpec {
        /// Scheme, host, port, and a path to put before the path of every call: `http://127.0.0.1:8000/api`. With
        /// `http+srv` or `https+srv` the host is the name of a DNS service: `http+srv://_api._tcp.example.com`. Its
        /// SRV records give the servers, with priorities and weights. The gateway looks them up again before they
        /// expire.
        pub url: Option<Located<String>>,
        /// The Unix socket of the server in `url`: `/run/app.sock`. The gateway connects to it instead of the host
        /// and port of the URL. These then only give the `host` of calls and the name in the certificate.
        pub socket: Option<Located<String>>,
        /// Instead of `url`: rules that choose another upstream for each request. Whatever names this upstream, goes to the
        /// chosen one, with its settings. Only `mirror` may stand beside it. If no rule fits, the client gets 404.
        pub choose: Option<Vec<ChoiceRuleSpec>>,
        /// Copies of its calls for another upstream, whose answers are dropped. Nobody waits for them. Off by default.
        pub mirror: Option<MirrorSpec>,
        /// Instead of `url`: several servers of the same API, each a URL or a URL with a weight.
        #[was = "endpoints"]
        pub servers: Option<Vec<ServerSpec>>,
        /// Short for `servers` without weights.
        pub urls: Option<Vec<Located<String>>>,
        /// The version of HTTP to use.
        pub protocol: Protocol = Protocol::Auto,
        /// TLS settings for `https`: CAs to trust, client certificate, versions.
        pub tls: Option<TlsSpec>,
        /// How long a call may take: one time for the whole call (`2s`), or a time for each phase.
        pub timeout: Option<TimeoutSpec>,
        /// The client's header fields to forward: a list of names, or `all`. Default: none. `all` leaves out
        /// hop-by-hop fields, fields in which a client says who it is (`forwarded`, `x-forwarded-…`, `x-real-ip`),
        /// credentials that `authenticate` reads, and `proxy`, which no call may have.
        pub forward: FieldsSpec = FieldsSpec::Named(Vec::new()),
        /// The `host` of calls: a name, or `keep` for the client's own. Default: the host of the server's URL.
        pub host: Option<HostSpec>,
        /// How to tell the upstream the client's address, protocol and host. Client fields with the same names are
        /// replaced. Default: `x` with `forward: all`, otherwise `off`.
        pub forwarded: Option<ForwardedSpec>,
        /// Header fields for every call; each value is a text with `{}`. They replace forwarded fields; `headers` of a
        /// call replace them. A field whose value is null or empty is left out, even if the client sent it.
        pub headers: Option<Entries<Located<String>>>,
        /// Whether to rewrite `location`, `content-location`, `link`, and the path and domain of `set-cookie`, if
        /// they point to the upstream, so that they point to the gateway. Only in an answer that is passed through to
        /// the client.
        pub rewrite: RewriteSpec = RewriteSpec::On,
        /// `public`: links in the bodies of answers that lead into the upstream lead to the endpoints that serve them. In JSON
        /// these are URLs with a host of the upstream, wherever they stand, and paths where formats have links (`href`, `url`,
        /// `links`, `next`, `@odata.nextLink` and others); in XML likewise, with `href` and `src`. Web pages stay as they are.
        /// The body is mapped while it streams. Off by default: links stay as they are.
        pub links: Option<LinksSpec>,
        /// Further addresses of the same server, as its own documents write them: `[https://api.example.org]`. What leads
        /// there belongs to the upstream, for `follow` as for `rewrite`. Calls go to the server of `url`; the gateway
        /// connects to none of these. The name in `host`, and what `host: keep` and `forwarded` send of the client's, belong
        /// to the upstream without being listed.
        pub origins: Option<Vec<Located<String>>>,
        /// The largest body of unknown length that is read before the call: `1MiB`. It is sent with a length, for servers that
        /// read nothing without one, as most under WSGI and CGI do. A larger one gets 413. Bodies of known length and small
        /// ones that arrive with their head are sent with a length anyway. Off by default: a body of unknown length is
        /// streamed in chunks. Trailers behind a body that is read so are left out.
        pub buffer: Option<Size>,
        /// The maximum number of calls in flight, over all cores. A further call waits up to `timeout.connect`, then
        /// it fails with 503. If calls wait, a call whose body comes with less than 500 bytes per second, from the
        /// client or from the upstream, gives up its place. As many calls again may go on so slowly; further ones are
        /// cut off.
        pub in_flight: Option<NonZeroUsize>,
        /// How long an idle connection is kept.
        pub keep: Duration = Duration::from_secs(30),
        /// Limits of the connection pool.
        pub connections: Option<ConnectionsSpec>,
        /// When a request is retried. On by default with several servers, off with one.
        pub retry: Option<RetrySpec>,
        /// Circuit breaker: when a failing server gets no more calls. Off by default.
        pub breaker: Option<BreakerSpec>,
        /// How to distribute calls over several servers.
        pub balance: BalanceSpec = defaults(),
        /// Active health checks. Off by default.
        pub health: Option<HealthSpec>,
        /// The gateway's own credentials for the upstream. They replace the client's `authorization`.
        pub credentials: Option<Marked<CredentialsSpec>>,
        /// Caches its answers, for the calls of all pipelines: `on`, a time for answers that do not say how long, or
        /// a map. Off by default. The URL and everything that the configuration adds to a call is part of the key: every
        /// field under `headers`, whatever its name and its value, and the host and scheme in `forwarded`. So an answer
        /// to a call that a pipeline made with `$claims` is never served to another client. Fields of the client that
        /// are forwarded as they came, and its address in `forwarded`, are not: an answer that depends on them says so
        /// in `vary`.
        pub cache: CacheSpec = CacheSpec::Off,
        /// How to read XML in its answers.
        pub xml: Option<XmlSpec>,
        /// How to read CSV in its answers.
        pub csv: Option<CsvSpec>,
        /// How resources that its documents only name by type and ID (JSON:API) are fetched by `follow`: for each type the
        /// call, as `UPSTREAM /path` with `{id}` and, if wanted, `{type}`: `{ people: 'api /people/{id}' }`. The call has the
        /// fields and credentials of the upstream that it names.
        pub types: Option<Entries<Located<String>>>,
    }
    short(short)
}

fn short(url: Located<String>, problems: &mut Problems) -> Option<UpstreamSpec> {
    only([("url", url)], problems)
}

impl UpstreamSpec {
    /// Makes a choice ready: an upstream with `choose`.
    pub fn compile_choice(
        &self,
        name: &str,
        span: Span,
        choices: &Choices<'_, Arc<ReadyUpstream>>,
        problems: &mut Problems,
    ) -> Option<Arc<ReadyUpstream>> {
        let rules = self.choose.as_deref().unwrap_or_default();
        if rules.is_empty() {
            return problems.error(span, format!("`{name}` has no rules to choose by"), "add `- { to: UPSTREAM }`");
        }
        let choice = Choice::compile(name, rules, choices, problems)?;
        ReadyUpstream::of_choice(choice, outline(rules))
    }

    /// The rule that chooses servers, where it is by the client.
    fn affinity(&self, problems: &mut Problems) -> Option<Option<AffinityRule>> {
        let BalanceSpec { by, key, bound, cookie, .. } = &self.balance;
        let unused =
            |what: &str| (format!("`{what}` without `by: hash`"), "write `by: hash` beside it, or leave it out");
        match (by, key) {
            (Way::Hash, Some(key)) => request(key, problems).map(AffinityRule::Key).map(Some),
            (Way::Hash, None) => {
                let place = self.servers.iter().flatten().map(|server| server.url.span).next();
                let place = place.or_else(|| self.urls.iter().flatten().map(|url| url.span).next());
                let message = "`balance: { by: hash }` needs a `key`";
                problems.error(place.unwrap_or_default(), message, "add `key: $client.address` beside `by`")
            }
            (_, Some(key)) => {
                let (message, remedy) = unused("key");
                problems.error(key.0.span, message, remedy)
            }
            (Way::Cookie, None) => {
                let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                if cookie.value.is_empty() || !cookie.value.bytes().all(fits) {
                    let message = format!("`{cookie}` is not the name of a cookie");
                    return problems.error(cookie.span, message, "use letters, digits, `-`, `_` and `.`");
                }
                if self.cache.on().is_some() {
                    let message =
                        "`by: cookie` beside `cache`: a kept answer would carry one client's cookie to others";
                    return problems.error(cookie.span, message, "leave out `cache` here, or write `by: hash`");
                }
                Some(Some(AffinityRule::Cookie(cookie.value.as_bytes().into())))
            }
            (_, None) if bound.is_some() => {
                let (message, remedy) = unused("bound");
                problems.error(cookie.span, message, remedy)
            }
            _ => Some(None),
        }
    }

    /// Makes it ready; every problem is reported. `span` is the place of its name. Its parts that have not changed go on.
    pub fn compile(
        &self,
        name: &str,
        span: Span,
        given: &UpstreamEnvironment<'_>,
        problems: &mut Problems,
    ) -> Option<Arc<ReadyUpstream>> {
        self.compile_for(name, span, given, None, problems)
    }

    /// The same for a program, which may put something around and below its calls.
    pub fn compile_for(
        &self,
        name: &str,
        span: Span,
        given: &UpstreamEnvironment<'_>,
        program: Option<Arc<Program>>,
        problems: &mut Problems,
    ) -> Option<Arc<ReadyUpstream>> {
        let given = &UpstreamEnvironment { carry: given.carry.part(("upstream", name)), ..given.clone() };
        let written = self.locations(name, span, problems);
        let service = self.url.as_ref().filter(|url| is_service(url.as_str()) && written.is_some());
        let servers = match (service, written.as_deref()) {
            (Some(url), Some(_)) => self.service(url, problems).map(|location| vec![location]),
            (_, written) => written.and_then(|written| servers(written, problems)),
        };
        let tls = self.tls(written.as_deref().unwrap_or_default(), servers.as_deref(), given.files, problems);
        let forward = ForwardSettings {
            fields: &self.forward,
            host: self.host.as_ref(),
            forwarded: self.forwarded,
            headers: self.headers.as_ref(),
            kept: self.cache.on().is_some(),
        };
        let forward = Forward::compile(&forward, problems);
        let origins = self.origins(problems);
        let health = self.health.as_ref().map_or(Some(()), |health| health.check(problems));
        if !self.protocol.is_built() {
            problems.error::<()>(span, protocol::UNBUILT, "build with it, or leave out `protocol`");
        }
        let lists = self.xml.as_ref().map_or(Some(Lists::default()), |xml| xml.compile(problems));
        let delimiter = self.csv.as_ref().map_or(Some(b','), |csv| csv.compile(problems));
        let timeouts = self.timeout.as_ref().map(|spec| spec.over(&Timeouts::default())).unwrap_or_default();
        let credentials = match &self.credentials {
            None => Some(None),
            Some(credentials) => CredentialsSpec::compile_marked(credentials, given, problems).map(Some),
        };
        let cached = UpstreamCache::compile(&self.cache, name, given, problems);
        let types = self.types.as_ref().map_or(Some(Types::default()), |types| Types::compile(types, problems));
        let affinity = self.affinity(problems);
        let (servers, tls, forward, credentials) = (servers?, tls?, forward?, credentials?);
        health?;
        let standard = || Connections { keep: self.keep, ..Connections::default() };
        let connections = self.connections.as_ref().map_or_else(standard, |spec| spec.bounds(self.keep));
        let settings = UpstreamSettings {
            timeouts,
            tls,
            resolver: given.resolver.clone(),
            forward: Arc::new(forward),
            rewrite: self.rewrite,
            origins: origins?,
            links: self.links.as_ref().and_then(LinksSpec::public).cloned().map(Arc::new),
            lists: lists?.with_delimiter(delimiter?),
            in_flight: self.in_flight.map(NonZeroUsize::get),
            buffer: self.buffer.map(Size::bytes),
            protocol: self.protocol,
            connections,
            retry: self.retry.clone(),
            breaker: self.breaker.clone(),
            balance: self.balance.clone(),
            health: self.health.clone(),
            carry: given.carry.clone(),
            program,
            service: service.and_then(|_| Some(DnsService(servers.first()?.url.host()?.into()))),
            ..UpstreamSettings::new(name, servers.first()?.url.clone())
        };
        match ReadyUpstream::within(
            UpstreamSettings { servers, ..settings },
            CallWrappers { credentials, cached: cached?, affinity: affinity?, types: types? },
        ) {
            Ok(upstream) => Some(upstream),
            Err(error) => problems.error(span, error.detail().to_owned(), ""),
        }
    }

    /// Where the servers of a DNS service are, but for their names and ports.
    fn service(&self, url: &Located<String>, problems: &mut Problems) -> Option<Location> {
        if let Some(socket) = &self.socket {
            return problems.error(
                socket.span,
                "the servers of a DNS service have no Unix socket",
                "leave `socket` out",
            );
        }
        Some(Location { url: service(url, problems)?, weight: 1, socket: None })
    }

    /// Its further addresses.
    fn origins(&self, problems: &mut Problems) -> Option<Vec<Uri>> {
        let all: Vec<_> = self.origins.iter().flatten().map(|written| url(written, problems)).collect();
        all.into_iter().collect()
    }

    /// Its servers, as written.
    fn locations(&self, name: &str, span: Span, problems: &mut Problems) -> Option<Vec<ServerSpec>> {
        let plain = |url: &Located<String>, socket| ServerSpec { url: url.clone(), socket, weight: NonZeroU32::MIN };
        let written = match (&self.url, &self.urls, &self.servers) {
            (Some(url), None, None) => vec![plain(url, self.socket.clone())],
            (None, Some(urls), None) => urls.iter().map(|url| plain(url, None)).collect(),
            (None, None, Some(servers)) => servers.clone(),
            (None, None, None) => Vec::new(),
            _ => {
                let message = format!("`{name}` has its URLs in more than one place");
                return problems.error(span, message, "keep one of `url`, `servers` and `urls`");
            }
        };
        if let (Some(socket), None) = (&self.socket, &self.url) {
            let remedy = match written.as_slice() {
                [] => "add `url: http://localhost`: its host and path are those of calls".to_owned(),
                _ => format!("write it beside the URL of its server: `{{ url: http://localhost, socket: {socket} }}`"),
            };
            return problems.error(socket.span, "`socket` needs a `url`", remedy);
        }
        if written.is_empty() {
            return problems.error(span, format!("`{name}` has no URL"), "add `url: http://host:port/path`");
        }
        Some(written)
    }

    /// `read` are the parsed URLs, if all could be parsed.
    fn tls(
        &self,
        written: &[ServerSpec],
        read: Option<&[Location]>,
        files: Files<'_>,
        problems: &mut Problems,
    ) -> Option<TlsSettings> {
        let Some(spec) = &self.tls else { return Some(TlsSettings::default()) };
        // The files are checked even if a URL is wrong.
        let Some(read) = read else { return spec.compile("localhost", files, problems) };
        let mut sound = true;
        for (location, Location { url, .. }) in
            written.iter().zip(read).filter(|(_, read)| read.url.scheme_str() != Some("https"))
        {
            let authority = url.authority().map_or("", |authority| authority.as_str());
            let scheme = if is_service(location.url.as_str()) { "https+srv" } else { "https" };
            let remedy = format!("write `{scheme}://{authority}`, or leave out `tls`");
            problems.error::<()>(location.url.span, "`tls` needs an `https` URL", remedy);
            sound = false;
        }
        let host = read.first().and_then(|read| read.url.host()).unwrap_or("localhost");
        if sound { spec.compile(host, files, problems) } else { None }
    }

    /// Makes it ready. If nothing of it has changed, the upstream of the configuration before goes on, whole.
    pub fn compile_marked(
        marked: &Marked<Self>,
        name: &str,
        span: Span,
        given: &UpstreamEnvironment<'_>,
        problems: &mut Problems,
    ) -> Option<Arc<ReadyUpstream>> {
        let reading = MarkedFiles::new(given.files);
        let files = |written: &_| reading.read(written);
        let upstream =
            marked.spec.compile(name, span, &UpstreamEnvironment { files: &files, ..given.clone() }, problems)?;
        // Where its copies go may have changed.
        if marked.spec.mirror.is_some() {
            return Some(upstream);
        }
        let whole = (marked.mark, reading.mark(), given.resolver.as_ref().map(Resolver::mark));
        Some(given.carry.part(("upstream", name, whole)).settle(upstream))
    }
}
