//! `listen`, `server_name` and TLS: the listeners, and which server is for which hosts.

use super::file::NginxFile;
use super::parse::Directive;
use super::scope::Scope;
use super::upstreams::is_host;
use super::variable::Variables;
use crate::yaml::{Map, Yaml};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// The address as we write it: `0.0.0.0:80`, `:443`, `unix:/run/x`.
    pub text: String,
    pub port: String,
    pub is_tls: bool,
    pub is_default: bool,
    pub has_proxy_protocol: bool,
}

pub struct VirtualServer<'a> {
    pub directive: &'a Directive,
    pub scope: Scope<'a>,
    pub addresses: Vec<ListenAddress>,
    pub hosts: Vec<String>,
}

pub fn read<'a>(file: &NginxFile<'a>, directive: &'a Directive) -> VirtualServer<'a> {
    let scope = file.http.within(directive.inner());
    let mut addresses: Vec<ListenAddress> = Vec::new();
    let old_tls = scope.is_on("ssl");
    for listen in scope.own().iter().filter(|directive| directive.name == "listen") {
        if let Some(address) = address(file, listen, old_tls) {
            merge(&mut addresses, address);
        }
    }
    if addresses.is_empty() {
        let text = "0.0.0.0:80".to_owned();
        let port = "80".to_owned();
        addresses.push(ListenAddress { text, port, is_tls: old_tls, is_default: false, has_proxy_protocol: false });
    }
    scope.all(&["ssl", "http2"]).iter().for_each(|directive| file.ledger.import(directive));
    let mut hosts: Vec<String> = Vec::new();
    for names in scope.own().iter().filter(|directive| directive.name == "server_name") {
        hosts.extend(self::hosts(file, names));
    }
    VirtualServer { directive, scope, addresses, hosts }
}

/// Adds an address: every address of IPv4 and of IPv6 together is every address.
fn merge(addresses: &mut Vec<ListenAddress>, new: ListenAddress) {
    let any = |text: &str| text.strip_prefix("0.0.0.0:").or_else(|| text.strip_prefix("[::]:")).map(str::to_owned);
    for known in addresses.iter_mut() {
        if known.text == new.text {
            return;
        }
        if any(&known.text).is_some_and(|port| any(&new.text) == Some(port)) && known.is_tls == new.is_tls {
            known.text = format!(":{}", new.port);
            known.is_default |= new.is_default;
            return;
        }
    }
    addresses.push(new);
}

fn address(file: &NginxFile<'_>, listen: &Directive, old_tls: bool) -> Option<ListenAddress> {
    let written = listen.arg(0)?;
    let has = |word: &str| listen.texts().any(|other| other == word);
    if has("quic") || has("http3") {
        file.ledger.report(listen, "HTTP/3 is not served", "the listener for TCP serves HTTP/1.1 and HTTP/2");
        return None;
    }
    let port = |text: &str| text.parse::<u16>().ok().map(|port| port.to_string());
    let (text, port) = if written.starts_with("unix:") {
        (Some(written.to_owned()), String::new())
    } else if let Some(port) = port(written) {
        (Some(format!("0.0.0.0:{port}")), port)
    } else if let Some((host, number)) =
        written.rsplit_once(':').filter(|(host, _)| !host.starts_with('[') || host.ends_with(']'))
    {
        let host = if host == "*" { "0.0.0.0" } else { host };
        let host = if host == "localhost" { "127.0.0.1" } else { host };
        let port = port(number);
        let good = is_host(host) && port.is_some();
        (good.then(|| format!("{host}:{number}")), port.unwrap_or_default())
    } else {
        let host = if written == "*" { "0.0.0.0" } else { written };
        (is_host(host).then(|| format!("{host}:80")), "80".to_owned())
    };
    let Some(text) = text else {
        let remedy = "write `80`, `127.0.0.1:80`, `[::]:80` or `unix:/path`";
        file.ledger.report(listen, format!("`{written}` is no address"), remedy);
        return None;
    };
    file.ledger.import(listen);
    Some(ListenAddress {
        text,
        port,
        is_tls: old_tls || has("ssl"),
        is_default: has("default_server") || has("default"),
        has_proxy_protocol: has("proxy_protocol"),
    })
}

