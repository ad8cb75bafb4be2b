//! `proxy_pass` and `grpc_pass`: the call that a location makes, and the settings of its upstream.

use std::time::Duration;

use super::file::NginxFile;
use super::parse::Directive;
use super::piece::{self, Piece};
use super::scope::Scope;
use super::upstreams::is_host;
use super::variable::{self, Variables};
use super::{cache, measure, servers};
use crate::duration;
use crate::upstream_name::base;
use crate::yaml::{Map, Yaml};

/// nginx's own default for the pauses of an upstream.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyCall {
    pub upstream: String,
    pub target: String,
    pub method: Option<String>,
    /// Header fields that are made of the path of the request.
    pub headers: Map,
    pub body: Option<String>,
    /// Whether clients may switch to WebSocket.
    pub upgrades: bool,
}

/// The path of a location, for its call.
pub struct Path<'a> {
    /// The path that is sent if `proxy_pass` says none.
    pub whole: &'a [Piece],
    /// The part behind the prefix of the location; none for a regular expression.
    pub behind: Option<Vec<Piece>>,
    /// Whether a `rewrite` has changed the path.
    pub is_rewritten: bool,
    /// Whether the client's query is sent.
    pub has_query: bool,
    /// Whether the `rewrite` leaves some paths as they are.
    pub is_conditional: bool,
    /// Whether it is a call of `auth_request`.
    pub is_subrequest: bool,
}

impl ProxyCall {
    /// The call as a step of a pipeline, or as the short form of it.
    pub fn write(&self) -> Yaml {
        if self.method.is_none() && self.body.is_none() && self.headers.is_empty() {
            return Yaml::text(format!("{} {}", self.upstream, self.target));
        }
        let mut call = Map::of("to", Yaml::text(&self.upstream));
        call.set("path", Yaml::text(&self.target));
        call.set_some("method", self.method.as_ref().map(Yaml::text));
        call.set_filled("headers", self.headers.clone());
        call.set_some("body", self.body.as_ref().map(Yaml::text));
        call.into()
    }
}

/// The call of a location; none if it cannot be imported, which is reported.
pub fn read(
    file: &NginxFile<'_>,
    scope: &Scope<'_>,
    names: &Variables<'_>,
    pass: &Directive,
    path: &Path<'_>,
) -> Option<ProxyCall> {
    let written = pass.arg(0).unwrap_or_default();
    let refuse = |why: String, remedy: &str| {
        file.ledger.report(pass, why, remedy);
        None
    };
    let pieces = match names.resolve(written) {
        Ok(pieces) => pieces,
        Err(why) => return refuse(format!("the location is not imported: {why}"), ADDRESS),
    };
    let Some((Piece::Text(first), more)) = pieces.split_first() else {
        return refuse("the location is not imported: a variable names its upstream".to_owned(), ADDRESS);
    };
    let Some((scheme, rest)) = first.split_once("://") else {
        return refuse(format!("`{written}` is no URL"), "write `http://host:port`");
    };
    let (authority, uri) = match rest.strip_prefix("unix:") {
        Some(socket) => {
            let (socket, uri) = socket.split_once(':').unwrap_or((socket, ""));
            (format!("unix:{socket}"), uri.to_owned())
        }
        None => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            (rest[..end].to_owned(), rest[end..].to_owned())
        }
    };
    if uri.is_empty() && more.iter().any(|piece| !matches!(piece, Piece::Query | Piece::Rest { .. })) {
        return refuse("the location is not imported: a variable names its upstream".to_owned(), ADDRESS);
    }
    let (scheme, is_grpc) = match scheme {
        "grpc" => ("http", true),
        "grpcs" => ("https", true),
        scheme => (scheme, false),
    };
    let place = place(file, pass, scheme, &authority)?;
    let mut uri_pieces = if uri.is_empty() { Vec::new() } else { vec![Piece::Text(uri)] };
    more.iter().cloned().for_each(|piece| piece::push(&mut uri_pieces, piece));
    let target = match self::target(file, pass, path, &uri_pieces) {
        Ok(target) => target,
        Err(why) => return refuse(format!("the location is not imported: {why}"), ""),
    };
    let mut settings = Map::default();
    let mut headers = Map::default();
    let upgrades = fields(file, scope, names, &authority, (&mut settings, &mut headers), is_grpc, path.is_subrequest);
    common(file, scope, scheme, &authority, &mut settings, is_grpc);
    passes_body(file, scope, path.is_subrequest);
    cache::read(file, scope, names, &mut settings);
    file.ledger.import(pass);
    let name = match authority.strip_prefix("unix:") {
        Some(socket) => base(socket.rsplit('/').next().unwrap_or(socket)),
        None => base(&authority),
    };
    let upstream = file.upstreams.borrow_mut().name(&name, &place, settings);
    let method = scope.last("proxy_method").and_then(|directive| {
        file.ledger.import(directive);
        Some(directive.arg(0)?.to_ascii_uppercase())
    });
    let own = body(file, scope, names);
    // A call with a body is a POST unless it says otherwise.
    let method = method.or_else(|| own.as_ref().map(|_| "client".to_owned()));
    let sent = own.or_else(|| method.as_ref().filter(|_| !path.is_subrequest).map(|_| "client".to_owned()));
    Some(ProxyCall { upstream, target, method, headers, body: sent, upgrades })
}

