//! Compiles the access log from its settings.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use crocodile_pear::unstable::config::spec::{Located, suggest};
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;

use super::{Access, AccessLogFormat, AccessLogSpec, Condition, entry, template};
use crate::layer::Compile;
use crate::telemetry::line_writer::Destination;

const FORMATS: [&str; 4] = ["text", "json", "common", "combined"];

/// The default port of syslog (RFC 5426, 3.3).
const SYSLOG: u16 = 514;

impl AccessLogSpec {
    /// Checks and compiles it; every problem is noted. `usual` is the default format.
    pub fn compile(&self, usual: &str, cx: &mut Compile<'_>) -> Option<Access> {
        let format = match &self.format {
            Some(written) => format(written, cx),
            None => named(usual),
        };
        let to = destination(&self.to, cx);
        let when = self.when.as_ref().map(|when| cx.condition(when, &entry::VARIABLES));
        let user = self.user.as_ref().map(|user| cx.filter(user, &[]));
        let rest = match (self.sample, &self.when) {
            (Some(share), _) => share.0,
            (None, None) => 1.0,
            (None, Some(_)) => 0.0,
        };
        let sample = (rest * (1u64 << 32) as f64).round() as u64;
        let when = match when {
            Some(filter) => Some(Condition { filter: filter?, failures: LogLimiter::default() }),
            None => None,
        };
        let user = match user {
            Some(filter) => Some(filter?),
            None => None,
        };
        let (format, to) = (format?, to?);
        Some(Access {
            format,
            journal: cx.services.persistent.journals.journal(&to),
            when,
            sample,
            user,
            query: self.query,
        })
    }
}

fn named(word: &str) -> Option<AccessLogFormat> {
    Some(match word {
        "text" => AccessLogFormat::Text,
        "json" => AccessLogFormat::Json,
        "common" => AccessLogFormat::Common,
        "combined" => AccessLogFormat::Combined,
        _ => return None,
    })
}

fn format(written: &Located<String>, cx: &mut Compile<'_>) -> Option<AccessLogFormat> {
    let text = written.as_str();
    if let Some(format) = named(text) {
        return Some(format);
    }
    if !text.contains(['{', '}']) {
        let remedy = match suggest(text, FORMATS) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "write `on`, `off`, `text`, `json`, `common`, `combined`, or a text with expressions in braces: '{$status} {$target}'"
                .to_owned(),
        };
        return cx.problems.error(written.span, format!("no format is named `{written}`"), remedy);
    }
    if text.trim_end().contains('\n') {
        return cx.problems.error(written.span, "a line of the access log has one line", "write it on one line");
    }
    template::compile(written, cx).map(AccessLogFormat::Template)
}

fn destination(written: &Located<String>, cx: &mut Compile<'_>) -> Option<Destination> {
    let text = written.as_str();
    match text {
        "stderr" => return Some(Destination::Stderr),
        "syslog" => return Some(Destination::Syslog(PathBuf::from("/dev/log"))),
        _ => {}
    }
    if let Some(address) = text.strip_prefix("syslog://") {
        return remote(address, written, cx);
    }
    if let Some(path) = text.strip_prefix("syslog:") {
        if !path.starts_with('/') {
            let remedy = format!("write `syslog:/{path}` for a socket, or `syslog://{path}` for a host");
            return cx.problems.error(written.span, format!("`{path}` is not an absolute path"), remedy);
        }
        return Some(Destination::Syslog(path.into()));
    }
    file(written, cx)
}

fn remote(address: &str, written: &Located<String>, cx: &mut Compile<'_>) -> Option<Destination> {
    let whole = match address.parse::<Ipv6Addr>() {
        Ok(bare) => format!("[{bare}]:{SYSLOG}"),
        Err(_) if address.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']')) => address.to_owned(),
        Err(_) => format!("{address}:{SYSLOG}"),
    };
    let (host, port) = whole.rsplit_once(':').unwrap_or_default();
    if host.is_empty() || host.contains(['/', '@', ' ']) || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        let remedy = "write `syslog://HOST` or `syslog://HOST:PORT`";
        return cx.problems.error(written.span, format!("`{written}` is not the address of a syslog daemon"), remedy);
    }
    Some(Destination::RemoteSyslog(whole))
}

fn file(written: &Located<String>, cx: &mut Compile<'_>) -> Option<Destination> {
    let text = written.as_str();
    if let Some((scheme, _)) = text.split_once("://") {
        let remedy = "write `stderr`, `syslog`, `syslog://HOST:PORT`, or the path of a file";
        return cx.problems.error(written.span, format!("the access log cannot be sent by `{scheme}`"), remedy);
    }
    // A single word is more likely a mistake than a file.
    if text.is_empty() || !text.contains(['/', '.']) {
        let remedy = match suggest(text, ["stderr", "syslog"]) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write `stderr`, `syslog`, or the path of a file: `./{text}`"),
        };
        return cx.problems.error(written.span, format!("the access log cannot be written to `{text}`"), remedy);
    }
    let path = (cx.services.paths)(written);
    if path.is_dir() {
        let remedy = format!("name a file in it: `{}/access.log`", text.trim_end_matches('/'));
        return cx.problems.error(written.span, format!("`{text}` is a folder"), remedy);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir());
    if let Some(folder) = folder {
        let remedy = format!("make it before the gateway runs: `mkdir -p {}`", folder.display());
        cx.problems.warning(written.span, format!("there is no folder `{}`", folder.display()), remedy);
    }
    Some(Destination::File(path))
}
