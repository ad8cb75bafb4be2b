//! The parts of the client's request that a call sends: header fields, the host, and the client's address.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CONNECTION, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::Authority;
use serde_json::json;

use super::fields::CallFields;
use super::noting::Noting;
use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, Entries, ExpressionSpec, Json, Located, Node};
use crate::error::{Error, Kind};
use crate::http::http1::fields::{may_send, plain};
use crate::http::http1::trailers;
use crate::http::list;
use crate::jq::{self, Data, Filter, Read};
use crate::request::context::{Scope, VARIABLES, undotted};
use crate::request::facts::{ClientAddress, ClientFacts};
use crate::template::{self, Template, TemplateKind, TemplatePiece, TemplateSource};

/// The client's header fields that are forwarded.
#[derive(Clone, Debug)]
pub enum FieldsSpec {
    /// All that do not belong to one hop.
    All,
    Named(Vec<Located<String>>),
}

impl Decode for FieldsSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        const WANTED: &str = "`all` or a list of names";
        match node.as_text() {
            Some(text) if text.as_str() == "all" => Some(FieldsSpec::All),
            Some(text) if ["*", "[*]", "any", "true", "on", "yes"].contains(&text.as_str()) => {
                node.wrong(WANTED, "write `all`", problems)
            }
            Some(text) => node.wrong(WANTED, format!("write `[{text}]`"), problems),
            None => Vec::decode(node, problems).map(FieldsSpec::Named),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        json!({"anyOf": [{"const": "all"}, Vec::<String>::schema(definitions)]})
    }

    fn written(&self) -> Option<Json> {
        match self {
            FieldsSpec::All => Some("all".into()),
            FieldsSpec::Named(names) => names.written(),
        }
    }
}

/// The `host` of calls.
#[derive(Clone, Debug)]
pub enum HostSpec {
    Keep,
    Named(Located<String>),
}

impl Decode for HostSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let text = node.expect_text("`keep` or a host", problems)?;
        Some(if text.as_str() == "keep" { HostSpec::Keep } else { HostSpec::Named(text) })
    }

    fn schema(definitions: &mut Definitions) -> Json {
        json!({"anyOf": [{"const": "keep"}, String::schema(definitions)]})
    }
}

crate::choice! {
    /// How the upstream learns the client's address, protocol and host.
    pub enum ForwardedSpec {
        /// `x-forwarded-for`, `x-forwarded-proto` and `x-forwarded-host`. Where the call leaves out the beginning of the
        /// client's path (`/shop/{*path}: shop /{*path}`), also `x-forwarded-prefix` (`/shop`).
        X = "x",
        /// `forwarded` (RFC 7239). It has no parameter for the beginning of a path: set `x-forwarded-prefix` under
        /// `headers` for a server that reads it.
        Rfc7239 = "rfc7239",
        /// No field.
        Off = "off",
    }
}

/// The settings of an upstream for what its calls send of the client's request.
pub(crate) struct ForwardSettings<'a> {
    pub(crate) fields: &'a FieldsSpec,
    pub(crate) host: Option<&'a HostSpec>,
    pub(crate) forwarded: Option<ForwardedSpec>,
    pub(crate) headers: Option<&'a Entries<Located<String>>>,
    /// Whether answers are kept.
    pub(crate) kept: bool,
}

/// The same, compiled.
#[derive(Default)]
pub struct Forward {
    fields: ForwardedFields,
    host: HostHeader,
    facts: ForwardedStyle,
    headers: Vec<(HeaderName, Template)>,
}

enum ForwardedFields {
    All,
    Named(Vec<HeaderName>),
}

impl Default for ForwardedFields {
    fn default() -> Self {
        ForwardedFields::Named(Vec::new())
    }
}

/// The `host` of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum HostHeader {
    #[default]
    Server,
    Named(Box<str>),
    Keep,
}

/// How the upstream learns the client's address, protocol and host.
#[derive(Default)]
enum ForwardedStyle {
    #[default]
    Off,
    X,
    Rfc7239,
}

