//! An upstream in the configuration.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;

use super::cached::Cached;
use super::tls::{Part, Tls};
use super::{
    BalanceSpec, BreakerSpec, Connections, CredentialsSpec, FieldsSpec, Forward, ForwardedSpec, HealthSpec, HostSpec,
    Location, Resolver, RetrySpec, Settings, Timeouts, TlsSettings, TlsVersion, Upstream,
};
use crate::cache::{CacheSpec, Store};
use crate::format::xml::{Lists, XmlSpec};
use crate::problem::{Problems, Span};
use crate::socket;
use crate::spec;
use crate::spec::{Entries, Located, Timeout, defaults, only};

spec! {
    /// An API: its servers, and how they are called. Written short as the URL alone.
    pub struct UpstreamSpec {
        /// Scheme, host, port and a path that every call's path is appended to: `http://127.0.0.1:8000/api`.
        pub url: Option<Located<String>>,
        /// The path of the Unix socket that the server of `url` listens on: `/run/app.sock`. It is connected to instead of the host
        /// and port of the URL, which then only give the `host` of calls, and the name in its certificate.
        pub socket: Option<Located<String>>,
        /// Instead of `url`: the servers of the same API, each a URL or a URL with a weight.
        #[was = "endpoints"]
        pub servers: Option<Vec<ServerSpec>>,
        /// Short for `servers` without weights.
        pub urls: Option<Vec<Located<String>>>,
        /// Which versions of HTTP are used.
        pub protocol: Protocol = Protocol::Auto,
        /// TLS settings for `https`: authorities to trust, client certificate, versions.
        pub tls: Option<TlsSpec>,
        /// How long a call may take: one time for the whole call (`2s`), or a time for each phase.
        pub timeout: Option<TimeoutSpec>,
        /// The client's header fields that are forwarded: a list of names, or `all`; none by default. `all` leaves out
        /// the fields of one hop, those in which a client says who it is (`forwarded`, `x-forwarded-…`, `x-real-ip`),
        /// and the credentials that `authenticate` reads.
        pub forward: FieldsSpec = FieldsSpec::Named(Vec::new()),
        /// The `host` of calls: a name, or `keep` for the client's own. By default the host of the server's URL.
        pub host: Option<HostSpec>,
        /// How the upstream is told the client's address, protocol and host: `x` sends `x-forwarded-for`,
        /// `x-forwarded-proto` and `x-forwarded-host`, `rfc7239` sends `forwarded`, `off` sends nothing. Fields of the
        /// client with these names are replaced. By default `x` with `forward: all`, otherwise `off`.
        pub forwarded: Option<ForwardedSpec>,
        /// Header fields for every call; each value is a text with `{}`. They replace forwarded fields; `headers` of a
        /// call replace them. A field whose value is null or empty is left out, even if the client sent it.
        pub headers: Option<Entries<Located<String>>>,
        /// Whether `location`, `content-location`, `link` and the path and domain of `set-cookie` are changed to point
        /// to the gateway if they point into the upstream. Only in an answer that is handed on.
        pub rewrite: RewriteSpec = RewriteSpec::On,
        /// The most calls in flight, over all cores. A call above it waits up to `timeout.connect`, and then fails with 503. While
        /// calls wait, one whose body comes with less than 500 bytes a second, from the client or from the upstream, makes
        /// room for them; as many again may trickle so, and more are broken off.
        pub in_flight: Option<NonZeroUsize>,
        /// How long an idle connection is kept.
        pub keep: Duration = Duration::from_secs(30),
        /// Limits of the connection pool.
        pub connections: Option<ConnectionsSpec>,
        /// When a request is retried. On by default with several servers, off with one.
        pub retry: Option<RetrySpec>,
        /// Circuit breaker: when a server that fails gets no more calls. Off by default.
        pub breaker: Option<BreakerSpec>,
        /// How calls are spread over several servers.
        pub balance: BalanceSpec = defaults(),
        /// Active health checks. Off by default.
        pub health: Option<HealthSpec>,
        /// What calls prove with that they are the gateway's. It is sent instead of the client's `authorization`.
        pub credentials: Option<CredentialsSpec>,
        /// Whether its answers are kept, for the calls of all pipelines. `on`, a time for those that do not say how long, or more. Off by
        /// default. What a call sends besides header fields of the client is a part of the key: what a pipeline made of `$claims` is never
        /// given to another client.
        pub cache: CacheSpec = CacheSpec::Off,
        /// How XML in its answers is read.
        pub xml: Option<XmlSpec>,
    }
    short(short)
}