/// The hosts of a `server_name`. A name that no request can have, such as `_`, is none.
fn hosts(file: &NginxFile<'_>, names: &Directive) -> Vec<String> {
    let mut hosts = Vec::new();
    let mut is_whole = true;
    for name in names.texts() {
        if name.starts_with('~') {
            is_whole = false;
            let remedy = "write `*.example.com` for all names below a domain";
            file.ledger.report(names, format!("the regular expression `{name}` for hosts is not imported"), remedy);
        } else if name.is_empty() || name == "_" || name == "-" || name == "--" || name.starts_with('$') {
        } else if name.ends_with(".*") {
            is_whole = false;
            let remedy = "write each name";
            file.ledger.report(names, format!("`{name}` is not imported: a `*` stands at the beginning"), remedy);
        } else if let Some(domain) = name.strip_prefix('.').filter(|domain| is_host(domain)) {
            hosts.extend([domain.to_ascii_lowercase(), format!("*.{}", domain.to_ascii_lowercase())]);
        } else if is_host(name.strip_prefix("*.").unwrap_or(name)) && !name.contains([':', '[', ']', '%']) {
            hosts.push(name.to_ascii_lowercase());
        } else {
            is_whole = false;
            let remedy = "write `api.example.com`, without spaces and ports";
            file.ledger.report(names, format!("`{name}` is no host"), remedy);
        }
    }
    if is_whole {
        file.ledger.import(names);
    }
    hosts
}

/// Whether a server does nothing but send its clients to https, and the directives that say so.
pub fn redirects<'a>(found: &VirtualServer<'a>) -> Option<Vec<&'a Directive>> {
    if found.addresses.iter().any(|address| address.is_tls) {
        return None;
    }
    let goes = |directive: &Directive| {
        let target = directive.args.last().map_or("", |word| word.text.as_str());
        let to = target.strip_prefix("https://").unwrap_or_default();
        let host = ["$host", "$http_host", "$server_name"].into_iter().find_map(|name| to.strip_prefix(name));
        let rest = host.or_else(|| found.hosts.iter().find_map(|host| to.strip_prefix(host.as_str())));
        let whole =
            matches!(rest, Some("$request_uri" | "$uri" | "$uri$is_args$args" | "/$1" | "$1" | "$request_uri?"));
        whole
            && (directive.name == "return"
                || directive.name == "rewrite"
                    && matches!(
                        directive.arg(0),
                        Some("^" | "^(.*)$" | "^/(.*)$" | "^(.*)" | "(.*)" | "^/(.*)" | ".*" | "^.*")
                    ))
    };
    let mut used: Vec<&'a Directive> = Vec::new();
    let mut is_redirect = false;
    for directive in found.scope.own() {
        match directive.name.as_str() {
            "return" | "rewrite" if goes(directive) => {
                is_redirect = true;
                used.push(directive);
            }
            // What certbot writes: an `if` with the redirect, then `return 404`.
            "if" if directive.inner().iter().all(goes) && !directive.inner().is_empty() => is_redirect = true,
            "return" if directive.is("404") && is_redirect => used.push(directive),
            "location" => {
                let challenge = directive.texts().any(|text| text.contains("/.well-known/acme-challenge"));
                let all = directive.is("/") && directive.inner().iter().any(goes);
                if all {
                    is_redirect = true;
                    used.push(directive);
                    used.extend(directive.inner().iter().filter(|inner| goes(inner)));
                } else if !challenge {
                    return None;
                }
            }
            "return" | "rewrite" | "proxy_pass" => return None,
            _ => {}
        }
    }
    is_redirect.then_some(used)
}

/// The values of a server for its variables.
pub fn names<'a>(found: &VirtualServer<'a>) -> Variables<'a> {
    let first = found.addresses.first();
    let same = |value: fn(&ListenAddress) -> String| {
        first.map(value).filter(|first| found.addresses.iter().all(|address| value(address) == *first))
    };
    Variables {
        server_name: found.hosts.first().cloned().unwrap_or_default(),
        port: same(|address| address.port.clone()),
        tls: same(|address| address.is_tls.to_string()).map(|text| text == "true"),
        ..Variables::default()
    }
}

