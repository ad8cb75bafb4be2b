//! The URL of an upstream, as it is written.

use http::Uri;

use crate::config::problem::Problems;
use crate::config::spec::Located;

/// The text to write instead of a Unix socket in a URL, as other programs write it: `http://unix:/run/app.sock:/api`, `unix//run/app.sock`.
fn habit(text: &str) -> Option<String> {
    const FORMS: [&str; 3] = ["unix//", "unix://", "unix:"];
    let (scheme, rest) = text.split_once("://unix:").map_or(("http", text), |(scheme, _)| (scheme, text));
    let rest = rest.strip_prefix("http://").or_else(|| rest.strip_prefix("https://")).unwrap_or(rest);
    let rest = FORMS.iter().find_map(|form| rest.strip_prefix(form))?;
    let (socket, path) = rest.split_once(':').unwrap_or((rest, ""));
    let socket = socket.trim_matches('/');
    Some(format!("write `url: {scheme}://localhost{path}` and `socket: /{socket}`"))
}

/// The end of the scheme of a URL that names a DNS service.
const SERVICE: &str = "+srv://";

/// Whether it names a DNS service instead of a server: `http+srv://_api._tcp.example.com`.
pub(crate) fn is_service(text: &str) -> bool {
    text.strip_prefix("http").is_some_and(|rest| rest.trim_start_matches('s').starts_with(SERVICE))
}

/// The URL of a DNS service, its name as the host.
pub(crate) fn service(written: &Located<String>, problems: &mut Problems) -> Option<Uri> {
    let plain =
        Located { value: written.value.replacen(SERVICE, "://", 1), span: written.span, runs: written.runs.clone() };
    let uri = url(&plain, problems)?;
    let host = uri.host().unwrap_or_default();
    if uri.port().is_some() {
        return problems.error(written.span, "the records of a service say the ports", "leave the port out");
    }
    if !host.starts_with('_') || host.split('.').nth(1).is_none_or(|protocol| !protocol.starts_with('_')) {
        let remedy = "its name begins with the service and the protocol: `http+srv://_api._tcp.example.com`";
        return problems.error(written.span, "this is not the name of a DNS service", remedy);
    }
    Some(uri)
}

/// Reads it; what is wrong is noted.
pub(crate) fn url(written: &Located<String>, problems: &mut Problems) -> Option<Uri> {
    let wrong = |message: &str, remedy: &str, problems: &mut Problems| {
        problems.error(written.span, message.to_owned(), remedy.to_owned())
    };
    if problems.found_within(written.span) {
        return None;
    }
    if let Some(remedy) = habit(written.as_str()) {
        return wrong("a URL has no Unix socket in it", &remedy, problems);
    }
    let remedy = remedy(written.as_str());
    let remedy = remedy.as_str();
    let Ok(uri) = written.value.parse::<Uri>() else { return wrong("this is not a URL", remedy, problems) };
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some("http+srv" | "https+srv") => {
            let remedy = "write it as the `url` of the upstream, without other servers";
            return wrong("a DNS service cannot be beside other servers, or here", remedy, problems);
        }
        Some(_) => return wrong("only http and https URLs can be called", remedy, problems),
        None => return wrong("the URL has no scheme", remedy, problems),
    }
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => {
            wrong("a URL must not contain credentials", "send them as a header of the call", problems)
        }
        Some(authority) if authority.host().is_empty() => wrong("the URL has no host", remedy, problems),
        Some(authority) if authority.as_str().contains('$') => {
            wrong("a variable is written with braces", remedy, problems)
        }
        Some(authority) if authority.as_str().len() > authority.host().len() && authority.port_u16().is_none() => {
            wrong("the port must be a number up to 65535", remedy, problems)
        }
        _ if uri.query().is_some() => {
            wrong("an upstream's URL must not have a query", "write it in the path of the call", problems)
        }
        Some(_) => Some(uri),
        None => wrong("the URL has no host", remedy, problems),
    }
}

/// Whether a host is this machine: what is said to it crosses no network.
pub fn is_here(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = bare.trim_end_matches('.').to_ascii_lowercase();
    let address = bare.parse::<std::net::IpAddr>().map(|address| address.to_canonical());
    name == "localhost" || name.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Warns of `http` to another machine, where whoever is on the way can read and change what decides who is let in.
pub fn warn_of_clear(written: &Located<String>, what: &str, problems: &mut Problems) {
    let clear = written.value.parse::<Uri>().ok().filter(|uri| uri.scheme_str() == Some("http"));
    if clear.is_some_and(|uri| uri.host().is_some_and(|host| !is_here(host))) {
        let message = format!("{what} over `http`: anybody on the way can read and change them");
        problems.warning(written.span, message, "write an `https://` URL");
    }
}

/// The text to write instead of one that is not the URL of an upstream.
fn remedy(text: &str) -> String {
    const FORM: &str = "write it as `http://host:port/path`";
    if text.contains("${") {
        return "a variable has capitals, digits and `_`: `${HOST}`".to_owned();
    }
    if let Some((_, rest)) = text.split_once("{{") {
        // `{{ env "HOST" }}`, `{{ .Env.HOST }}`
        let mut words = rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        if let Some(name) = words.find(|word| !["env", "values"].iter().any(|other| word.eq_ignore_ascii_case(other))) {
            return format!("write `${{{}}}`", name.to_uppercase());
        }
    }
    if let Some((_, rest)) = text.split_once('$') {
        let name = &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())];
        return format!("write `${{{}}}`", name.to_uppercase());
    }
    let place = text.split_once("//").map_or(text, |(_, place)| place);
    let named = place.contains(['.', ':']) || place.starts_with("localhost");
    match named && !text.contains("://") && format!("http://{place}").parse::<Uri>().is_ok() {
        true => format!("write `http://{place}`"),
        false => FORM.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::url::*;

    #[test]
    fn only_this_machine_is_here() {
        for host in ["localhost", "LOCALHOST", "a.localhost", "localhost.", "127.0.0.1", "127.8.9.1", "[::1]", "::1"] {
            assert!(is_here(host), "{host}");
        }
        for host in ["localhost.test", "notlocalhost", "10.0.0.1", "0.0.0.0", "[::]", "128.0.0.1", "issuer.test", ""] {
            assert!(!is_here(host), "{host}");
        }
    }
}