fn short(url: Located<String>, problems: &mut Problems) -> Option<UpstreamSpec> {
    only([("url", url)], problems)
}

spec! {
    /// A server of an upstream. Written short as the URL alone.
    pub struct ServerSpec {
        /// As the `url` of an upstream.
        pub url: Located<String>,
        /// As the `socket` of an upstream.
        pub socket: Option<Located<String>>,
        /// Its share of the calls, relative to the weights of the other servers: 1 to 100.
        pub weight: NonZeroU32 = NonZeroU32::MIN,
    }
    short(server)
}

fn server(url: Located<String>, problems: &mut Problems) -> Option<ServerSpec> {
    only([("url", url)], problems)
}

spec! {
    /// Timeouts of the phases of a call. Time in which the client does not read its answer is not counted. `call` counts the
    /// time in which the client does not send its body, but for 2 ms for each byte that it sends.
    /// Written short as one time for the whole call.
    pub struct TimeoutSpec {
        /// Until there is a connection. Default 3s.
        pub connect: Option<Timeout>,
        /// From the request to the head of the answer. Default 30s.
        pub first_byte: Option<Timeout>,
        /// Between two pieces of the body. Default 30s. It does not apply to server-sent events, nor to an endpoint with
        /// `stream: on`.
        pub idle: Option<Timeout>,
        /// The whole call. Default 5m.
        pub call: Option<Timeout>,
    }
    short(whole)
}

fn whole(call: Located<String>, problems: &mut Problems) -> Option<TimeoutSpec> {
    only([("call", call)], problems)
}

crate::choice! {
    /// Whether header fields that point into the upstream point to the gateway instead.
    pub enum RewriteSpec {
        /// They are, if the endpoint has a path for the target.
        On = "on",
        /// They are handed on unchanged.
        Off = "off",
    }
}

crate::choice! {
    /// Which versions of HTTP are used.
    pub enum Protocol {
        /// With TLS, the version that the upstream chooses; otherwise HTTP/1.1.
        Auto = "auto",
        /// HTTP/1.1.
        Http1 = "http1",
        /// HTTP/2; without TLS, with prior knowledge.
        Http2 = "http2",
    }
}

impl Protocol {
    /// What is offered by ALPN, the preferred version first.
    pub(super) fn offers(self) -> &'static [&'static [u8]] {
        match self {
            Protocol::Auto => &[b"h2", b"http/1.1"],
            Protocol::Http1 => &[b"http/1.1"],
            Protocol::Http2 => &[b"h2"],
        }
    }
}

spec! {
    /// Limits of the connection pool. Each number is per server and core.
    pub struct ConnectionsSpec {
        /// The most open connections. A call above it waits up to `timeout.connect`, and then fails with 503.
        pub open: Option<NonZeroUsize>,
        /// The most calls that wait for a connection. A call above it fails with 503 at once.
        pub waiting: usize = 1024,
        /// The most idle connections that are kept.
        pub idle: usize = 1024,
        /// How long a connection is used. Calls in flight are completed.
        pub lifetime: Duration = Duration::from_secs(3600),
    }
}

impl ConnectionsSpec {
    fn bounds(&self, keep: Duration) -> Connections {
        let open = self.open.map(NonZeroUsize::get);
        Connections { open, waiting: self.waiting, idle: self.idle, lifetime: self.lifetime, keep }
    }
}

spec! {
    /// TLS to an upstream. Paths are relative to the configuration file.
    pub struct TlsSpec {
        /// A PEM file with the authorities to trust, instead of those that Mozilla trusts.
        pub ca: Option<Located<String>>,
        /// A PEM file with the client certificate and its chain.
        pub certificate: Option<Located<String>>,
        /// A PEM file with the key of that certificate.
        pub key: Option<Located<String>>,
        /// The name for SNI and for the check of the certificate, instead of the host of the URL.
        pub server_name: Option<Located<String>>,
        /// The versions to offer; by default 1.2 and 1.3.
        pub versions: Vec<TlsVersion> = Vec::new(),
    }
}

/// Reads a file that the configuration names; the error says why it cannot be read.
pub type Files<'a> = &'a dyn Fn(&Located<String>) -> Result<Vec<u8>, String>;