/// The listeners of the configuration.
pub fn write(file: &NginxFile<'_>, servers: &[VirtualServer<'_>], redirecting: &[bool]) -> Yaml {
    let mut texts: Vec<String> = Vec::new();
    for address in servers.iter().flat_map(|found| &found.addresses) {
        if !texts.contains(&address.text) {
            texts.push(address.text.clone());
        }
    }
    // `:80` takes what is for `0.0.0.0:80`.
    let every: Vec<String> = texts.iter().filter(|text| text.starts_with(':')).cloned().collect();
    texts.retain(|text| {
        let any = text.strip_prefix("0.0.0.0:").or_else(|| text.strip_prefix("[::]:"));
        any.is_none_or(|port| !every.contains(&format!(":{port}")))
    });
    let on = |text: &str| -> Vec<usize> {
        let own = |address: &ListenAddress| {
            let any = address.text.strip_prefix("0.0.0.0:").or_else(|| address.text.strip_prefix("[::]:"));
            address.text == text || any.is_some_and(|port| text == format!(":{port}"))
        };
        (0..servers.len()).filter(|at| servers[*at].addresses.iter().any(own)).collect()
    };
    let mut list: Vec<Yaml> = Vec::new();
    for text in &texts {
        let here = on(text);
        let mut listener = Map::of("address", Yaml::text(text));
        let address = |at: &usize| servers[*at].addresses.iter().find(|address| address.text == *text);
        let is_tls = here.iter().filter_map(address).any(|address| address.is_tls);
        if is_tls {
            listener.set("tls", tls(file, &here.iter().map(|at| &servers[*at]).collect::<Vec<_>>()));
        } else if !here.is_empty() && here.iter().all(|at| redirecting[*at]) {
            listener.set("redirect", Yaml::plain("https"));
        }
        if here.iter().filter_map(address).any(|address| address.has_proxy_protocol) {
            listener.set("proxy_protocol", Yaml::plain("on"));
        }
        list.push(if listener.len() == 1 { Yaml::text(text) } else { listener.into() });
    }
    match list.as_slice() {
        [one] => one.clone(),
        _ => Yaml::List(list),
    }
}

/// TLS of a listener: the certificates of all its servers.
fn tls(file: &NginxFile<'_>, servers: &[&VirtualServer<'_>]) -> Map {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut map = Map::default();
    let mut rest = Map::default();
    for found in servers {
        let scope = &found.scope;
        let certificates = scope.all(&["ssl_certificate"]);
        let keys = scope.all(&["ssl_certificate_key"]);
        for (certificate, key) in certificates.iter().zip(&keys) {
            file.ledger.import(certificate);
            file.ledger.import(key);
            let path = |directive: &Directive| file.path(directive.arg(0).unwrap_or_default());
            let pair = (path(certificate), path(key));
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        client(file, scope, &mut rest);
        if let Some(directive) = scope.last("ssl_protocols") {
            let all: Vec<&str> = directive.texts().collect();
            match all.contains(&"TLSv1.2")
                && !all.iter().any(|name| matches!(*name, "TLSv1" | "TLSv1.1" | "SSLv3" | "SSLv2"))
            {
                true => file.ledger.import(directive),
                false => file.ledger.remark(directive, "the gateway offers TLS 1.2 and 1.3", ""),
            }
        }
    }
    match pairs.as_slice() {
        // `check` says what is missing.
        [] => {}
        [(certificate, key)] => {
            map.set("certificate", Yaml::text(certificate)).set("key", Yaml::text(key));
        }
        several => {
            let one = |(certificate, key): &(String, String)| {
                let mut pair = Map::of("certificate", Yaml::text(certificate));
                pair.set("key", Yaml::text(key));
                Yaml::Map(pair)
            };
            map.set("certificates", Yaml::List(several.iter().map(one).collect()));
        }
    }
    map.extend(&rest);
    map
}

/// Certificates of clients.
fn client(file: &NginxFile<'_>, scope: &Scope<'_>, map: &mut Map) {
    let Some(verify) = scope.last("ssl_verify_client") else { return };
    let mode = verify.arg(0).unwrap_or_default();
    if !matches!(mode, "on" | "optional") {
        match mode {
            "off" => file.ledger.import(verify),
            _ => file.ledger.report(verify, "certificates that no CA has signed are not accepted", ""),
        }
        return;
    }
    let Some(ca) = scope.last("ssl_client_certificate") else {
        file.ledger.report(verify, "there is no `ssl_client_certificate`", "name the CAs of clients");
        return;
    };
    file.ledger.import(verify);
    file.ledger.import(ca);
    map.set("client_ca", Yaml::text(file.path(ca.arg(0).unwrap_or_default())));
    if mode == "optional" {
        map.set("client_certificate", Yaml::plain("optional"));
    }
    if let Some(crl) = scope.last("ssl_crl") {
        file.ledger.import(crl);
        map.set("crl", Yaml::text(file.path(crl.arg(0).unwrap_or_default())));
    }
}
