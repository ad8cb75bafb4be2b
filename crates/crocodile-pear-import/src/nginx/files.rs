//! `root`, `alias`, `try_files` and `index`: files.

use super::call::ProxyCall;
use super::file::NginxFile;
use super::parse::Directive;
use super::regex::RegexRoute;
use super::scope::Scope;
use super::settings::EndpointDraft;
use crate::yaml::{Map, Yaml};

/// Adds files to an endpoint. Whether there are any, or an answer in their place. `hidden` is a location that is not imported,
/// and that gives out none of its files.
pub fn read<'d>(
    file: &NginxFile<'_>,
    scope: &Scope<'_>,
    route: &RegexRoute,
    endpoint: &mut EndpointDraft,
    (named, hidden): (impl Fn(&str) -> Option<(ProxyCall, Map)>, impl Fn() -> Option<&'d Directive>),
) -> bool {
    let ledger = file.ledger;
    let attempts = scope.last("try_files");
    let last = attempts.and_then(|directive| directive.args.last()).map(|word| word.text.as_str());
    let only_named = attempts.is_some_and(|directive| {
        let mut before = directive.texts().take(directive.args.len().saturating_sub(1));
        before.all(|word| !word.starts_with("$uri") && !word.starts_with("$request_uri"))
    });
    if let Some(call) = last.and_then(|last| last.strip_prefix('@')).map(&named) {
        let Some((call, settings)) = call else {
            attempts.iter().for_each(|directive| {
                ledger.report(directive, "its named location is not imported", "write a `pipeline` beside `files`");
            });
            return false;
        };
        if call.upgrades {
            endpoint.settings.set("upgrade", Yaml::text("websocket"));
        }
        endpoint.body = Some(call.write());
        if only_named || folder(file, scope, route).is_none() {
            // Header fields of the answer and its compression are those of the named location.
            let mut own = Map::default();
            for (key, value) in endpoint.settings.iter().filter(|(key, _)| !matches!(*key, "headers" | "compress")) {
                own.set(key, value.clone());
            }
            own.extend(&settings);
            endpoint.settings = own;
            attempts.iter().for_each(|directive| ledger.import(directive));
            return true;
        }
    }
    let Some(folder) = folder(file, scope, route) else {
        let own = scope.own();
        if own.iter().any(|directive| directive.name == "try_files") {
            attempts.iter().for_each(|directive| {
                ledger.report(directive, "there is no `root` that is imported", "write `files` at the endpoint");
            });
            return false;
        }
        // nginx looks in a folder of its own, which has no such file.
        endpoint.settings.set("body", Yaml::plain("ignore"));
        endpoint.body = Some(super::answer::respond(404, Map::default(), None));
        return true;
    };
    if let (Some(root), Some(hidden)) = (root(scope), hidden()) {
        let those = hidden.texts().collect::<Vec<_>>().join(" ");
        let why =
            format!("the location `{those}` is not imported, and nginx serves none of its files: they would be public");
        ledger.report(root, why, "write `files` with a folder that has none of these files");
        return false;
    }
    let mut files = Map::of("folder", Yaml::text(&folder));
    if let Some(index) = scope.last("index") {
        match index.arg(0).filter(|name| !name.contains(['$', '/'])) {
            Some(name) => {
                match index.args.len() > 1 && name != "index.html" {
                    true => ledger.remark(index, format!("`{name}` alone stands for a folder"), ""),
                    false => ledger.import(index),
                }
                if name != "index.html" {
                    files.set("index", Yaml::text(name));
                }
            }
            None => ledger.report(index, "the file is not imported", "write `index` in `files`"),
        }
    }
    if let Some(directive) = attempts {
        let known =
            |word: &&str| matches!(*word, "$uri" | "$uri/" | "$uri/index.html" | "$request_uri" | "$uri/index.htm");
        let before: Vec<&str> = directive.texts().take(directive.args.len().saturating_sub(1)).collect();
        let last = last.unwrap_or_default();
        let fallback = last.strip_prefix(&route.literal).or_else(|| last.strip_prefix('/')).unwrap_or(last);
        let is_file = !fallback.is_empty() && !last.contains('$') && !last.starts_with(['@', '=']);
        match () {
            () if !before.iter().all(&known) => {
                let why = "other attempts than `$uri` and `$uri/` are not imported";
                ledger.report(directive, why, "see `fallback` of `files`");
            }
            () if last == "=404" || last.starts_with('@') || known(&last) => ledger.import(directive),
            () if is_file && !fallback.contains('/') && !last.ends_with(".php") => {
                ledger.import(directive);
                files.set("fallback", Yaml::text(fallback));
            }
            () => ledger.report(directive, format!("`{last}` is not imported"), "see `fallback` of `files`"),
        }
    }
    match files.len() {
        1 => endpoint.settings.set("files", Yaml::text(folder)),
        _ => endpoint.settings.set("files", files),
    };
    true
}

fn root<'a>(scope: &Scope<'a>) -> Option<&'a Directive> {
    let own = scope.own().iter().rfind(|directive| directive.name == "alias");
    own.or_else(|| scope.last("root"))
}

/// The folder of a location, or its file.
fn folder(file: &NginxFile<'_>, scope: &Scope<'_>, route: &RegexRoute) -> Option<String> {
    let directive = root(scope)?;
    let written = directive.arg(0)?;
    if written.contains('$') {
        let remedy = "write `files` with the folder";
        file.ledger.report(directive, "a folder that a variable names is not imported", remedy);
        return None;
    }
    file.ledger.import(directive);
    let base = file.path(written);
    if directive.name == "alias" || route.literal == "/" && route.has_rest {
        let trimmed = base.trim_end_matches('/');
        return Some(if trimmed.is_empty() { "/".to_owned() } else { trimmed.to_owned() });
    }
    let inside = route.literal.trim_matches('/');
    Some(format!("{}/{inside}", base.trim_end_matches('/')))
}