/// What upstreams need from outside their own configuration.
#[derive(Clone)]
pub struct Given<'a> {
    /// Reads their files.
    pub files: Files<'a>,
    /// The DNS resolver; the system's unless set.
    pub resolver: Option<Resolver>,
    /// Where their answers are kept, if they are.
    pub cache: Option<Arc<Store>>,
}

impl TlsSpec {
    pub(super) fn compile(&self, host: &str, files: Files<'_>, problems: &mut Problems) -> Option<TlsSettings> {
        let mut sound = true;
        let mut read = |written: &Option<Located<String>>| match files(written.as_ref()?) {
            Ok(bytes) => Some(bytes),
            Err(reason) => {
                sound = false;
                let written = written.as_ref()?;
                problems.error(written.span, format!("cannot read `{written}`: {reason}"), "")
            }
        };
        let settings = TlsSettings {
            ca: read(&self.ca),
            certificate: read(&self.certificate),
            key: read(&self.key),
            server_name: self.server_name.as_ref().map(|name| name.value.clone()),
            versions: self.versions.clone(),
        };
        if !sound {
            return None;
        }
        let Err(unfit) = Tls::new(&settings, host, &[]) else { return Some(settings) };
        let written = match unfit.part {
            Part::Ca => &self.ca,
            Part::Certificate => &self.certificate,
            Part::Key => &self.key,
            Part::Name => &self.server_name,
        };
        problems.error(written.as_ref().map(|written| written.span).unwrap_or_default(), unfit.message, "")
    }
}

impl TimeoutSpec {
    /// These timeouts; `others` where none is written.
    pub fn over(&self, others: &Timeouts) -> Timeouts {
        Timeouts {
            connect: self.connect.unwrap_or(others.connect),
            first_byte: self.first_byte.unwrap_or(others.first_byte),
            idle: self.idle.unwrap_or(others.idle),
            call: self.call.unwrap_or(others.call),
        }
    }
}

impl UpstreamSpec {
    /// Makes it ready; every problem is reported. `span` is the place of its name.
    pub fn compile(&self, name: &str, span: Span, given: &Given<'_>, problems: &mut Problems) -> Option<Arc<Upstream>> {
        let written = self.locations(name, span, problems);
        let servers = written.as_deref().and_then(|written| servers(written, problems));
        let tls = self.tls(written.as_deref().unwrap_or_default(), servers.as_deref(), given.files, problems);
        let forward = Forward::compile(self, problems);
        let health = self.health.as_ref().map_or(Some(()), |health| health.check(problems));
        let lists = self.xml.as_ref().map_or(Some(Lists::default()), |xml| xml.compile(problems));
        let timeouts = self.timeout.as_ref().map(|spec| spec.over(&Timeouts::default())).unwrap_or_default();
        let credentials = match &self.credentials {
            None => Some(None),
            Some(credentials) => credentials.compile(given, problems).map(Some),
        };
        let cached = Cached::compile(self, name, given, problems);
        let (servers, tls, forward, credentials) = (servers?, tls?, forward?, credentials?);
        health?;
        let standard = || Connections { keep: self.keep, ..Connections::default() };
        let connections = self.connections.as_ref().map_or_else(standard, |spec| spec.bounds(self.keep));
        let settings = Settings {
            timeouts,
            tls,
            resolver: given.resolver.clone(),
            forward: Arc::new(forward),
            rewrite: self.rewrite,
            lists: lists?,
            in_flight: self.in_flight.map(NonZeroUsize::get),
            protocol: self.protocol,
            connections,
            retry: self.retry.clone(),
            breaker: self.breaker.clone(),
            balance: self.balance.clone(),
            health: self.health.clone(),
            credentials,
            cached: cached?,
            ..Settings::new(name, servers.first()?.url.clone())
        };
        match Upstream::new(Settings { servers, ..settings }) {
            Ok(upstream) => Some(upstream),
            Err(error) => problems.error(span, error.detail().to_owned(), ""),
        }
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
            return problems.error(socket.span, "`socket` is without its `url`", remedy);
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
            let remedy = format!("write `https://{authority}`, or leave out `tls`");
            problems.error::<()>(location.url.span, "`tls` needs an `https` URL", remedy);
            sound = false;
        }
        let host = read.first().and_then(|read| read.url.host()).unwrap_or("localhost");
        if sound { spec.compile(host, files, problems) } else { None }
    }
}