const ADDRESS: &str = "name each upstream under `upstreams`, and choose one by a condition with `choose`";

/// `proxy_set_body`, which is JSON here.
fn body(file: &NginxFile<'_>, scope: &Scope<'_>, names: &Variables<'_>) -> Option<String> {
    let directive = scope.last("proxy_set_body")?;
    let pieces = names.resolve(directive.arg(0)?);
    let value = pieces.and_then(|pieces| match piece::text(&pieces) {
        Some(text) => serde_json::from_str::<serde_json::Value>(&text)
            .map(|value| value.to_string())
            .map_err(|_| "it is not JSON".to_owned()),
        None => Ok(format!("{} | fromjson", piece::expression(&pieces))),
    });
    match value {
        Ok(value) => {
            file.ledger.import(directive);
            Some(value)
        }
        Err(why) => {
            let remedy = "write `body` of the call, with its content-type in `headers`";
            file.ledger.report(directive, format!("the body is not imported: {why}"), remedy);
            None
        }
    }
}

/// Where the upstream is.
fn place(file: &NginxFile<'_>, pass: &Directive, scheme: &str, authority: &str) -> Option<Map> {
    if let Some(block) = file.blocks.get(authority) {
        let place = servers::read(file, block, scheme);
        if place.is_none() {
            file.ledger.report(pass, format!("the upstream `{authority}` has no server that is imported"), "");
        }
        return place;
    }
    if let Some(socket) = authority.strip_prefix("unix:") {
        let mut place = Map::of("url", Yaml::text(format!("{scheme}://localhost")));
        place.set("socket", Yaml::text(socket));
        return Some(place);
    }
    if !matches!(scheme, "http" | "https") || !is_host(authority) {
        let message = format!("`{scheme}://{authority}` is no URL of an upstream");
        file.ledger.report(pass, message, "write `http://host:port`");
        return None;
    }
    Some(Map::of("url", Yaml::text(format!("{scheme}://{authority}"))))
}

/// Path and query of the call.
fn target(file: &NginxFile<'_>, pass: &Directive, path: &Path<'_>, uri: &[Piece]) -> Result<String, String> {
    let own = !variable::names(pass.arg(0).unwrap_or_default()).is_empty();
    if own && !uri.is_empty() {
        return piece::target(uri, false);
    }
    if uri.is_empty() || path.is_rewritten {
        if path.is_conditional && !uri.is_empty() {
            return Err("its `rewrite` fits some paths, and others get the path of `proxy_pass`".to_owned());
        }
        if path.is_rewritten && !uri.is_empty() {
            file.ledger.remark(pass, "the path that `rewrite` makes is sent, as nginx does; this one is not", "");
        }
        return piece::target(path.whole, path.has_query);
    }
    let Some(behind) = &path.behind else {
        return Err("a path of `proxy_pass` in a location with a regular expression: nginx does not start".to_owned());
    };
    if piece::text(uri).is_some_and(|text| text.ends_with('/'))
        && matches!(behind.first(), Some(Piece::Rest { slash: true }))
    {
        let message = "nginx sends two slashes behind this path, and the gateway one";
        file.ledger.remark(pass, message, "");
    }
    piece::target(&piece::joined(uri.iter().cloned().chain(behind.iter().cloned())), path.has_query)
}

