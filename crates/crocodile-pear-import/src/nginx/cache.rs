//! `proxy_cache` and what belongs to it: the `cache` of an upstream.

use super::file::NginxFile;
use super::scope::Scope;
use super::variable::{self, Variables};
use super::{measure, piece};
use crate::yaml::{Map, Yaml};

/// How long nginx keeps an answer that nobody asks for.
const INACTIVE: &str = "10m";

/// Adds the cache of a location to the settings of its upstream.
pub fn read(file: &NginxFile<'_>, scope: &Scope<'_>, names: &Variables<'_>, settings: &mut Map) {
    let Some(cache) = scope.last("proxy_cache").filter(|directive| !directive.is("off")) else {
        scope.all(&["proxy_cache"]).into_iter().for_each(|directive| file.ledger.import(directive));
        return;
    };
    file.ledger.import(cache);
    let mut map = Map::default();
    valid(file, scope, &mut map);
    stale(file, scope, &mut map);
    key(file, scope, names, &mut map);
    if let Some(methods) = scope.last("proxy_cache_methods") {
        let known: Vec<&str> = methods.texts().filter(|name| ["GET", "HEAD", "POST"].contains(name)).collect();
        file.ledger.import(methods);
        if known.contains(&"POST") {
            map.set("methods", Yaml::texts(["GET", "HEAD", "POST"]));
        }
    }
    for name in ["proxy_cache_bypass", "proxy_no_cache"] {
        for directive in scope.all(&[name]) {
            let why = "this condition of the cache is not imported";
            let remedy = "`cache-control: no-cache` of a client does the same; see also `key` of the cache";
            file.ledger.report(directive, why, remedy);
        }
    }
    match map.get("for").filter(|_| map.len() == 1).cloned() {
        Some(time) => settings.set("cache", time),
        None if map.is_empty() => settings.set("cache", Yaml::plain("on")),
        None => settings.set("cache", map),
    };
}

/// `proxy_cache_valid` and `proxy_ignore_headers`.
fn valid(file: &NginxFile<'_>, scope: &Scope<'_>, map: &mut Map) {
    let ledger = file.ledger;
    let mut is_forced = false;
    if let Some(ignored) = scope.last("proxy_ignore_headers") {
        let mut missing = Vec::new();
        for name in ignored.texts() {
            match name.to_ascii_lowercase().as_str() {
                "cache-control" | "expires" => is_forced = true,
                "set-cookie" => drop(map.set("store_cookies", Yaml::plain("on"))),
                "x-accel-expires" | "x-accel-redirect" | "x-accel-limit-rate" | "x-accel-buffering"
                | "x-accel-charset" => {}
                name => missing.push(name.to_owned()),
            }
        }
        match missing.is_empty() {
            true => ledger.import(ignored),
            false => ledger.remark(ignored, format!("`{}` of an answer is always observed", missing.join(", ")), ""),
        }
    }
    const NEGATIVE: [&str; 6] = ["404", "405", "410", "414", "451", "501"];
    for directive in scope.all(&["proxy_cache_valid"]) {
        let words: Vec<&str> = directive.texts().collect();
        let Some((time, codes)) = words.split_last() else { continue };
        let Some(time) = measure::time(time) else {
            ledger.report(directive, "this is no time", "write `10m`");
            continue;
        };
        let time = Yaml::duration(time);
        let is = |code: &&str| codes.contains(code);
        let good = codes.is_empty() || ["200", "any"].iter().any(is);
        let bad = NEGATIVE.iter().chain(&["any"]).any(is);
        if good {
            map.set(if is_forced { "force" } else { "for" }, time.clone());
        }
        if bad {
            map.set("negative", time);
        }
        let other: Vec<&&str> = codes
            .iter()
            .filter(|code| {
                !["200", "any", "301", "302", "308", "203", "204", "300"].contains(*code) && !NEGATIVE.contains(*code)
            })
            .collect();
        match (good || bad, other.is_empty()) {
            (true, true) => ledger.import(directive),
            _ => ledger.remark(
                directive,
                "answers with these statuses are cached only if they say so themselves",
                "see `for` and `negative` of the cache",
            ),
        }
    }
}

/// `proxy_cache_use_stale` and `proxy_cache_background_update`.
fn stale(file: &NginxFile<'_>, scope: &Scope<'_>, map: &mut Map) {
    let Some(directive) = scope.last("proxy_cache_use_stale") else { return };
    file.ledger.import(directive);
    let has = |word: &str| directive.texts().any(|other| other == word);
    if has("updating") {
        map.set("stale", Yaml::plain(INACTIVE));
        if let Some(update) = scope.last("proxy_cache_background_update") {
            file.ledger.import(update);
        }
    }
    if has("error") || has("timeout") || directive.texts().any(|word| word.starts_with("http_5")) {
        map.set("stale_if_error", Yaml::plain(INACTIVE));
    }
}

/// `proxy_cache_key`: what is in it beside the URL.
fn key(file: &NginxFile<'_>, scope: &Scope<'_>, names: &Variables<'_>, map: &mut Map) {
    let Some(directive) = scope.last("proxy_cache_key") else { return };
    let text: String = directive.texts().collect();
    let all = variable::names(&text);
    let is_url = |name: &str| {
        matches!(
            name,
            "scheme"
                | "proxy_host"
                | "uri"
                | "request_uri"
                | "is_args"
                | "args"
                | "query_string"
                | "request_method"
                | "document_uri"
                | "server_name"
                | "server_port"
                | "proxy_port"
        )
    };
    let more: Vec<&String> = all.iter().filter(|name| !is_url(name)).collect();
    let resolved: Result<Vec<String>, String> = more
        .iter()
        .map(|name| names.resolve(&format!("${{{name}}}")).map(|pieces| piece::expression(&pieces)))
        .collect();
    match resolved {
        Ok(parts) => {
            match parts.as_slice() {
                [] => {}
                [one] => drop(map.set("key", Yaml::text(one))),
                several => drop(map.set("key", Yaml::text(several.join(", ")))),
            }
            let has_query = all.iter().any(|name| matches!(name.as_str(), "request_uri" | "args" | "query_string"));
            match has_query {
                true => file.ledger.import(directive),
                false => file.ledger.remark(directive, "the query is always a part of the key", ""),
            }
        }
        Err(why) => {
            file.ledger.report(directive, format!("the key is not imported: {why}"), "write `key` of the cache");
        }
    }
}