/// The round robin has one entry per unit of weight; a hundred is fine enough.
const MOST_WEIGHT: u32 = 100;

/// Every server.
fn servers(written: &[ServerSpec], problems: &mut Problems) -> Option<Vec<Location>> {
    let server = |written: &ServerSpec| {
        let weight = written.weight.get();
        if weight > MOST_WEIGHT {
            let message = format!("the weight {weight} is more than {MOST_WEIGHT}");
            problems.error::<()>(written.url.span, message, "weights are relative: make all of them smaller");
        }
        let (url, socket) = (url(&written.url, problems), unix(written.socket.as_ref(), problems));
        Some(Location { url: url?, weight, socket: socket? }).filter(|_| weight <= MOST_WEIGHT)
    };
    // All are read before a failure ends it, so that every problem is reported.
    let servers: Vec<_> = written.iter().map(server).collect();
    servers.into_iter().collect()
}

/// The Unix socket, if one is written.
fn unix(written: Option<&Located<String>>, problems: &mut Problems) -> Option<Option<Arc<Path>>> {
    let Some(written) = written else { return Some(None) };
    match socket::path(written.as_str()) {
        Ok(path) => Some(Some(path.into())),
        Err(_) if problems.found_within(written.span) => None,
        Err((message, remedy)) => problems.error(written.span, message, remedy),
    }
}

/// What to write instead of a Unix socket in a URL, as others have it: `http://unix:/run/app.sock:/api`, `unix//run/app.sock`.
fn habit(text: &str) -> Option<String> {
    const FORMS: [&str; 3] = ["unix//", "unix://", "unix:"];
    let (scheme, rest) = text.split_once("://unix:").map_or(("http", text), |(scheme, _)| (scheme, text));
    let rest = rest.strip_prefix("http://").or_else(|| rest.strip_prefix("https://")).unwrap_or(rest);
    let rest = FORMS.iter().find_map(|form| rest.strip_prefix(form))?;
    let (socket, path) = rest.split_once(':').unwrap_or((rest, ""));
    let socket = socket.trim_matches('/');
    Some(format!("write `url: {scheme}://localhost{path}` and `socket: /{socket}`"))
}

pub(super) fn url(written: &Located<String>, problems: &mut Problems) -> Option<Uri> {
    let wrong = |message: &str, remedy: &str, problems: &mut Problems| {
        problems.error(written.span, message.to_owned(), remedy.to_owned())
    };
    if problems.found_within(written.span) {
        return None;
    }
    if let Some(remedy) = habit(written.as_str()) {
        return wrong("a URL has no Unix socket in it", &remedy, problems);
    }
    let remedy = remedy(written.as_str());
    let remedy = remedy.as_str();
    let Ok(uri) = written.value.parse::<Uri>() else { return wrong("this is not a URL", remedy, problems) };
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return wrong("only http and https URLs can be called", remedy, problems),
        None => return wrong("the URL has no scheme", remedy, problems),
    }
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            wrong("a URL must not contain credentials", "send them as a header of the call", problems)
        }
        Some(authority) if authority.host().is_empty() => wrong("the URL has no host", remedy, problems),
        Some(authority) if authority.as_str().contains('$') => {
            wrong("a variable is written with braces", remedy, problems)
        }
        Some(authority) if authority.as_str().len() > authority.host().len() && authority.port_u16().is_none() => {
            wrong("the port must be a number up to 65535", remedy, problems)
        }
        _ if uri.query().is_some() => {
            wrong("an upstream's URL must not have a query", "write it in the path of the call", problems)
        }
        Some(_) => Some(uri),
        None => wrong("the URL has no host", remedy, problems),
    }
}

/// What to write instead of a text that is not the URL of an upstream.
fn remedy(text: &str) -> String {
    const FORM: &str = "write it as `http://host:port/path`";
    if text.contains("${") {
        return "a variable has capitals, digits and `_`: `${HOST}`".to_owned();
    }
    if let Some((_, rest)) = text.split_once('$') {
        let name = &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())];
        return format!("write `${{{}}}`", name.to_uppercase());
    }
    let place = text.split_once("//").map_or(text, |(_, place)| place);
    let named = place.contains(['.', ':']) || place.starts_with("localhost");
    match named && !text.contains("://") && format!("http://{place}").parse::<Uri>().is_ok() {
        true => format!("write `http://{place}`"),
        false => FORM.to_owned(),
    }
}
