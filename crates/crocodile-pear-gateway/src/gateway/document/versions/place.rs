//! Which endpoints there are in which version, and where each is served.

use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Entries, Located, suggest};
use http::HeaderValue;
use indexmap::IndexMap;

use super::check::check;
use super::spec::{AdaptSpec, Differing, OlderSpec, VersionsSpec};
use crate::gateway::document::endpoint::EndpointSpec;
use crate::http::version::{ApiVersion, Chooser, Successor, Versioned};

/// An endpoint at one of the places where it is served.
pub struct Placed<'a> {
    /// The name as it is written.
    pub written: Located<String>,
    pub spec: &'a EndpointSpec,
    /// The changes of older versions, from the oldest to the newest.
    pub adapts: Vec<&'a AdaptSpec>,
    /// The prefix of its path.
    pub prefix: String,
    /// Its version, if it has some.
    pub versioned: Option<Arc<Versioned>>,
    /// Whether it is the same as in the version above it.
    pub same: bool,
}

/// The versions of a group, ready.
pub struct Api {
    /// How requests name them.
    pub chooser: Arc<Chooser>,
    pub group: Arc<str>,
    /// From the newest to the oldest.
    pub versions: Vec<Arc<ApiVersion>>,
}

/// The endpoints of one version, by what requests they serve.
type Edition<'a> = IndexMap<String, VersionedEndpoint<'a>>;

#[derive(Clone)]
struct VersionedEndpoint<'a> {
    written: Located<String>,
    spec: &'a EndpointSpec,
    /// From the newest to the oldest.
    adapts: Vec<&'a AdaptSpec>,
    same: bool,
}

/// The endpoints of a group without versions.
pub fn plain(endpoints: &Entries<EndpointSpec>) -> Vec<Placed<'_>> {
    endpoints
        .iter()
        .map(|(name, (span, spec))| Placed {
            written: Located::new(name.clone(), *span),
            spec,
            adapts: Vec::new(),
            prefix: String::new(),
            versioned: None,
            same: false,
        })
        .collect()
}

impl VersionsSpec {
    /// Makes the versions ready; every problem is noted.
    pub fn compile(&self, group: &str, problems: &mut Problems) -> Option<Api> {
        check(self, problems)?;
        let mut versions = vec![Arc::new(ApiVersion::new(&self.current.value))];
        versions.extend(self.older.iter().map(|(name, (_, older))| Arc::new(older.version(name))));
        let names: Vec<Arc<str>> = versions.iter().map(|version| version.name.clone()).collect();
        let mut chooser = Chooser { selectors: self.by.0.clone(), names, default: None };
        chooser.default = self.default.as_ref().and_then(|name| chooser.index(name.as_str()));
        Some(Api { chooser: Arc::new(chooser), group: group.into(), versions })
    }

    /// The endpoints of all versions, at every place where they are served; and whether no problem was found.
    pub fn place<'a>(
        &'a self,
        api: &Api,
        endpoints: &'a Entries<EndpointSpec>,
        problems: &mut Problems,
    ) -> (Vec<Placed<'a>>, Option<()>) {
        let (editions, sound) = self.editions(endpoints, problems);
        let mut placed = Vec::new();
        for index in 0..editions.len() {
            if let Some(prefix) = api.chooser.prefix(&api.versions[index].name) {
                place(api, &editions, index, Some(prefix), &mut placed);
            }
            if api.chooser.serves_bare(index) {
                place(api, &editions, index, None, &mut placed);
            }
        }
        (placed, sound)
    }

    fn editions<'a>(
        &'a self,
        endpoints: &'a Entries<EndpointSpec>,
        problems: &mut Problems,
    ) -> (Vec<Edition<'a>>, Option<()>) {
        let newest = endpoints.iter().map(|(name, (span, spec))| {
            (
                key(name),
                VersionedEndpoint { written: Located::new(name.clone(), *span), spec, adapts: Vec::new(), same: false },
            )
        });
        let mut editions = vec![newest.collect::<Edition<'a>>()];
        let mut sound = Some(());
        for (name, (span, older)) in &self.older {
            let mut edition = editions.last().cloned().unwrap_or_default();
            edition.values_mut().for_each(|entry| entry.same = true);
            let differs = older.differ(&mut edition, problems);
            if differs.is_some() && edition.is_empty() {
                let remedy = "leave out the version, or one `off`";
                problems.error::<()>(*span, format!("the version `{name}` has no endpoints"), remedy);
                sound = None;
            }
            sound = differs.and(sound);
            editions.push(edition);
        }
        (editions, sound)
    }
}

