//! The clients that may call: `allow` and `deny`, `auth_basic`, `auth_request`.

use std::fs;

use super::call;
use super::file::NginxFile;
use super::piece::Piece;
use super::scope::Scope;
use super::variable::Variables;
use crate::yaml::{Map, Yaml};

/// Adds the settings of who may call.
pub fn read(file: &NginxFile<'_>, scope: &Scope<'_>, names: &mut Variables<'_>, map: &mut Map) {
    addresses(file, scope, map);
    let mut methods: Vec<Yaml> = Vec::new();
    if let Some(basic) = basic(file, scope) {
        methods.push(Map::of("basic", basic).into());
    }
    if let Some(forward) = forward(file, scope, names) {
        if let Some(directive) = scope.last("auth_request").filter(|_| !methods.is_empty()) {
            let why = "a password and `auth_request` together are not possible: one of them would be enough";
            file.ledger.report(directive, why, "let the service of `auth_request` check the password");
        } else {
            methods.push(Map::of("forward", forward).into());
        }
    }
    map.set_filled("authenticate", Yaml::List(methods));
}

fn addresses(file: &NginxFile<'_>, scope: &Scope<'_>, map: &mut Map) {
    let rules = scope.all(&["allow", "deny"]);
    if scope.is_closed() {
        rules.iter().for_each(|rule| file.ledger.import(rule));
        return;
    }
    let (mut allow, mut deny): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut is_limited = false;
    for rule in rules {
        let Some(network) = rule.arg(0) else { continue };
        let network = if network == "unix:" { "unix" } else { network };
        match (rule.name.as_str(), network) {
            ("allow", "all") => {
                file.ledger.import(rule);
                break;
            }
            ("deny", "all") => {
                file.ledger.import(rule);
                is_limited = true;
                break;
            }
            ("allow", network) => {
                file.ledger.import(rule);
                allow.push(network.to_owned());
            }
            (_, network) if allow.is_empty() => {
                file.ledger.import(rule);
                deny.push(network.to_owned());
            }
            _ => file.ledger.report(
                rule,
                "this network is denied behind others that are allowed; here `deny` takes precedence",
                "write `addresses` with networks that do not overlap",
            ),
        }
    }
    let mut addresses = Map::default();
    if is_limited {
        addresses.set("allow", Yaml::texts(allow));
    }
    addresses.set_filled("deny", Yaml::texts(deny));
    map.set_filled("addresses", addresses);
}

fn basic(file: &NginxFile<'_>, scope: &Scope<'_>) -> Option<Map> {
    let realm = scope.last("auth_basic")?;
    file.ledger.import(realm);
    if realm.is("off") {
        return None;
    }
    let Some(users) = scope.last("auth_basic_user_file") else {
        file.ledger.report(realm, "there is no `auth_basic_user_file`: nginx refuses everybody", "");
        return None;
    };
    let path = users.arg(0).unwrap_or_default();
    let mut basic = Map::of("users", Yaml::text(file.path(path)));
    basic.set_some("realm", realm.arg(0).filter(|realm| !realm.contains('$') && !realm.is_empty()).map(Yaml::text));
    let old = fs::read_to_string(file.real(path)).map(|text| old(&text)).unwrap_or_default();
    match old.is_empty() {
        true => file.ledger.import(users),
        false => file.ledger.report(
            users,
            format!("the passwords of {} have hashes that are not safe any more", old.join(", ")),
            "make them anew with `htpasswd -B`: bcrypt and argon2 are read",
        ),
    }
    Some(basic)
}

/// The users whose hash is neither bcrypt nor argon2.
fn old(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let users = lines.filter_map(|line| line.split_once(':'));
    users
        .filter(|(_, hash)| !hash.starts_with("$2") && !hash.starts_with("$argon2"))
        .map(|(user, _)| user.to_owned())
        .collect()
}

/// `auth_request` with the location that it names.
fn forward(file: &NginxFile<'_>, scope: &Scope<'_>, names: &mut Variables<'_>) -> Option<Map> {
    let request = scope.last("auth_request")?;
    if request.is("off") {
        file.ledger.import(request);
        return None;
    }
    let uri = request.arg(0).unwrap_or_default();
    let Some((location, inner)) = file.internal(uri) else {
        let message = format!("the location `{uri}` is not one that calls a service");
        file.ledger.report(request, message, "write `authenticate: [ { forward: { to, path } } ]`");
        return None;
    };
    file.ledger.import(location);
    for other in location.inner().iter().filter(|other| other.name == "internal") {
        file.ledger.import(other);
    }
    let pass = inner.last("proxy_pass")?;
    let whole = vec![Piece::Text(uri.to_owned())];
    let path = call::Path {
        whole: &whole,
        behind: Some(Vec::new()),
        is_rewritten: false,
        has_query: false,
        is_conditional: false,
        is_subrequest: true,
    };
    let call = call::read(file, &inner, names, pass, &path)?;
    let mut forward = Map::of("to", Yaml::text(&call.upstream));
    if call.target != "/" {
        forward.set("path", Yaml::text(&call.target));
    }
    let mut kept: Vec<String> = Vec::new();
    for set in scope.all(&["auth_request_set"]) {
        let (Some(name), Some(value)) = (set.arg(0), set.arg(1)) else { continue };
        let Some(field) = value.strip_prefix("$upstream_http_") else {
            file.ledger.report(set, "only header fields of the service's answer are kept", "see `keep` and `claims`");
            continue;
        };
        let field = field.replace('_', "-");
        file.ledger.import(set);
        let claim = Piece::Jq(format!("$claims[{}]", crate::jq::text(&field)));
        names.known.insert(name.trim_start_matches('$').to_owned(), vec![claim]);
        kept.push(field);
    }
    kept.dedup();
    forward.set_filled("keep", Yaml::texts(kept));
    file.ledger.import(request);
    Some(forward)
}
