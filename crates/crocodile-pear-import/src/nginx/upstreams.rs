//! The upstreams: one for each list of servers with the same settings.

use crate::upstream_name::unused;
use crate::yaml::Map;

/// The upstreams, in the order in which they are first called.
#[derive(Default)]
pub struct ProxyUpstreams {
    known: Vec<ProxyUpstream>,
}

struct ProxyUpstream {
    name: String,
    /// Where it is: `url`, `servers`, `socket`, `balance`.
    place: Map,
    settings: Map,
}

impl ProxyUpstreams {
    /// The name of the upstream in this place with these settings.
    pub fn name(&mut self, wanted: &str, place: &Map, settings: Map) -> String {
        let same = |known: &&ProxyUpstream| known.place == *place && known.settings == settings;
        if let Some(known) = self.known.iter().find(same) {
            return known.name.clone();
        }
        let name = unused(wanted, |name| self.known.iter().any(|known| known.name == name));
        self.known.push(ProxyUpstream { name: name.clone(), place: place.clone(), settings });
        name
    }

    /// The `defaults` and the `upstreams` of the configuration.
    pub fn write(&self) -> (Map, Map) {
        let mut defaults = Map::default();
        if let [first, _, ..] = self.known.as_slice() {
            for (key, value) in first.settings.iter() {
                if self.known.iter().all(|known| known.settings.get(key) == Some(value)) {
                    defaults.set(key, value.clone());
                }
            }
        }
        let mut map = Map::default();
        for known in &self.known {
            let mut upstream = known.place.clone();
            for (key, value) in known.settings.iter().filter(|(key, _)| defaults.get(key).is_none()) {
                upstream.set(key, value.clone());
            }
            match upstream.get("url").filter(|_| upstream.len() == 1) {
                Some(url) => map.set(&known.name, url.clone()),
                None => map.set(&known.name, upstream),
            };
        }
        (defaults, map)
    }
}

/// Whether a host can be one: letters, digits, `.`, `-`, `_`, or an address.
pub fn is_host(host: &str) -> bool {
    !host.is_empty() && host.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-_:[]%".contains(letter))
}