/// Header fields of the call: `forward`, `host`, `forwarded`, `headers`. Whether clients may switch to WebSocket.
fn fields(
    file: &NginxFile<'_>,
    scope: &Scope<'_>,
    names: &Variables<'_>,
    authority: &str,
    (settings, of_call): (&mut Map, &mut Map),
    is_grpc: bool,
    is_subrequest: bool,
) -> bool {
    let ledger = file.ledger;
    let passes = match scope.last("proxy_pass_request_headers") {
        Some(directive) => {
            ledger.import(directive);
            !directive.is("off")
        }
        None => true,
    };
    if passes {
        settings.set("forward", Yaml::plain("all"));
    }
    let mut host = file.blocks.contains_key(authority).then(|| authority.to_owned());
    let mut headers = Map::default();
    let (mut is_forwarded, mut upgrade, mut connection) = (false, false, false);
    for directive in scope.all(&[if is_grpc { "grpc_set_header" } else { "proxy_set_header" }]) {
        let (Some(name), value) = (directive.arg(0), directive.arg(1).unwrap_or_default()) else { continue };
        let name = name.to_ascii_lowercase();
        let variables = variable::names(value);
        let same = value == format!("$http_{}", name.replace('-', "_"));
        match (name.as_str(), value) {
            ("host", "$host" | "$http_host" | "$host:$server_port") => {
                host = Some("keep".to_owned());
                ledger.import(directive);
            }
            ("host", "$proxy_host") => {
                ledger.import(directive);
            }
            ("host", value) => match names.resolve(value).map(|pieces| piece::text(&pieces)) {
                Ok(Some(text)) if is_host(&text) => {
                    host = Some(text);
                    ledger.import(directive);
                }
                _ => ledger.report(
                    directive,
                    "this host is not imported",
                    "write `host: keep`, or a name, at the upstream",
                ),
            },
            ("connection", _) => {
                connection |= value.eq_ignore_ascii_case("upgrade") || !variables.is_empty();
                for block in variables.iter().filter_map(|name| file.maps.blocks.get(name)) {
                    ledger.import_whole(block);
                }
                ledger.import(directive);
            }
            ("upgrade", _) => {
                upgrade = true;
                ledger.import(directive);
            }
            ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr")
            | ("x-forwarded-proto", "$scheme" | "$http_x_forwarded_proto")
            | ("x-forwarded-host", "$host" | "$http_host" | "$http_x_forwarded_host") => {
                is_forwarded = true;
                ledger.import(directive);
            }
            ("content-length" | "transfer-encoding" | "te" | "keep-alive" | "expect", _) => {
                ledger.ignore(directive, "framing is the gateway's own");
            }
            _ if same
                && passes
                && !matches!(name.as_str(), "x-real-ip" | "forwarded")
                && !name.starts_with("x-forwarded-") =>
            {
                ledger.import(directive);
            }
            _ => {
                match field(names, value) {
                    Ok((_, true)) if is_subrequest && told(&name) => {
                        ledger.ignore(directive, "the service gets method, URL and address by itself, in `x-original-url` and `x-forwarded-…`");
                    }
                    Ok((_, true)) if is_subrequest => {
                        let remedy = "it gets the URL in `x-original-url`";
                        ledger.report(directive, "the service does not get this field", remedy);
                    }
                    Ok((text, is_of_path)) => {
                        if is_of_path {
                            of_call.set(&name, Yaml::text(text))
                        } else {
                            headers.set(&name, Yaml::text(text))
                        };
                        ledger.import(directive);
                    }
                    Err(why) => {
                        let remedy = "write an expression in `headers` of the upstream";
                        ledger.report(directive, format!("the field is not imported: {why}"), remedy);
                    }
                }
            }
        }
    }
    settings.set_some("host", host.map(|host| if host == "keep" { Yaml::plain("keep") } else { Yaml::text(host) }));
    if !is_forwarded && passes {
        settings.set("forwarded", Yaml::plain("off"));
    } else if is_forwarded && !passes {
        settings.set("forwarded", Yaml::plain("x"));
    }
    settings.set_filled("headers", headers);
    upgrade && connection
}

/// Whether the service of `auth_request` learns this anyway.
fn told(name: &str) -> bool {
    ["x-original-", "x-forwarded-", "x-auth-request-"].iter().any(|begin| name.starts_with(begin))
}

/// The text of a field, and whether it is made of the path of the request.
fn field(names: &Variables<'_>, value: &str) -> Result<(String, bool), String> {
    let pieces = names.resolve(value)?;
    let is_of_path = pieces.iter().any(|piece| match piece {
        Piece::Param(_) | Piece::Rest { .. } => true,
        Piece::Jq(expression) => expression.contains("$path"),
        Piece::Text(_) | Piece::Query => false,
    });
    let text = if pieces.is_empty() { "{(null)}".to_owned() } else { piece::field(&pieces) };
    Ok((text, is_of_path))
}