/// How a call relates to the client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// The same request, with the client's body.
    Same,
    /// Another request: fields that describe the client's body do not apply.
    Other,
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Forward {
    /// Compiles the settings. Every problem is noted.
    pub(crate) fn compile(spec: &ForwardSettings<'_>, problems: &mut Problems) -> Option<Self> {
        let fields = match spec.fields {
            FieldsSpec::All => Some(ForwardedFields::All),
            FieldsSpec::Named(names) => named(names, problems).map(ForwardedFields::Named),
        };
        let host = match spec.host {
            None => Some(HostHeader::Server),
            Some(HostSpec::Keep) => Some(HostHeader::Keep),
            Some(HostSpec::Named(written)) => host(written, problems),
        };
        let facts = match (spec.forwarded, spec.fields) {
            (Some(ForwardedSpec::X), _) | (None, FieldsSpec::All) => ForwardedStyle::X,
            (Some(ForwardedSpec::Rfc7239), _) => ForwardedStyle::Rfc7239,
            (Some(ForwardedSpec::Off) | None, _) => ForwardedStyle::Off,
        };
        let headers = headers(spec.headers, problems);
        if spec.kept {
            let written = spec.headers.into_iter().flatten().map(|(_, (_, text))| text);
            for (text, _) in written.zip(headers.iter().flatten()).filter(|(_, (_, template))| is_new(template)) {
                problems.warning(text.at(0, text.value.len()), NEVER_FOUND, TRACED);
            }
        }
        Some(Forward { fields: fields?, host: host?, facts, headers: headers? })
    }
}

/// Said of a field with `$id` where answers are kept.
pub(crate) const NEVER_FOUND: &str =
    "`$id` differs in each request and is part of the cache key: no answer is found again";

/// Whether a field has another value in each request.
pub(crate) fn is_new(template: &Template) -> bool {
    template.filters().flat_map(Filter::uses).any(|name| name == "id")
}

/// How a request is known to an upstream without a key of its own.
pub(crate) const TRACED: &str =
    "leave out the field; with `traces`, calls have `traceparent`, which is no part of the key";

fn named(written: &[Located<String>], problems: &mut Problems) -> Option<Vec<HeaderName>> {
    let name = |written: &Located<String>| {
        let name = HeaderName::from_bytes(written.value.as_bytes()).ok().filter(may_send);
        if name.is_none() {
            let remedy = match written.value.to_ascii_lowercase().as_str() {
                "host" => "write `host: keep` beside `forward`",
                _ => "names consist of letters, digits and `-`; framing and hop-by-hop fields cannot be forwarded",
            };
            problems.error::<()>(written.span, format!("`{written}` cannot be forwarded"), remedy);
        }
        name
    };
    let names: Vec<Option<HeaderName>> = written.iter().map(name).collect();
    names.into_iter().collect()
}

fn host(written: &Located<String>, problems: &mut Problems) -> Option<HostHeader> {
    let authority = written.value.parse::<Authority>().ok();
    let sound = |authority: &Authority| {
        let port = authority.as_str().len() == authority.host().len() || authority.port_u16().is_some();
        !authority.as_str().contains('@') && !authority.host().is_empty() && port
    };
    match authority.filter(sound) {
        Some(_) => Some(HostHeader::Named(written.value.as_str().into())),
        None => {
            let remedy = "write a name, or a name and a port: `shop.example:8080`; or `keep` for the client's own";
            problems.error(written.span, format!("`{written}` is not a host"), remedy)
        }
    }
}

fn headers(written: Option<&Entries<Located<String>>>, problems: &mut Problems) -> Option<Vec<(HeaderName, Template)>> {
    let entry = |(name, (span, text)): (&String, &(_, Located<String>))| {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().filter(may_send);
        if parsed.is_none() {
            let remedy = match name.to_ascii_lowercase().as_str() {
                "host" => "write `host` beside `headers`",
                _ => "names consist of letters, digits and `-`; framing and hop-by-hop fields are the gateway's own",
            };
            problems.error::<()>(*span, format!("`{name}` cannot be set as a header field"), remedy);
        }
        parsed.zip(field(text, problems))
    };
    let entries: Vec<_> = written.into_iter().flatten().map(entry).collect();
    entries.into_iter().collect()
}

