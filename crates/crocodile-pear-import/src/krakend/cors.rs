//! `security/cors`.

use super::keys::Item;
use crate::yaml::{Map, Yaml};

pub fn read(item: &Item<'_>) -> Option<Map> {
    let keys = item.map()?;
    let mut cors = Map::default();
    let origins = keys.take("allow_origins").map(|item| (item.texts(), item));
    let listed: Vec<String> = origins.as_ref().map(|(list, _)| list.clone()).unwrap_or_default();
    let mut kept = Vec::new();
    for origin in listed.iter().map(|origin| origin.trim_end_matches('/')) {
        match is_origin(origin) {
            true => kept.push(origin.to_owned()),
            false => {
                if let Some((_, item)) = &origins {
                    item.report(
                        format!("the origin `{origin}` is not imported: it is no origin here"),
                        "write `https://HOST`, `https://*.HOST` or `*`",
                    );
                }
            }
        }
    }
    let all = listed.is_empty() || kept.iter().any(|origin| origin == "*");
    let origins = if all { vec!["*".to_owned()] } else { kept };
    if origins.is_empty() {
        keys.end();
        return None;
    }
    cors.set("origins", Yaml::texts(&origins));
    let methods = keys.texts("allow_methods");
    if !methods.is_empty() && !methods.iter().any(|method| method == "*") {
        cors.set("methods", Yaml::texts(methods.iter().map(|method| method.to_ascii_uppercase())));
    }
    let headers = keys.texts("allow_headers");
    if !headers.is_empty() && !headers.iter().any(|header| header == "*") {
        cors.set("headers", Yaml::texts(headers.iter().map(|header| header.to_ascii_lowercase())));
    }
    if let Some(credentials) = keys.take("allow_credentials").filter(super::keys::Item::is_true) {
        match all {
            true => credentials.ignore("browsers do not send credentials where all origins are allowed"),
            false => drop(cors.set("credentials", Yaml::plain(true))),
        }
    }
    let expose = keys.texts("expose_headers");
    cors.set_filled("expose", Yaml::texts(expose.iter().map(|header| header.to_ascii_lowercase())));
    cors.set_some("max_age", keys.duration("max_age").map(Yaml::duration));
    if keys.is_true("allow_private_network") {
        cors.set("private_network", Yaml::plain(true));
    }
    keys.ignore(&["debug", "options_success_status"], "it changes nothing for browsers");
    if let Some(item) = keys.take("options_passthrough")
        && item.is_true()
    {
        item.report("the gateway answers preflight requests itself", "");
    }
    keys.end();
    if all && origins.len() == 1 && cors.len() == 1 {
        return Some(Map::of("origins", Yaml::text("*")));
    }
    Some(cors)
}

/// Whether this is an origin, with a wildcard for its first label or not.
fn is_origin(origin: &str) -> bool {
    let Some((scheme, host)) = origin.split_once("://") else { return origin == "*" };
    let bare = host.strip_prefix("*.").unwrap_or(host);
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-.:[]".contains(letter);
    !scheme.is_empty() && !scheme.contains('*') && !bare.is_empty() && bare.chars().all(fits)
}