/// Timeouts, retries, TLS, redirects.
fn common(file: &NginxFile<'_>, scope: &Scope<'_>, scheme: &str, authority: &str, settings: &mut Map, is_grpc: bool) {
    let ledger = file.ledger;
    let prefix = if is_grpc { "grpc" } else { "proxy" };
    let time = |name: &str| {
        let directive = scope.last(&format!("{prefix}_{name}"))?;
        match directive.arg(0).and_then(measure::time) {
            Some(time) => {
                ledger.import(directive);
                Some(time)
            }
            None => {
                ledger.report(directive, "this is no time", "write `60s`");
                None
            }
        }
    };
    let mut timeout = Map::default();
    timeout.set_some("connect", time("connect_timeout").map(Yaml::duration));
    let pause = duration::write(time("read_timeout").unwrap_or(PAUSE));
    timeout.set("first_byte", Yaml::plain(&pause)).set("idle", Yaml::plain(&pause)).set("call", Yaml::plain("never"));
    settings.set("timeout", timeout);
    if is_grpc {
        settings.set("protocol", Yaml::plain("http2"));
    }
    if let Some(directive) = scope.last("proxy_next_upstream") {
        next(file, scope, directive, settings);
    }
    if scheme == "https" {
        tls(file, scope, authority, settings);
    }
    for directive in scope.all(&["proxy_redirect"]) {
        match directive.arg(0) {
            Some("off") => {
                ledger.import(directive);
                settings.set("rewrite", Yaml::plain("off"));
            }
            Some("default") => ledger.import(directive),
            _ => ledger.remark(
                directive,
                "`location` is rewritten where it points to the upstream, and not by this rule",
                "see `rewrite` of the upstream",
            ),
        }
    }
    for directive in scope.all(&["proxy_ignore_client_abort"]) {
        match directive.is("on") {
            true => {
                ledger.report(directive, "a call ends when its client has left", "write `detach: on` at the endpoint");
            }
            false => ledger.import(directive),
        }
    }
    for directive in scope.all(&["proxy_pass_header"]) {
        ledger.ignore(directive, "the fields of the upstream pass, unless `headers` removes them");
    }
}

/// `proxy_pass_request_body`.
fn passes_body(file: &NginxFile<'_>, scope: &Scope<'_>, is_subrequest: bool) {
    let Some(directive) = scope.last("proxy_pass_request_body") else { return };
    match directive.is("off") && !is_subrequest {
        true => file.ledger.report(directive, "the body is sent on", "use `body` of the call"),
        false => file.ledger.import(directive),
    }
}

/// `proxy_next_upstream`.
fn next(file: &NginxFile<'_>, scope: &Scope<'_>, directive: &Directive, settings: &mut Map) {
    let ledger = file.ledger;
    if directive.is("off") {
        ledger.import(directive);
        settings.set("retry", Map::of("attempts", Yaml::plain(1)));
        return;
    }
    let mut on: Vec<Yaml> = Vec::new();
    let mut missing = Vec::new();
    for word in directive.texts() {
        match word {
            "error" => on.extend([Yaml::plain("connect"), Yaml::plain("reset")]),
            "timeout" => on.push(Yaml::plain("timeout")),
            "invalid_header" => {}
            word => match word.strip_prefix("http_").and_then(|code| code.parse::<u16>().ok()) {
                Some(code) => on.push(Yaml::plain(code)),
                None => missing.push(word.to_owned()),
            },
        }
    }
    let mut retry = Map::default();
    if let Some(tries) = scope.last("proxy_next_upstream_tries") {
        ledger.import(tries);
        if let Some(count) = tries.arg(0).and_then(|text| text.parse::<u64>().ok()).filter(|count| *count > 0) {
            retry.set("attempts", Yaml::plain(count));
        }
    }
    if let Some(limit) = scope.last("proxy_next_upstream_timeout") {
        ledger.ignore(limit, "all attempts together have the timeout of the call");
    }
    retry.set("on", Yaml::List(on));
    settings.set("retry", retry);
    match missing.is_empty() {
        true => ledger.import(directive),
        false => {
            let message = format!("`{}` is not imported: only idempotent calls are repeated", missing.join(" "));
            ledger.remark(directive, message, "");
        }
    }
}

/// TLS to the upstream.
fn tls(file: &NginxFile<'_>, scope: &Scope<'_>, authority: &str, settings: &mut Map) {
    let ledger = file.ledger;
    let mut tls = Map::default();
    for (name, ours) in [
        ("proxy_ssl_trusted_certificate", "ca"),
        ("proxy_ssl_certificate", "certificate"),
        ("proxy_ssl_certificate_key", "key"),
    ] {
        if let Some(directive) = scope.last(name) {
            ledger.import(directive);
            tls.set(ours, Yaml::text(file.path(directive.arg(0).unwrap_or_default())));
        }
    }
    if let Some(directive) = scope.last("proxy_ssl_name") {
        match directive.arg(0).filter(|name| is_host(name)) {
            Some(name) => {
                ledger.import(directive);
                tls.set("server_name", Yaml::text(name));
            }
            None => {
                ledger.remark(directive, "the name is that of the upstream's URL", "write `tls: { server_name: … }`");
            }
        }
    }
    if let Some(directive) = scope.last("proxy_ssl_server_name") {
        ledger.import(directive);
    }
    match scope.last("proxy_ssl_verify") {
        Some(directive) if directive.is("on") => ledger.import(directive),
        Some(directive) => ledger.remark(
            directive,
            format!("the certificate of `{authority}` is always checked"),
            "name its CA in `tls: { ca: … }` if it is not a public one",
        ),
        None => {}
    }
    settings.set_filled("tls", tls);
}
