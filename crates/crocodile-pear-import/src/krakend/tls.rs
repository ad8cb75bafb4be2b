//! TLS: of the listener, and to backends.

use super::keys::{Item, ObjectKeys};
use crate::yaml::{Map, Yaml};

/// `tls` of the service: the listener's.
pub fn listener(item: &Item<'_>) -> Option<Map> {
    let keys = item.map()?;
    let off = keys.is_true("disabled");
    let mut tls = Map::default();
    let pair = |keys: &ObjectKeys<'_>| {
        let mut pair = Map::default();
        let (Some(certificate), Some(key)) = (keys.text("public_key"), keys.text("private_key")) else { return pair };
        pair.set("certificate", Yaml::text(certificate)).set("key", Yaml::text(key));
        pair
    };
    let own = pair(&keys);
    let mut pairs: Vec<Map> = (!own.is_empty()).then_some(own).into_iter().collect();
    for item in keys.list("keys") {
        if let Some(keys) = item.map() {
            pairs.push(pair(&keys));
            keys.end();
        }
    }
    match pairs.as_slice() {
        [one] => tls = one.clone(),
        several => drop(tls.set("certificates", Yaml::List(several.iter().cloned().map(Yaml::from).collect()))),
    }
    let authorities = keys.take("ca_certs").map(|item| (item.texts(), item));
    let mutual = keys.is_true("enable_mtls");
    match authorities {
        Some((files, item)) if mutual => {
            tls.set_some("client_ca", files.first().map(Yaml::text));
            if files.len() > 1 {
                item.report("only the first file of `ca_certs` is imported", "put all CAs into one PEM file");
            }
        }
        Some((_, item)) => item.ignore("CAs are used with `enable_mtls` only"),
        None => {}
    }
    versions(&keys);
    keys.end();
    (!off && !pairs.is_empty()).then_some(tls)
}

/// `client_tls`: TLS to backends.
pub fn backend(item: &Item<'_>) -> Map {
    let mut tls = Map::default();
    let Some(keys) = item.map() else { return tls };
    if let Some(item) = keys.take("ca_certs") {
        let files = item.texts();
        tls.set_some("ca", files.first().map(Yaml::text));
        if files.len() > 1 {
            item.report("only the first file of `ca_certs` is imported", "put all CAs into one PEM file");
        }
    }
    if let Some(item) = keys.take("client_certs") {
        let certificates = item.list();
        if let Some(keys) = certificates.first().and_then(super::keys::Item::map) {
            if let (Some(certificate), Some(key)) = (keys.text("certificate"), keys.text("private_key")) {
                tls.set("certificate", Yaml::text(certificate)).set("key", Yaml::text(key));
            }
            keys.end();
        }
        for item in certificates.iter().skip(1) {
            item.report("only the first client certificate is imported", "");
        }
    }
    insecure(&keys);
    if let Some(item) = keys.take("disable_system_ca_pool") {
        match item.is_true() && tls.get("ca").is_none() {
            true => {
                item.report("without a CA of its own, the gateway trusts the CAs that Mozilla trusts", "name a `ca`");
            }
            false => item.done(),
        }
    }
    versions(&keys);
    keys.end();
    tls
}

/// Certificates of upstreams are always checked.
pub fn insecure(keys: &ObjectKeys<'_>) {
    if let Some(item) = keys.take("allow_insecure_connections") {
        match item.is_true() {
            true => {
                item.report("certificates of upstreams are always checked", "name the CA of the upstream in `tls.ca`");
            }
            false => item.done(),
        }
    }
}

fn versions(keys: &ObjectKeys<'_>) {
    for name in ["min_version", "max_version"] {
        if let Some(item) = keys.take(name) {
            match item.text().as_deref() {
                Some("TLS12") if name == "min_version" => {}
                Some("TLS13") if name == "max_version" => {}
                Some("TLS10" | "TLS11" | "SSL3.0") if name == "min_version" => {
                    item.remark("TLS 1.0 and 1.1 are not supported: 1.2 is the oldest", "");
                }
                _ => item.report("the versions are TLS 1.2 and 1.3", ""),
            }
        }
    }
    keys.ignore(
        &["curve_preferences", "cipher_suites", "prefer_server_cipher_suites", "disable_system_ca_pool"],
        "the gateway has today's curves and cipher suites only, and they are not chosen one by one",
    );
}