/// A field of every call: its expressions know the client's request, and nothing of an endpoint or of a step.
fn field(written: &Located<String>, problems: &mut Problems) -> Option<Template> {
    let pieces = match template::split(written) {
        Ok(pieces) => pieces,
        Err(at) => return problems.error(written.at(at, 1), "this brace is unmatched", "close it with `}`"),
    };
    let mut sound = true;
    for (at, piece) in &pieces {
        let (TemplatePiece::Param(word) | TemplatePiece::Rest(word) | TemplatePiece::Segments(word)) = piece else {
            continue;
        };
        let remedy = match piece {
            TemplatePiece::Segments(_) => "leave out the `*`: only a path has segments".to_owned(),
            _ if jq::is_function(word, 0) => format!("write `{{({word})}}` for the function `{word}`"),
            _ => format!("write `{{$path.{word}}}`, which is null where an endpoint has no such parameter"),
        };
        let message = "an upstream has the same fields for all endpoints, but their paths differ";
        problems.error::<()>(written.at(*at, word.len()), message, remedy);
        sound = false;
    }
    let template = Template::compile(pieces, TemplateKind::Field, |at, source| {
        let expression = ExpressionSpec::of(written.part(at, source.len()), problems)?;
        filter(&expression.0, problems)
    });
    template.filter(|_| sound)
}

pub(crate) fn filter(written: &Located<String>, problems: &mut Problems) -> Option<Filter> {
    let message = "`.` and `$body` are not known in the fields of an upstream";
    of_request(written, message, "set the field at the call, under its `headers`", problems)
}

/// An expression that knows the client's request but for its body. `message` and `remedy` are for one that uses more.
pub(crate) fn of_request(
    written: &Located<String>,
    message: &str,
    remedy: &str,
    problems: &mut Problems,
) -> Option<Filter> {
    let filter = match Filter::compile(&written.value, &VARIABLES) {
        Ok(filter) => filter,
        Err(faults) => {
            for fault in faults {
                problems.error::<()>(written.at(fault.offset, fault.length), fault.message, fault.remedy);
            }
            return None;
        }
    };
    let body = filter.uses().iter().any(|name| name == "body");
    if !body && !filter.reads_item() {
        return Some(filter);
    }
    let undotted = undotted(&written.value).filter(|_| !body);
    problems.error(written.span, message, undotted.unwrap_or_else(|| remedy.to_owned()))
}

/// The values that an upstream's templates can refer to.
struct ScopeSource<'a>(&'a Scope);

impl TemplateSource for ScopeSource<'_> {
    fn param(&self, _: &str) -> Option<&str> {
        None
    }

    fn rest(&self) -> &str {
        ""
    }

    fn evaluate(&self, filter: &Filter) -> Result<Data, Error> {
        let value = filter.run_one(jq::null(), &mut |name| self.0.variable(name, &None));
        // It reads what the client sent, and nothing else.
        let value = value.map_err(|error| Error::new(Kind::BadRequest, error.detail().to_owned()))?;
        Ok(value.unwrap_or_else(jq::null).into())
    }
}

impl Forward {
    /// The client's header fields of these names, and nothing else.
    pub fn named(names: Vec<HeaderName>) -> Self {
        Forward { fields: ForwardedFields::Named(names), ..Forward::default() }
    }

