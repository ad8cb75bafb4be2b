//! The hosts of a backend as URLs of servers.

use super::keys::Item;

/// Where a backend's servers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// The hosts are written.
    Static,
    /// The hosts are names of SRV records.
    Dns,
}

/// The URLs; none if a host cannot be used, which is reported.
pub fn urls(item: &Item<'_>, discovery: Discovery, scheme: &str) -> Option<Vec<String>> {
    let mut urls = Vec::new();
    for host in item.texts() {
        match url(&host, discovery, scheme) {
            Ok(url) => urls.push(url),
            Err(why) => {
                item.report(format!("the host {host:?} {why}"), "write `http://HOST:PORT` or `https://HOST`");
                return None;
            }
        }
    }
    (!urls.is_empty()).then_some(urls)
}

fn url(host: &str, discovery: Discovery, scheme: &str) -> Result<String, &'static str> {
    let (given, rest) = match host.split_once("://") {
        Some((given, rest)) => (given, rest),
        None => (if discovery == Discovery::Dns { scheme } else { "http" }, host),
    };
    if given != "http" && given != "https" {
        return Err("is not called over HTTP");
    }
    let rest = rest.trim_end_matches('/');
    let (name, path) = rest.split_once('/').map_or((rest, ""), |(name, path)| (name, path));
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-:[]".contains(letter);
    if name.is_empty() || !name.chars().all(fits) {
        return Err("is not a host name");
    }
    if path.contains([' ', '?', '#', '{', '}']) {
        return Err("has a path that is none");
    }
    let given = if discovery == Discovery::Dns { format!("{given}+srv") } else { given.to_owned() };
    Ok(format!("{given}://{rest}"))
}

#[cfg(test)]
mod tests {
    use super::{Discovery, url};

    #[test]
    fn hosts_are_urls_of_servers() {
        assert_eq!(url("api:80", Discovery::Static, "http").as_deref(), Ok("http://api:80"));
        assert_eq!(url("https://a.example/", Discovery::Static, "http").as_deref(), Ok("https://a.example"));
        assert_eq!(url("a.local", Discovery::Dns, "https").as_deref(), Ok("https+srv://a.local"));
        assert!(url("my host", Discovery::Static, "http").is_err());
        assert!(url("amqp://a", Discovery::Static, "http").is_err());
        assert!(url("", Discovery::Static, "http").is_err());
    }
}