/// Adds the endpoints of a version at one place.
fn place<'a>(api: &Api, editions: &[Edition<'a>], index: usize, prefix: Option<String>, placed: &mut Vec<Placed<'a>>) {
    for (key, entry) in &editions[index] {
        let newer = index.checked_sub(1).filter(|newer| editions[*newer].contains_key(key));
        let successor = newer.map(|newer| {
            let name = &api.versions[newer].name;
            let query = || api.chooser.query().map(|parameter| Successor::Query(parameter.to_owned(), name.clone()));
            let segments = prefix.as_deref().map_or(0, |prefix| prefix.matches('/').count());
            let path = || api.chooser.prefix(name).map(|next| Successor::Prefix(segments, next));
            path().or_else(query).unwrap_or(Successor::Same)
        });
        let (group, version, chooser) = (api.group.clone(), api.versions[index].clone(), api.chooser.clone());
        placed.push(Placed {
            written: entry.written.clone(),
            spec: entry.spec,
            adapts: entry.adapts.iter().rev().copied().collect(),
            prefix: prefix.clone().unwrap_or_default(),
            versioned: Some(Arc::new(Versioned {
                group,
                version,
                chooser,
                index,
                by_path: prefix.is_some(),
                successor,
            })),
            same: entry.same,
        });
    }
}

impl OlderSpec {
    fn version(&self, name: &str) -> ApiVersion {
        let page = self.documentation.as_ref();
        ApiVersion {
            deprecated: self.deprecated.as_ref().map(|date| date.value.clone()),
            sunset: self.sunset.as_ref().map(|date| date.value.clone()),
            documentation: page.and_then(|page| HeaderValue::try_from(format!("<{page}>; rel=\"deprecation\"")).ok()),
            ..ApiVersion::new(name)
        }
    }

    /// Changes the endpoints of the newer version into those of this one.
    fn differ<'a>(&'a self, edition: &mut Edition<'a>, problems: &mut Problems) -> Option<()> {
        let mut sound = Some(());
        for (name, (span, differing)) in &self.endpoints {
            let key = key(name);
            let written = Located::new(name.clone(), *span);
            match (differing, edition.get_mut(&key)) {
                (Differing::Own(spec), _) => {
                    edition.insert(key, VersionedEndpoint { written, spec, adapts: Vec::new(), same: false });
                }
                (Differing::Off, Some(_)) => drop(edition.shift_remove(&key)),
                (Differing::Adapted(_), Some(entry)) if entry.spec.upgrade.is_some() => {
                    let message = format!("`{name}` has `upgrade`: what passes after it cannot be changed");
                    let remedy = "write an endpoint of its own here, or `off`; or leave this out, and it is the same";
                    sound = problems.error(*span, message, remedy);
                }
                (Differing::Adapted(spec), Some(entry)) => {
                    entry.adapts.push(spec);
                    entry.same = false;
                }
                (_, None) => {
                    let known = edition.values().map(|entry| entry.written.as_str());
                    let remedy = match suggest(name, known) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "write it as the group's `endpoints` have it, or as an endpoint of its own".to_owned(),
                    };
                    sound = problems.error(*span, format!("no newer version has the endpoint `{name}`"), remedy);
                }
            }
        }
        sound
    }
}

/// An endpoint by what requests it serves: the names of parameters do not matter.
fn key(written: &str) -> String {
    let (method, path) = written.split_once(' ').map_or(("", written), |(method, path)| (method, path.trim()));
    let segments = path.split('/').map(|segment| match segment.strip_prefix('{') {
        Some(rest) if rest.starts_with('*') => "{*}",
        Some(_) => "{}",
        None => segment,
    });
    format!("{method} {}", segments.collect::<Vec<_>>().join("/"))
}