    /// The header fields of a call.
    ///
    /// # Errors
    /// `BadRequest` if a configured value that uses the client's request is not valid in a header.
    pub(crate) fn fields(&self, scope: &Scope, likeness: Likeness, noting: Noting) -> Result<CallFields, Error> {
        if !self.adds_fields() && scope.facts().granted().is_empty() && !scope.forwarded() {
            return Ok(CallFields::of_client(HeaderMap::new(), noting));
        }
        let mut headers = match &self.fields {
            // Here the client's fields need not be parsed.
            ForwardedFields::Named(names) if names.is_empty() => HeaderMap::new(),
            ForwardedFields::Named(names) => pick(names, scope.headers()),
            ForwardedFields::All => all(scope.headers(), likeness),
        };
        if let Some(credentials) = scope.facts().credentials() {
            // A named field is intended. `cookie` is named for the other cookies in it.
            if let ForwardedFields::All = self.fields {
                credentials.remove_headers(&mut headers);
            }
            credentials.remove_cookies(&mut headers);
        }
        if !matches!(self.facts, ForwardedStyle::Off) {
            // Anyone can send these.
            for name in [FOR, PROTO, HOST_ASKED, FORWARDED] {
                headers.remove(name);
            }
        }
        let mut fields = CallFields::of_client(headers, noting);
        let place = || {
            let host = asked_host(scope).map(HeaderValue::as_bytes).unwrap_or_default();
            [host, scope.facts().client().map_or("", ClientFacts::scheme).as_bytes()]
        };
        match self.facts {
            ForwardedStyle::Off => {}
            ForwardedStyle::X => fields.name_client(client_fields(scope), place()),
            ForwardedStyle::Rfc7239 => fields.name_client(tell_standard(scope), place()),
        }
        for (name, value) in scope.facts().granted() {
            fields.write(name, value.clone());
        }
        for (name, template) in &self.headers {
            let unfit = |_| Error::new(Kind::BadRequest, format!("the value for `{name}` is not allowed in a header"));
            let text = template.field(&ScopeSource(scope))?;
            fields.write(name, text.map(|text| HeaderValue::from_str(&text)).transpose().map_err(unfit)?);
        }
        if scope.forwarded() {
            fields.hand_on_way(scope.headers());
        }
        Ok(fields)
    }

    /// Whether calls have fields beside those of each call: they say something of the client, or of the gateway.
    pub(crate) fn adds(&self) -> bool {
        self.adds_fields() || self.host == HostHeader::Keep
    }

    fn adds_fields(&self) -> bool {
        let named = matches!(&self.fields, ForwardedFields::Named(names) if names.is_empty());
        !named || !self.headers.is_empty() || !matches!(self.facts, ForwardedStyle::Off)
    }

    /// The client's host, with `host: keep`.
    pub(crate) fn host(&self, scope: &Scope) -> Option<HeaderValue> {
        match self.host {
            HostHeader::Keep => scope.headers().get(HOST).cloned(),
            HostHeader::Server | HostHeader::Named(_) => None,
        }
    }
}

/// Which trailers follow a body to the upstream.
///
/// Boxed: thousands of calls wait at the same time, and few of them have trailers.
#[derive(Clone, Debug, Default)]
pub struct Trailing(Option<Box<TrailingRule>>);

/// The trailers of a body that follow it.
#[derive(Clone, Debug)]
enum TrailingRule {
    /// All that may be trailers: the body is the program's own.
    Own,
    /// The trailers whose names `forward` lets through as header fields: the body is the client's.
    Client {
        forward: Arc<Forward>,
        /// Fields that the gateway set, that end at this hop, or that hold the client's credentials.
        never: Vec<HeaderName>,
    },
}

impl Trailing {
    /// All that may be trailers, for a body of the program itself.
    pub fn own() -> Self {
        Trailing(Some(Box::new(TrailingRule::Own)))
    }

    pub(crate) fn of<'a>(forward: &Arc<Forward>, scope: &Scope, set: impl Iterator<Item = &'a HeaderName>) -> Self {
        if matches!(&forward.fields, ForwardedFields::Named(names) if names.is_empty()) {
            return Trailing::default();
        }
        let mut never: Vec<HeaderName> = set.cloned().collect();
        never.extend(forward.headers.iter().map(|(name, _)| name.clone()));
        never.extend(options(scope.headers()).filter_map(|option| HeaderName::from_bytes(option).ok()));
        if let Some(credentials) = scope.facts().credentials() {
            never.extend(credentials.headers.iter().cloned());
        }
        Trailing(Some(Box::new(TrailingRule::Client { forward: forward.clone(), never })))
    }

    /// The trailers that follow; `None` if there are none.
    pub(crate) fn pass(&self, trailers: HeaderMap) -> Option<HeaderMap> {
        let rule = self.0.as_ref()?;
        trailers::pass(trailers, |name| rule.passes(name))
    }
}

