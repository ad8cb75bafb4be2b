//! `groups`: endpoints that have hosts and layers in common.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Entries, Located, Texts};
use crocodile_pear::unstable::spec;

use super::endpoint::EndpointSpec;
use super::versions::VersionsSpec;
use crate::http::route::HostPattern;
use crate::layers::{AtGroup, Layers};

spec! {
    /// Endpoints that share hosts or settings. A setting of the group applies to all its endpoints and replaces the
    /// top-level one. An endpoint can override it.
    pub struct GroupSpec {
        /// The hosts of these endpoints, one or a list: `shop.example`, or `*.shop.example` for all names below it. A
        /// request goes to the group that names its host, otherwise to the one with the longest domain above it,
        /// otherwise to the endpoints without hosts. Ports and case do not matter. Several groups may name the same
        /// host. If there are no endpoints without hosts, a request for any other host gets 421.
        pub hosts: Option<Located<Texts>>,
        /// The versions of these endpoints. Default: one version, without a name.
        pub versions: Option<VersionsSpec>,
        /// The endpoints of the group, written as under the top-level `endpoints`.
        pub endpoints: Entries<EndpointSpec>,
        /// The settings of the group that its endpoints can neither replace nor switch off.
        pub locked: Vec<Located<String>> = Vec::new(),
    }
    group(layers: Layers<AtGroup>)
}

impl GroupSpec {
    /// Whether clients of an endpoint of it are authenticated, if those outside of it are or are not.
    pub fn authenticates(&self, outside: bool) -> bool {
        let own = self.layers.authenticates().unwrap_or(outside);
        self.endpoints.values().any(|(_, spec)| spec.layers.authenticates().unwrap_or(own))
    }

    /// The hosts; none, where it is for all that no other names. What is wrong is noted.
    pub fn hosts(&self, problems: &mut Problems) -> Option<Vec<HostPattern>> {
        let Some(Located { value: Texts(written), span, .. }) = &self.hosts else { return Some(Vec::new()) };
        if written.is_empty() {
            let remedy =
                "name one, or leave out `hosts`: a group without it serves every host that no other group names";
            return problems.error(*span, "there is no host in this list", remedy);
        }
        let mut hosts: Vec<HostPattern> = Vec::new();
        let mut sound = Some(());
        for text in written {
            match HostPattern::parse(text, problems) {
                Some(host) if hosts.contains(&host) => {
                    sound = problems.error(text.span, format!("`{text}` is written twice"), "leave out one");
                }
                Some(host) => hosts.push(host),
                None => sound = None,
            }
        }
        sound.map(|()| hosts)
    }
}
