//! `auth/validator`: JSON Web Tokens.

use std::time::Duration;

use super::keys::{Item, ObjectKeys};
use crate::jq;
use crate::yaml::{Map, Yaml};

/// The clients that may call an endpoint.
pub struct Auth {
    /// The entry of `authenticate`.
    pub method: Map,
    pub allow: Option<String>,
    /// Claims that go to the backends: the claim as an expression, the header field, and its key.
    pub claims: Vec<(String, String)>,
}

/// Imports a validator. The endpoint is closed also where a part of it cannot be imported.
pub fn read(item: &Item<'_>) -> Option<Auth> {
    let keys = item.map()?;
    let mut jwt = Map::default();
    let mut allow: Vec<String> = Vec::new();
    let address = keys.take("jwk_url");
    let url = address.as_ref().and_then(super::keys::Item::text);
    let file = keys.text("jwk_local_path");
    let source = file.clone().or_else(|| url.clone());
    let Some(source) = source else {
        item.report(
            "the validator has neither `jwk_url` nor `jwk_local_path`, so its endpoint cannot be imported",
            "write the endpoint with an `authenticate` of its own",
        );
        return None;
    };
    jwt.set("issuer", Yaml::text(issuer(item, &keys, url.as_deref().unwrap_or_default())));
    jwt.set("audience", audience(&keys, &mut allow));
    jwt.set("keys", Yaml::text(source));
    jwt.set("algorithms", algorithms(&keys));
    transport(&keys, &mut jwt);
    let claims = claims(&keys);
    roles(&keys, &mut allow);
    scopes(&keys, &mut allow);
    unsupported(&keys);
    keys.end();
    Some(Auth { method: Map::of("jwt", jwt), allow: (!allow.is_empty()).then(|| allow.join(" and ")), claims })
}

fn issuer(item: &Item<'_>, keys: &ObjectKeys<'_>, url: &str) -> String {
    if let Some(issuer) = keys.filled("issuer") {
        return issuer;
    }
    const ENDINGS: [&str; 6] = [
        "/protocol/openid-connect/certs",
        "/v1/keys",
        "/.well-known/jwks.json",
        "/.well-known/jwks",
        "/discovery/keys",
        "/jwks.json",
    ];
    let base = ENDINGS.iter().find_map(|ending| url.strip_suffix(ending));
    let guess = match base {
        Some(base) if base.ends_with(".auth0.com") => format!("{base}/"),
        Some(base) => base.to_owned(),
        None => url.split('/').take(3).collect::<Vec<_>>().join("/"),
    };
    let guess = if guess.is_empty() { "https://issuer.invalid".to_owned() } else { guess };
    item.remark(
        "KrakenD accepts every issuer here, and the gateway only the one that is named",
        format!("`{guess}` is a guess: write what `iss` of your tokens has"),
    );
    guess
}

fn audience(keys: &ObjectKeys<'_>, allow: &mut Vec<String>) -> Yaml {
    let audience = keys.texts("audience");
    if audience.len() > 1 {
        // KrakenD wants all of them in `aud`, and `audience` one.
        allow.push(format!("([{}] - ([$claims.aud] | flatten)) == []", jq::texts(&audience)));
    }
    match audience.as_slice() {
        [] => Yaml::plain("any"),
        [one] => Yaml::text(one),
        several => Yaml::texts(several),
    }
}

fn algorithms(keys: &ObjectKeys<'_>) -> Yaml {
    let item = keys.take("alg");
    let name = item.as_ref().and_then(super::keys::Item::text).unwrap_or_else(|| "RS256".to_owned());
    const KNOWN: [&str; 12] =
        ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "HS256", "HS384", "HS512"];
    if !KNOWN.contains(&name.as_str()) {
        if let Some(item) = item {
            item.report(
                format!("the algorithm `{name}` is not supported; the endpoints take RS256 instead"),
                KNOWN.join(", "),
            );
        }
        return Yaml::List(vec![Yaml::plain("RS256")]);
    }
    Yaml::List(vec![Yaml::plain(name)])
}

fn transport(keys: &ObjectKeys<'_>, jwt: &mut Map) {
    let leeway = keys.duration("leeway");
    jwt.set("leeway", Yaml::duration(leeway.unwrap_or(Duration::from_secs(1))));
    keys.accept_flag("cache");
    if let Some(seconds) = keys.whole("cache_duration").filter(|seconds| *seconds > 0) {
        jwt.set("refresh", Yaml::duration(Duration::from_secs(seconds)));
    }
    jwt.set_some("tls", keys.text("jwk_local_ca").map(|ca| Map::of("ca", Yaml::text(ca))));
    keys.ignore(&["disable_jwk_security"], "the URL of the keys says `http` or `https` itself");
    keys.ignore(
        &["operation_debug", "failed_jwk_key_cooldown"],
        "it changes no answer: the gateway logs failures, and asks for unknown keys every 10 s at most",
    );
}

