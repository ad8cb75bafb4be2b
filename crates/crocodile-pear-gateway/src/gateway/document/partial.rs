//! The readable parts of a document with errors, so that one `check` also finds the problems that only compiling shows.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Entries, Located, Node, misplaced};
use crocodile_pear::unstable::pipeline::steps::Written;

use super::endpoint::{EndpointSpec, MAX_BODY};
use super::group::GroupSpec;
use crate::layers::Layers;

/// The names of what is written and cannot be read.
#[derive(Debug, Default)]
pub struct Unread {
    pub upstreams: Vec<String>,
    pub databases: Vec<String>,
    /// Whether `authenticate` is written somewhere, readable or not.
    pub authenticates: bool,
}

/// Whether a key is written anywhere below.
pub fn names(node: &Node, key: &str) -> bool {
    let within = node.as_map().into_iter().flatten();
    within.clone().any(|(name, inner)| name.as_str() == key || names(inner, key))
        || node.as_list().into_iter().flatten().any(|item| names(item, key))
}

/// Reads a value. Its problems were reported before.
pub fn read<T: Decode>(node: &Node) -> Option<T> {
    T::decode(node, &mut Problems::default())
}

/// The entries of a map that can be read, if need be with `partial`, and the names of the others.
pub fn entries<T: Decode>(node: &Node, name: &str, partial: fn(&Node) -> Option<T>) -> (Entries<T>, Vec<String>) {
    let (mut entries, mut broken) = (Entries::new(), Vec::new());
    let mut rest = node.field(name).and_then(Node::as_map).unwrap_or_default().iter();
    while let Some((key, node)) = rest.next() {
        let inner = misplaced::<T>(node, rest.as_slice()).len();
        rest.by_ref().take(inner).for_each(drop);
        match read(node).or_else(|| partial(node)) {
            Some(entry) => drop(entries.insert(key.value.clone(), (key.span, entry))),
            None => broken.push(key.value.clone()),
        }
    }
    (entries, broken)
}

/// An endpoint whose pipeline is a list: its steps, and the settings without errors.
pub fn endpoint(node: &Node) -> Option<EndpointSpec> {
    // A list in the place of the endpoint is meant as its pipeline.
    let steps = node.as_list().or_else(|| node.field("pipeline")?.as_list())?;
    let step = |step: &Node| read(step).unwrap_or_else(|| Located::new(Written::Unread, step.span));
    Some(EndpointSpec {
        pipeline: steps.iter().map(step).collect(),
        max_body: node.field("max_body").and_then(read).unwrap_or(Located::new(MAX_BODY, Default::default())),
        upgrade: node.field("upgrade").and_then(read),
        stream: node.field("stream").and_then(read).unwrap_or_default(),
        body: node.field("body").and_then(read).unwrap_or_default(),
        links: node.field("links").and_then(read),
        detach: node.field("detach").and_then(read),
        layers: Layers::partial(node),
    })
}

/// A group whose errors are all in its endpoints or layers. Without its hosts it would be served in another place.
pub fn group(node: &Node) -> Option<GroupSpec> {
    let known = GroupSpec::fields();
    let is_known = |name: &str| known.iter().any(|field| field.name == name);
    let all_known = node.as_map()?.iter().all(|(key, _)| is_known(key.as_str()));
    let (endpoints, _) = entries(node, "endpoints", endpoint);
    all_known.then_some(GroupSpec {
        hosts: node.field("hosts").map_or(Some(None), read)?,
        versions: node.field("versions").map_or(Some(None), read)?,
        endpoints,
        locked: node.field("locked").and_then(read).unwrap_or_default(),
        layers: Layers::partial(node),
    })
}