impl TrailingRule {
    fn passes(&self, name: &HeaderName) -> bool {
        match self {
            TrailingRule::Own => true,
            TrailingRule::Client { never, .. } if never.contains(name) => false,
            TrailingRule::Client { forward, .. } => match &forward.fields {
                ForwardedFields::Named(names) => names.contains(name),
                ForwardedFields::All => travels(name, Likeness::Same),
            },
        }
    }
}

impl Forward {
    /// The variables that its own fields use.
    pub(crate) fn uses(&self) -> impl Iterator<Item = &String> {
        self.headers.iter().flat_map(|(_, template)| template.filters()).flat_map(Filter::uses)
    }

    /// The parts of variables that they read.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &Read> {
        self.headers.iter().flat_map(|(_, template)| template.filters()).flat_map(Filter::reads)
    }

    /// The parts of `$client` that are sent in fields whose names do not show it.
    pub(crate) fn hidden_reads(&self) -> impl Iterator<Item = &Read> {
        let hidden = self.headers.iter().filter(|(name, _)| !tells_the_client(name));
        let reads = hidden.flat_map(|(_, template)| template.filters()).flat_map(Filter::reads);
        reads.filter(|read| read.variable == "client")
    }

    /// Whether an upstream may consider this authority its own, because each call names it, or because the calls for this
    /// request do.
    pub(crate) fn names(&self, authority: &str, scope: Option<&Scope>) -> bool {
        let named = || self.named_host().is_some_and(|host| same(host, authority));
        match scope {
            Some(scope) => self.hosts(scope).any(|(host, _)| same(host, authority)),
            None => named(),
        }
    }

    /// The hosts that calls for this request name beside those of the servers, and whether they are the client's.
    pub(crate) fn hosts<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = (&'a str, bool)> {
        let kept = Some(scope).filter(|_| self.host == HostHeader::Keep).and_then(|scope| scope.headers().get(HOST));
        let named = Some(scope).filter(|_| !matches!(self.facts, ForwardedStyle::Off)).and_then(asked_host);
        let asked = kept.into_iter().chain(named).filter_map(|host| host.to_str().ok());
        self.named_host().map(|host| (host, false)).into_iter().chain(asked.map(|host| (host, true)))
    }

    /// Whether calls say which part of the client's path they leave out. A value that is configured stands.
    pub(crate) fn tells_prefix(&self) -> bool {
        matches!(self.facts, ForwardedStyle::X) && !self.headers.iter().any(|(name, _)| *name == PREFIX)
    }

    /// The client's header fields that are sent as they came; `None` for all.
    pub(crate) fn sent_fields(&self) -> Option<&[HeaderName]> {
        match &self.fields {
            ForwardedFields::Named(names) => Some(names),
            ForwardedFields::All => None,
        }
    }

    /// The host that its calls name, as written.
    pub(crate) fn named_host(&self) -> Option<&str> {
        match &self.host {
            HostHeader::Named(host) => Some(host),
            HostHeader::Server | HostHeader::Keep => None,
        }
    }

    /// The host that its calls name, without a port.
    pub(crate) fn host_name(&self) -> Option<&str> {
        self.named_host().map(portless)
    }
}

fn portless(host: &str) -> &str {
    host.rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(host, |(host, _)| host)
}

/// Whether two hosts are the same, whether or not the usual port is written.
pub(crate) fn same(one: &str, other: &str) -> bool {
    let usual = |host: &str| host.trim_end_matches(":80").trim_end_matches(":443").to_ascii_lowercase();
    usual(one) == usual(other)
}