/// The claims that become header fields.
fn claims(keys: &ObjectKeys<'_>) -> Vec<(String, String)> {
    let Some(item) = keys.take("propagate_claims") else { return Vec::new() };
    let mut claims = Vec::new();
    for pair in item.list() {
        match pair.texts().as_slice() {
            [claim, field] => {
                let names: Vec<&str> = claim.split('.').collect();
                let path: String = names.iter().map(|name| jq::field(name)).collect();
                let value = format!(
                    "$claims{path} | if type == \"array\" then map(tostring) | join(\",\") elif type == \"object\" then tojson else . end"
                );
                let value = if claim == "sub" || claim == "email" { format!("$claims{path}") } else { value };
                claims.push((value, field.to_ascii_lowercase()));
            }
            _ => pair.report("a claim and a header field were expected", "write `[\"sub\", \"x-user\"]`"),
        }
    }
    if let Some(item) = keys.take("propagate_claims_preserve_array")
        && item.is_true()
    {
        item.report("lists in claims are sent as one header field, with commas", "");
    }
    claims
}

/// Allows each of the roles: one of them is enough.
fn roles(keys: &ObjectKeys<'_>, allow: &mut Vec<String>) {
    let roles = keys.texts("roles");
    let key = keys.filled("roles_key");
    let nested = keys.is_true("roles_key_is_nested");
    if !roles.is_empty() {
        let words = words(&claim(&key.unwrap_or_else(|| "roles".to_owned()), nested));
        allow.push(format!("({words} | any({}))", one_of(&roles)));
    }
}

fn scopes(keys: &ObjectKeys<'_>, allow: &mut Vec<String>) {
    let scopes = keys.take("scopes");
    let key = keys.filled("scopes_key");
    let matcher = keys.text("scopes_matcher");
    let Some(item) = scopes else { return };
    let scopes = item.texts();
    let Some(key) = key.filter(|_| !scopes.is_empty()) else {
        item.ignore("KrakenD checks scopes only where `scopes_key` is set");
        return;
    };
    let words = words(&claim(&key, key.contains('.')));
    allow.push(match matcher.as_deref() {
        Some("all") => format!("([{}] - {words}) == []", jq::texts(&scopes)),
        _ => format!("({words} | any({}))", one_of(&scopes)),
    });
}

fn claim(key: &str, nested: bool) -> String {
    let names: Vec<&str> = if nested { key.split('.').collect() } else { vec![key] };
    let path: String = names.iter().map(|name| format!("{}?", jq::field(name))).collect();
    format!("$claims{}", if names.len() == 1 { jq::field(names[0]) } else { path })
}

/// The words of a claim: of a list its texts, of a text what is between spaces.
fn words(claim: &str) -> String {
    format!("([{claim} // empty] | flatten | map(split(\" \")) | add // [])")
}

fn one_of(values: &[String]) -> String {
    match values {
        [value] => format!(". == {}", jq::text(value)),
        values => format!("IN({})", jq::texts(values)),
    }
}

fn unsupported(keys: &ObjectKeys<'_>) {
    let reasons = [
        (
            "cookie_key",
            "tokens are read from `authorization` only, not from a cookie",
            "let clients send `authorization`",
        ),
        ("auth_header_name", "tokens are read from `authorization` only", "let clients send `authorization`"),
        ("jwk_fingerprints", "fingerprints of certificates are not checked", "name the CA in `jwk_local_ca`"),
        ("cipher_suites", "cipher suites cannot be chosen: TLS 1.2 and 1.3 with today's suites", ""),
        ("secret_url", "keys are not decrypted", "give the keys as a JWK set"),
        ("cypher_key", "keys are not decrypted", "give the keys as a JWK set"),
    ];
    for (name, why, instead) in reasons {
        if let Some(item) = keys.take(name) {
            item.report(format!("`{name}` is not imported: {why}"), instead);
        }
    }
    if let Some(item) = keys.take("key_identify_strategy") {
        match item.text().as_deref() {
            Some("kid") | None => {}
            Some(other) => item.report(format!("keys are found by `kid`, not by `{other}`"), ""),
        }
    }
}
