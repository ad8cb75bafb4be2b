//! The settings of a location beside its content: who may call, how often, and the header fields of answers.

use super::file::NginxFile;
use super::parse::Directive;
use super::piece::{self, Piece};
use super::scope::Scope;
use super::variable::Variables;
use super::{access, measure};
use crate::duration;
use crate::yaml::{Map, Yaml};

/// The phase in which a location answers. Answers of `return` come before any check of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocationPhase {
    /// `return`, or a `rewrite` that redirects.
    Rewrite,
    /// A call, or files.
    Content,
}

/// An endpoint, before it is written.
#[derive(Clone, Debug)]
pub struct EndpointDraft {
    /// `/api/{*path}`, or `GET /api`.
    pub name: String,
    pub settings: Map,
    /// A call in the short form, a pipeline, or none.
    pub body: Option<Yaml>,
    pub phase: LocationPhase,
    /// Whether its requests are not logged.
    pub is_silent: bool,
    pub comment: Option<String>,
}

pub fn read(file: &NginxFile<'_>, scope: &Scope<'_>, names: &mut Variables<'_>, phase: LocationPhase) -> Map {
    let mut map = Map::default();
    if phase == LocationPhase::Content {
        access::read(file, scope, names, &mut map);
        limits(file, scope, names, &mut map);
    }
    body(file, scope, &mut map);
    fields(file, scope, names, &mut map);
    compress(file, scope, &mut map);
    map
}

/// `client_max_body_size`; nginx's own limit is 1 MiB.
fn body(file: &NginxFile<'_>, scope: &Scope<'_>, map: &mut Map) {
    let Some(directive) = scope.last("client_max_body_size") else {
        map.set("max_body", Yaml::plain("1MiB"));
        return;
    };
    match directive.arg(0).and_then(measure::size) {
        Some(0) => file.ledger.import(directive),
        Some(size) => {
            file.ledger.import(directive);
            map.set("max_body", Yaml::plain(measure::bytes(size)));
        }
        None => {
            file.ledger.report(directive, "this is no size", "write `10m`");
        }
    }
}

/// `limit_req` and `limit_conn`.
fn limits(file: &NginxFile<'_>, scope: &Scope<'_>, names: &Variables<'_>, map: &mut Map) {
    let ledger = file.ledger;
    let mut rates: Vec<Yaml> = Vec::new();
    let dry = scope.is_on("limit_req_dry_run");
    for directive in scope.all(&["limit_req"]) {
        let value = |name: &str| directive.texts().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let zone = value("zone").and_then(|zone| file.requests.get(zone));
        let Some(zone) = zone else {
            ledger.report(directive, "its zone is not defined", "define it with `limit_req_zone`");
            continue;
        };
        let rate = zone.texts().find_map(|word| measure::rate(word.strip_prefix("rate=")?));
        let by = names.resolve(zone.arg(0).unwrap_or_default());
        let (Some(rate), Ok(by)) = (rate, by) else {
            let why = "the rate or the key of the zone has no counterpart";
            ledger.report(zone, why, "write `rate_limit` with `by`");
            ledger.report(directive, "its zone is not imported", "");
            continue;
        };
        ledger.import(zone);
        *file.counted.borrow_mut().entry(zone.number).or_default() += 1;
        if dry {
            ledger.report(directive, "a limit that only logs is not imported", "");
            continue;
        }
        let burst: u64 = value("burst").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut limit = Map::of("rate", Yaml::text(rate));
        limit.set("burst", Yaml::plain(burst + 1));
        if piece::text(&by).is_none() {
            limit.set("by", Yaml::text(piece::expression(&by)));
        }
        match burst > 0 && !directive.texts().any(|word| word == "nodelay") {
            true => ledger.remark(
                directive,
                "requests within `burst` are served at once, as with `nodelay`; nginx delays them",
                "",
            ),
            false => ledger.import(directive),
        }
        rates.push(limit.into());
    }
    match rates.as_slice() {
        [] => {}
        [one] => drop(map.set("rate_limit", one.clone())),
        _ => drop(map.set("rate_limit", Yaml::List(rates))),
    }
    for name in ["limit_req_status", "limit_conn_status"] {
        if let Some(directive) = scope.last(name) {
            match directive.is("429") {
                true => ledger.import(directive),
                false => ledger.remark(directive, "a request beyond the limit gets 429", ""),
            }
        }
    }
    connections(file, scope, names, map);
}

