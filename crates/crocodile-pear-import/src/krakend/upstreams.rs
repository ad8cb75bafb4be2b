//! The upstreams: one for each list of hosts with the same settings, with the names that their hosts give them.

use crate::upstream_name::{base, unused};
use crate::yaml::{Map, Yaml};

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
        let name = unused(&base, |name| self.known.iter().any(|known| known.name == name));
        self.known.push(BackendUpstream { name: name.clone(), urls: urls.to_vec(), settings, comment });
        name
    }

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
            upstream.extend(&known.settings);
            if let Some(comment) = &known.comment {
                map.comment(comment);
            }
            map.set(&known.name, upstream);
        }
        map
    }
}
