//! `groups`: endpoints that have hosts and layers in common.

use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Entries, Located, Texts};

use super::endpoint::EndpointSpec;
use super::versions::VersionsSpec;
use crate::layers::{AtGroup, Layers};
use crate::route::HostPattern;

spec! {
    /// Endpoints that have something in common. What is written here holds for each of them, instead of what the document
    /// says; an endpoint may say otherwise.
    pub struct GroupSpec {
        /// The hosts that they are for, one or a list: `shop.example`, or `*.shop.example` for all names below it. A request
        /// is for the group that names its host, else for the one with the longest domain above it, else for the endpoints
        /// without hosts; ports and case do not matter. Several groups may name the same host. Where no endpoints are without
        /// hosts, a request for any other host is answered with 421.
        pub hosts: Option<Located<Texts>>,
        /// The versions that they are served in; one and without a name unless it is written.
        pub versions: Option<VersionsSpec>,
        /// What is answered, as under `endpoints` of the document.
        pub endpoints: Entries<EndpointSpec>,
    }
    group(layers: Layers<AtGroup>)
}

impl GroupSpec {
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