fn connections(file: &NginxFile<'_>, scope: &Scope<'_>, names: &Variables<'_>, map: &mut Map) {
    for directive in scope.all(&["limit_conn"]) {
        let zone = directive.arg(0).and_then(|zone| file.connections.get(zone));
        let count = directive.arg(1).and_then(|text| text.parse::<u64>().ok());
        let (Some(zone), Some(count)) = (zone, count) else {
            file.ledger.report(directive, "its zone is not defined", "define it with `limit_conn_zone`");
            continue;
        };
        match names.resolve(zone.arg(0).unwrap_or_default()) {
            Ok(_) if map.get("in_flight").is_some() => {
                file.ledger.report(directive, "an endpoint has one limit of concurrent requests", "");
            }
            Ok(by) => {
                file.ledger.import(zone);
                file.ledger.import(directive);
                *file.counted.borrow_mut().entry(zone.number).or_default() += 1;
                match piece::text(&by) {
                    Some(_) => map.set("in_flight", Yaml::plain(count)),
                    None => {
                        let mut limit = Map::of("limit", Yaml::plain(count));
                        limit.set("by", Yaml::text(piece::expression(&by)));
                        map.set("in_flight", limit)
                    }
                };
            }
            Err(why) => {
                file.ledger.report(zone, format!("the key is not imported: {why}"), "write `in_flight` with `by`");
                file.ledger.report(directive, "its zone is not imported", "");
            }
        }
    }
}

/// `add_header`, `expires`, `proxy_hide_header` and those of the module headers-more.
fn fields(file: &NginxFile<'_>, scope: &Scope<'_>, names: &Variables<'_>, map: &mut Map) {
    let ledger = file.ledger;
    let (mut set, mut remove): (Map, Vec<String>) = (Map::default(), Vec::new());
    for directive in scope.all(&["add_header"]) {
        let (Some(name), Some(value)) = (directive.arg(0), directive.arg(1)) else { continue };
        let name = name.to_ascii_lowercase();
        if name == "content-type" && scope.own().iter().any(|other| other.name == "return") {
            continue;
        }
        if let Err(why) = add(names, &name, value, directive.arg(2) == Some("always"), &mut set) {
            let remedy = "write an expression in `headers: { set: … }`";
            ledger.report(directive, format!("the field is not imported: {why}"), remedy);
        } else {
            ledger.import(directive);
        }
    }
    if let Some(directive) = scope.last("expires") {
        expires(file, directive, &mut set);
    }
    for directive in scope.all(&["more_set_headers"]) {
        let mut whole = true;
        for word in directive.texts() {
            match word.split_once(':') {
                Some((name, value)) if !word.starts_with('-') => {
                    whole &= add(names, &name.trim().to_ascii_lowercase(), value.trim(), true, &mut set).is_ok();
                }
                _ => whole = false,
            }
        }
        match whole {
            true => ledger.import(directive),
            false => ledger.report(directive, "not all of it is imported", "write `headers`"),
        }
    }
    for directive in scope.all(&["proxy_hide_header", "more_clear_headers"]) {
        ledger.import(directive);
        remove.extend(directive.texts().map(str::to_ascii_lowercase));
    }
    remove.retain(|name| set.get(name).is_none());
    remove.sort();
    remove.dedup();
    let mut headers = Map::default();
    headers.set_filled("set", set);
    headers.set_filled("remove", Yaml::texts(remove));
    map.set_filled("headers", headers);
}

/// Statuses that get the fields of an `add_header` without `always`.
const GOOD: &str = "[200, 201, 204, 206, 301, 302, 303, 304, 307, 308]";

fn add(names: &Variables<'_>, name: &str, value: &str, always: bool, set: &mut Map) -> Result<(), String> {
    const FRAMING: [&str; 4] = ["connection", "transfer-encoding", "content-length", "keep-alive"];
    if FRAMING.contains(&name) || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        return Err("framing is the gateway's own".to_owned());
    }
    let pieces = names.resolve(value)?;
    if pieces.is_empty() {
        return Ok(());
    }
    if pieces.iter().any(|piece| matches!(piece, Piece::Param(_) | Piece::Rest { .. })) {
        return Err("the path of the request is not known in header fields of all answers".to_owned());
    }
    let good = |value: String| format!("{{if $status | IN({GOOD}[]) then {value} else null end}}");
    let text = match (always, piece::text(&pieces)) {
        (true, _) => piece::field(&pieces),
        // A field that concerns how long an answer is kept does not belong to an error.
        (false, Some(text)) if !matters(name) => piece::literal(&text),
        (false, _) => good(piece::expression(&pieces)),
    };
    let value = match set.get(name) {
        Some(Yaml::Text(before)) => Yaml::texts([before.clone(), text]),
        Some(Yaml::List(before)) => Yaml::List(before.iter().cloned().chain([Yaml::text(text)]).collect()),
        _ => Yaml::text(text),
    };
    set.set(name, value);
    Ok(())
}

/// Whether it matters that an error does not have the field.
fn matters(name: &str) -> bool {
    matches!(
        name,
        "cache-control" | "expires" | "pragma" | "set-cookie" | "location" | "etag" | "last-modified" | "retry-after"
    )
}

