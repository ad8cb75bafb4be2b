//! `access_log` and `log_format`: the access log.

use super::file::NginxFile;
use super::parse::Directive;
use super::scope::Scope;
use crate::jq;
use crate::yaml::{Map, Yaml};

/// The `log` of the configuration; `silent` are the endpoints whose requests are not logged.
pub fn read(file: &NginxFile<'_>, scopes: &[Scope<'_>], silent: &[String]) -> Map {
    let mut format = None;
    let mut to = None;
    let mut is_on = scopes.is_empty();
    for scope in scopes {
        let directives = scope.all(&["access_log"]);
        is_on |= directives.is_empty();
        for directive in directives {
            if directive.is("off") {
                file.ledger.import(directive);
                continue;
            }
            is_on = true;
            let path = directive.arg(0).unwrap_or_default();
            match path.strip_prefix("syslog:server=") {
                Some(server) => {
                    let server = server.split(',').next().unwrap_or_default();
                    to = Some(match server.strip_prefix("unix:") {
                        Some(socket) => format!("syslog:{socket}"),
                        None if server.contains(':') => format!("syslog://{server}"),
                        None => format!("syslog://{server}:514"),
                    });
                    file.ledger.import(directive);
                }
                None if path.starts_with("/dev/std") => file.ledger.import(directive),
                None => {
                    let remedy = "write `to` in `log.access`";
                    file.ledger.remark(directive, "the access log goes to standard error", remedy);
                }
            }
            if directive.texts().any(|word| word.starts_with("if=")) {
                let remedy = "write `when` in `log.access`";
                file.ledger.report(directive, "the condition of the log is not imported", remedy);
            }
            let name = directive.arg(1).filter(|name| !name.contains('='));
            format = format.or(name.and_then(|name| file.formats.get(name)).map(|block| self::format(file, block)));
        }
    }
    if !is_on {
        return Map::default();
    }
    let format = format.flatten().unwrap_or_else(|| "combined".to_owned());
    let mut access = Map::default();
    if to.is_some() || !silent.is_empty() {
        access.set("format", Yaml::text(&format));
    }
    access.set_some("to", to.as_ref().map(Yaml::text));
    if !silent.is_empty() {
        let when = match silent {
            [one] => format!("$route != {}", jq::text(one)),
            several => format!("$route | IN({}) | not", jq::texts(several)),
        };
        access.set("when", Yaml::text(when));
    }
    if access.is_empty() { Map::of("access", Yaml::text(format)) } else { Map::of("access", access) }
}

/// A `log_format` as ours; none if it is the usual one, or cannot be imported.
fn format(file: &NginxFile<'_>, directive: &Directive) -> Option<String> {
    let parts: Vec<&str> = directive.texts().skip(1).collect();
    let text: String = parts.iter().filter(|part| !part.starts_with("escape=")).copied().collect();
    if text.trim_start().starts_with('{') || parts.contains(&"escape=json") {
        file.ledger.remark(directive, "lines are JSON, with the field names of OpenTelemetry", "");
        return Some("json".to_owned());
    }
    let usual = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#;
    match text.strip_prefix(usual) {
        Some("") => file.ledger.import(directive),
        Some(_) => file.ledger.remark(
            directive,
            "what stands behind the usual fields is not logged",
            "write a `format` of your own",
        ),
        None => file.ledger.remark(
            directive,
            "lines are `combined`",
            "write `log: { access: '{$status} {$method} {$target}' }`",
        ),
    }
    None
}