fn pick(names: &[HeaderName], client: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(names.len());
    for name in names.iter().filter(|name| !options(client).any(|option| is(option, name))) {
        for value in client.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers
}

/// All fields but those of one hop. What belongs to every hop is left out where the head is written.
fn all(client: &HeaderMap, likeness: Likeness) -> HeaderMap {
    let mut headers = client.clone();
    for option in options(client) {
        if let Ok(name) = HeaderName::from_bytes(option) {
            headers.remove(name);
        }
    }
    let kept: Vec<HeaderName> = headers.keys().filter(|name| !travels(name, likeness)).cloned().collect();
    for name in kept {
        headers.remove(name);
    }
    headers
}

/// Whether `forward: all` names this field. A name with two readings, as `x_role`, would be a field that the gateway or the
/// configuration sets (`x-role`) to servers that read it so.
fn travels(name: &HeaderName, likeness: Likeness) -> bool {
    plain(name) && !tells(name, likeness)
}

/// Whether the name of a field shows that it tells who the client is: `x-forwarded-for`, `x-real-ip`, `x-client`.
fn tells_the_client(name: &HeaderName) -> bool {
    let words = ["forwarded", "client", "ip", "remote", "peer", "address", "addr"];
    name.as_str().split('-').any(|word| words.contains(&word))
}

/// Whether only a gateway may send this field, or it describes a body that is not sent.
fn tells(name: &HeaderName, likeness: Likeness) -> bool {
    let name = name.as_str();
    let who = name.starts_with("x-forwarded-") || matches!(name, "forwarded" | "x-real-ip");
    let what = name.starts_with("content-") || matches!(name, "digest" | "repr-digest");
    who || (what && likeness == Likeness::Other)
}

/// The fields that the client's `connection` limits to one hop (RFC 9110, 7.6.1).
fn options(client: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    list::field(client, &CONNECTION)
}

fn is(option: &[u8], name: &HeaderName) -> bool {
    option.eq_ignore_ascii_case(name.as_str().as_bytes())
}

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST_ASKED: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(crate) const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// The client, its protocol and its host, in a field each.
fn client_fields(scope: &Scope) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let client = scope.facts().client();
    // A client at a Unix socket has no IP address. One that is not known is named as such: without the field, the
    // upstream would take the gateway for the client.
    let address = client.map(|client| client.address).filter(|address| !matches!(address, ClientAddress::Unix));
    let address = address.and_then(|address| HeaderValue::from_str(&address.to_string()).ok());
    let scheme = client.map(|client| HeaderValue::from_static(client.scheme()));
    let fields = [(FOR, address), (PROTO, scheme), (HOST_ASKED, asked_host(scope).cloned())];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// The host that the client asked for, which a proxy in front may have replaced.
pub(crate) fn asked_host(scope: &Scope) -> Option<&HeaderValue> {
    let known = scope.facts().client().and_then(|client| client.host.as_ref());
    known.or_else(|| scope.headers().get(HOST))
}

/// The same in one field.
fn tell_standard(scope: &Scope) -> Option<(HeaderName, HeaderValue)> {
    let client = scope.facts().client();
    let node = client.map(|client| match client.address.ip() {
        Some(IpAddr::V4(address)) => format!("for={address}"),
        Some(IpAddr::V6(address)) => format!("for=\"[{address}]\""),
        None => "for=unknown".to_owned(),
    });
    // Quoted, since a port has a colon.
    let host = asked_host(scope).and_then(|host| host.to_str().ok()).map(|host| format!("host=\"{host}\""));
    let proto = client.map(|client| format!("proto={}", client.scheme()));
    let parameters: Vec<String> = [node, host, proto].into_iter().flatten().collect();
    let value = HeaderValue::from_str(&parameters.join(";")).ok().filter(|_| !parameters.is_empty())?;
    Some((FORWARDED, value))
}

#[cfg(test)]
mod tests {
    use http::{Method, Version};

    use super::super::forward::*;
    use crate::message::body::AnswerBody;

    fn scope(address: Option<&str>, fields: &[(&'static str, &'static str)]) -> Scope {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut scope =
            Scope::new(Method::GET, None, fields.iter().map(field).collect::<HeaderMap>(), AnswerBody::empty());
        if let Some(address) = address {
            let address = match address {
                "unknown" => ClientAddress::Unknown,
                address => address.parse().map_or(ClientAddress::Unix, ClientAddress::Network),
            };
            scope.facts_mut().set_client(ClientFacts {
                address,
                version: Version::HTTP_11,
                tls: true,
                certificate: None,
                host: None,
            });
        }
        scope
    }

    fn sent(forward: &Forward, scope: &Scope) -> Vec<String> {
        let fields = forward.fields(scope, Likeness::Same, Noting::Off).expect("no expressions");
        let mut sent: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("a text"))).collect();
        sent.sort();
        sent
    }

    #[test]
    fn who_asked_is_told_in_either_form() {
        let (x, standard) = (Forward { facts: ForwardedStyle::X, ..Forward::default() }, ForwardedStyle::Rfc7239);
        let standard = Forward { facts: standard, ..Forward::default() };
        let six = scope(Some("[2001:db8::1]:7"), &[("host", "a:80"), ("forwarded", "for=1")]);
        assert_eq!(
            sent(&x, &six),
            ["x-forwarded-for: 2001:db8::1", "x-forwarded-host: a:80", "x-forwarded-proto: https"]
        );
        assert_eq!(sent(&standard, &six), ["forwarded: for=\"[2001:db8::1]\";host=\"a:80\";proto=https"]);
        let mapped = scope(Some("[::ffff:192.0.2.1]:7"), &[]);
        assert_eq!(sent(&standard, &mapped), ["forwarded: for=192.0.2.1;proto=https"]);
        assert_eq!(sent(&standard, &scope(None, &[])), Vec::<String>::new());
        let local = scope(Some("unix:"), &[("x-forwarded-for", "192.0.2.1")]);
        assert_eq!(sent(&x, &local), ["x-forwarded-proto: https"]);
        assert_eq!(sent(&standard, &local), ["forwarded: for=unknown;proto=https"]);
        let unknown = scope(Some("unknown"), &[("x-forwarded-for", "192.0.2.1")]);
        assert_eq!(sent(&x, &unknown), ["x-forwarded-for: unknown", "x-forwarded-proto: https"]);
        assert_eq!(sent(&standard, &unknown), ["forwarded: for=unknown;proto=https"]);
    }

    #[test]
    fn a_name_with_two_readings_is_forwarded_only_if_it_is_named() {
        let fields = [
            ("x_role", "admin"),
            ("x_forwarded_for", "10.0.0.1"),
            ("x-real_ip", "10.0.0.1"),
            ("x.role", "admin"),
            ("x~role", "admin"),
            ("_x-role", "admin"),
            ("forwarded_", "for=10.0.0.1"),
            ("x-b", "2"),
        ];
        let all = Forward { fields: ForwardedFields::All, ..Forward::default() };
        assert_eq!(sent(&all, &scope(None, &fields)), ["x-b: 2"]);
        let named = Forward::named(vec![HeaderName::from_static("x_role"), HeaderName::from_static("x-role")]);
        assert_eq!(sent(&named, &scope(None, &fields)), ["x_role: admin"]);
    }

    #[test]
    fn trailers_follow_by_the_rule_of_the_header_fields() {
        let names = ["x-sum", "x-role", "x_role", "x-forwarded-for", "cookie", "x-end", "x-set", "content-length"];
        let trailers = || names.map(|name| (HeaderName::from_static(name), HeaderValue::from_static("1")));
        let set = [HeaderName::from_static("x-set")];
        let followed = |forward: Forward| {
            let scope = scope(None, &[("connection", "x-end")]);
            let passed = Trailing::of(&Arc::new(forward), &scope, set.iter()).pass(trailers().into_iter().collect());
            passed
                .map(|passed| passed.keys().map(ToString::to_string).collect::<Vec<_>>().join(" "))
                .unwrap_or_default()
        };
        assert_eq!(followed(Forward::default()), "");
        assert_eq!(followed(Forward { fields: ForwardedFields::All, ..Forward::default() }), "x-sum x-role");
        let named = ["x-role", "cookie", "x-end", "x-set"].map(HeaderName::from_static);
        assert_eq!(followed(Forward::named(named.to_vec())), "x-role");
    }

    #[test]
    fn what_the_client_ends_at_the_gateway_ends_there() {
        let fields = [("connection", "close, X-A"), ("x-a", "1"), ("x-b", "2")];
        let named = Forward::named(vec![HeaderName::from_static("x-a"), HeaderName::from_static("x-b")]);
        assert_eq!(sent(&named, &scope(None, &fields)), ["x-b: 2"]);
        let all = Forward { fields: ForwardedFields::All, ..Forward::default() };
        assert_eq!(sent(&all, &scope(None, &fields)), ["connection: close, X-A", "x-b: 2"]);
    }
}