fn expires(file: &NginxFile<'_>, directive: &Directive, set: &mut Map) {
    let value = match directive.arg(0).unwrap_or_default() {
        "off" => return file.ledger.import(directive),
        "epoch" | "-1" => "no-cache".to_owned(),
        "max" => "max-age=315360000".to_owned(),
        text => match text.strip_prefix('-').map_or_else(|| measure::time(text).map(|time| time.as_secs()), |_| None) {
            Some(seconds) if directive.args.len() == 1 => format!("max-age={seconds}"),
            _ => {
                let remedy = "write `cache-control` in `headers: { set: … }`";
                return file.ledger.report(directive, "this form of `expires` is not imported", remedy);
            }
        },
    };
    file.ledger.import(directive);
    if set.get("cache-control").is_none() {
        set.set("cache-control", Yaml::text(format!("{{if $status | IN({GOOD}[]) then \"{value}\" else null end}}")));
    }
}

/// `gzip` and what belongs to it.
fn compress(file: &NginxFile<'_>, scope: &Scope<'_>, map: &mut Map) {
    let ledger = file.ledger;
    for directive in scope.all(&["gzip"]).into_iter().chain(scope.all(&["brotli"])) {
        ledger.import(directive);
    }
    if !scope.is_on("gzip") && !scope.is_on("brotli") {
        return;
    }
    let mut compress = Map::default();
    let least = scope.last("gzip_min_length");
    if let Some((directive, size)) = least.and_then(|directive| Some((directive, measure::size(directive.arg(0)?)?))) {
        ledger.import(directive);
        compress.set("min_size", Yaml::plain(if size == 0 { "0".to_owned() } else { measure::bytes(size) }));
    }
    let types = scope.last("gzip_types");
    types.iter().for_each(|directive| ledger.import(directive));
    let types: Vec<&str> = types.map(|directive| directive.texts().collect()).unwrap_or_default();
    if !types.contains(&"*") {
        let mut all = vec!["text/html"];
        all.extend(types.iter().filter(|name| name.contains('/') && **name != "text/html"));
        compress.set("types", Yaml::texts(all));
    }
    let level = scope.last("gzip_comp_level");
    if let Some((directive, level)) =
        level.and_then(|directive| Some((directive, directive.arg(0)?.parse::<u8>().ok()?)))
        && (1..=9).contains(&level)
    {
        ledger.import(directive);
        compress.set("gzip", Yaml::plain(level));
    }
    match compress.is_empty() {
        true => map.set("compress", Yaml::plain("on")),
        false => map.set("compress", compress),
    };
}

/// Timeouts and limits for clients, which the whole gateway has.
pub fn clients(file: &NginxFile<'_>, scopes: &[Scope<'_>]) -> Map {
    let ledger = file.ledger;
    let mut map = Map::default();
    let times = [
        ("client_header_timeout", "head"),
        ("keepalive_timeout", "keep"),
        ("client_body_timeout", "body"),
        ("send_timeout", "write"),
    ];
    for (name, ours) in times {
        for directive in scopes.iter().filter_map(|scope| scope.last(name)) {
            let time = directive.arg(0).and_then(measure::time).filter(|time| !time.is_zero());
            match (time.map(duration::write), map.get(ours)) {
                (Some(time), None) => {
                    ledger.import(directive);
                    map.set(ours, Yaml::plain(time));
                }
                (Some(time), Some(known)) if *known == Yaml::plain(&time) => ledger.import(directive),
                (None, _) if directive.is("0") => {
                    ledger.ignore(directive, "connections of clients are kept for `clients.keep`");
                }
                _ => ledger.report(directive, "all servers have one such time", format!("see `clients.{ours}`")),
            }
        }
    }
    for directive in scopes.iter().filter_map(|scope| scope.last("large_client_header_buffers")) {
        let size =
            directive.arg(0).and_then(|text| text.parse::<u64>().ok()).zip(directive.arg(1).and_then(measure::size));
        if let Some((count, size)) = size {
            ledger.import(directive);
            map.set("max_head", Yaml::plain(measure::bytes(count.saturating_mul(size))));
        }
    }
    let mut trust: Vec<String> = Vec::new();
    for directive in scopes.iter().flat_map(|scope| scope.all(&["set_real_ip_from"])) {
        let Some(network) = directive.arg(0) else { continue };
        let network = if network == "unix:" { "unix" } else { network };
        ledger.import(directive);
        if !trust.iter().any(|known| known == network) {
            trust.push(network.to_owned());
        }
    }
    map.set_filled("trust", Yaml::texts(trust));
    for directive in scopes.iter().filter_map(|scope| scope.last("real_ip_header")) {
        match directive.arg(0).unwrap_or_default().to_ascii_lowercase().as_str() {
            "x-forwarded-for" => {
                ledger.import(directive);
                map.set("field", Yaml::text("x-forwarded-for"));
            }
            "x-real-ip" => {
                ledger.import(directive);
                map.set("field", Yaml::text("x-real-ip"));
            }
            "proxy_protocol" => ledger.import(directive),
            name => ledger.report(
                directive,
                format!("`{name}` is not read for the address of the client"),
                "see `clients.field` for the fields that are",
            ),
        }
    }
    for directive in scopes.iter().filter_map(|scope| scope.last("real_ip_recursive")) {
        ledger.ignore(directive, "addresses are always read from the right, up to the first that is not trusted");
    }
    map
}
