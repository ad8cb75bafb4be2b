//! The upstreams: one for each list of hosts with the same settings, with the names that their hosts give them.

use super::super::yaml::{Map, Yaml};

/// The upstreams, in the order in which they are first called.
#[derive(Default)]
pub struct BackendUpstreams {
    known: Vec<BackendUpstream>,
}

struct BackendUpstream {
    name: String,
    urls: Vec<String>,
    settings: Map,
    comment: Option<String>,
}

impl BackendUpstreams {
    /// The name of the upstream with these servers and settings.
    pub fn name(&mut self, urls: &[String], settings: Map, comment: Option<&str>) -> String {
        let comment = comment.map(str::to_owned);
        let same =
            |known: &&BackendUpstream| known.urls == urls && known.settings == settings && known.comment == comment;
        if let Some(known) = self.known.iter().find(same) {
            return known.name.clone();
        }
        let base = base(urls.first().map_or("", String::as_str));
        let taken = |name: &str| self.known.iter().any(|known| known.name == name);
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(base);
        self.known.push(BackendUpstream { name: name.clone(), urls: urls.to_vec(), settings, comment });
        name
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Forgets those that were added after so many: their endpoint is not imported.
    pub fn forget(&mut self, count: usize) {
        self.known.truncate(count);
    }

    /// The `upstreams` of the configuration.
    pub fn write(&self, timeout: &str) -> Map {
        let mut map = Map::default();
        for known in &self.known {
            let mut upstream = Map::default();
            match known.urls.as_slice() {
                [url] => upstream.set("url", Yaml::text(url)),
                urls => upstream.set("servers", Yaml::texts(urls)),
            };
            upstream.set("timeout", Yaml::plain(timeout));
            for (key, value) in known.settings.iter() {
                upstream.set(key, value.clone());
            }
            if let Some(comment) = &known.comment {
                map.comment(comment);
            }
            map.set(&known.name, upstream);
        }
        map
    }
}

/// A name for a host: its first label that says something.
pub fn base(url: &str) -> String {
    let host = url.split("://").nth(1).unwrap_or(url);
    let host = host.split(['/', ':']).next().unwrap_or_default().to_ascii_lowercase();
    let is_address = host.chars().all(|letter| letter.is_ascii_digit() || letter == '.') || host.starts_with('[');
    let labels: Vec<&str> = host.split('.').filter(|label| !label.is_empty() && !label.starts_with('_')).collect();
    let word = match labels.as_slice() {
        _ if is_address => "api",
        ["localhost" | "host"] | ["host", "docker", "internal"] => "api",
        ["api" | "www", second, _, ..] => second,
        [first, ..] => first,
        [] => "api",
    };
    let word: String = word.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
    let word = word.trim_matches('-');
    if word.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        word.to_owned()
    } else {
        format!("api-{word}").trim_end_matches('-').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::base;

    #[test]
    fn hosts_give_names() {
        for (url, name) in [
            ("http://users-api:8080", "users-api"),
            ("https://api.github.com", "github"),
            ("http://127.0.0.1:8000", "api"),
            ("http://host.docker.internal:3000", "api"),
            ("http+srv://_http._tcp.shop.local", "shop"),
            ("http://7up.example", "api-7up"),
        ] {
            assert_eq!(base(url), name, "{url}");
        }
    }
}
