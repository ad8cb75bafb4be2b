//! `locked`: settings that endpoints and groups can neither replace nor switch off.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Group, Located, Node, suggest};

use crate::layers::{AtDocument, AtEndpoint, Layers};

const LOCKED: &str = "locked";
const HEADERS: &str = "headers";

/// Notes where a locked setting is written further in.
pub fn check(node: &Node, problems: &mut Problems) {
    let document = locks(node, &lockable(), problems);
    let visit = |endpoint: &Node, holders: &[(&Node, &[String], String)], problems: &mut Problems| {
        for (holder, locked, name) in holders {
            within(endpoint, holder, locked, name, problems);
        }
    };
    let of_document = (node, &*document, "the document".to_owned());
    for (_, endpoint) in entries(node, "endpoints") {
        visit(endpoint, std::slice::from_ref(&of_document), problems);
    }
    for (name, group) in entries(node, "groups") {
        visit(group, std::slice::from_ref(&of_document), problems);
        let own = locks(group, &lockable(), problems);
        let holders = [of_document.clone(), (group, &*own, format!("the group `{name}`"))];
        let older = group.field("versions").into_iter().flat_map(|versions| entries(versions, "older"));
        let all = entries(group, "endpoints").chain(older.flat_map(|(_, version)| entries(version, "endpoints")));
        for (_, endpoint) in all {
            visit(endpoint, &holders, problems);
        }
    }
}

/// The names of the settings that can be locked.
fn lockable() -> Vec<&'static str> {
    let inner = Layers::<AtEndpoint>::known();
    let both = Layers::<AtDocument>::known().into_iter().filter(|field| inner.iter().any(|own| own.name == field.name));
    both.map(|field| field.name).collect()
}

fn locks(place: &Node, lockable: &[&str], problems: &mut Problems) -> Vec<String> {
    let written = place.field(LOCKED).and_then(Node::as_list).unwrap_or_default();
    let mut locked = Vec::new();
    for name in written.iter().filter_map(Node::as_text) {
        if !lockable.contains(&name.as_str()) {
            let remedy = match suggest(name.as_str(), lockable.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("these can be: {}", lockable.join(", ")),
            };
            problems.error::<()>(name.span, format!("`{name}` cannot be locked"), remedy);
        } else if place.field(name.as_str()).is_none() {
            let message = format!("`{name}` is locked, and not written here");
            problems.error::<()>(name.span, message, format!("write `{name}` beside `locked`, or leave it out"));
        } else {
            locked.push(name.value);
        }
    }
    locked
}

/// Notes the locked settings that an endpoint or a group writes.
fn within(inner: &Node, holder: &Node, locked: &[String], by: &str, problems: &mut Problems) {
    for (key, node) in inner.as_map().into_iter().flatten().filter(|(key, _)| locked.contains(&key.value)) {
        if key.as_str() == HEADERS && node.as_map().is_some() {
            weaken(node, holder.field(HEADERS), by, problems);
            continue;
        }
        problems.error::<()>(key.span, format!("`{key}` is locked by {by}"), "leave it out");
    }
}

/// Notes the fields that are set by the locked `headers` and set or removed here. Others may be added.
fn weaken(own: &Node, locked: Option<&Node>, by: &str, problems: &mut Problems) {
    let Some(locked) = locked else { return };
    let fixed: Vec<String> = names(locked).iter().map(|name| name.value.to_ascii_lowercase()).collect();
    for name in names(own) {
        if fixed.contains(&name.value.to_ascii_lowercase()) {
            problems.error::<()>(name.span, format!("the field `{name}` is locked by {by}"), "leave it out");
        }
    }
    if let (Some(own), Some(_)) = (own.field("preset"), locked.field("preset")) {
        problems.error::<()>(own.span, format!("`preset` is locked by {by}"), "leave it out");
    }
}

/// The fields that are set or removed.
fn names(headers: &Node) -> Vec<Located<String>> {
    let set = entries(headers, "set").map(|(name, _)| name.clone());
    let removed = headers.field("remove").and_then(Node::as_list).into_iter().flatten().filter_map(Node::as_text);
    set.chain(removed).collect()
}

fn entries<'a>(node: &'a Node, key: &str) -> impl Iterator<Item = (&'a Located<String>, &'a Node)> + use<'a> {
    node.field(key).and_then(Node::as_map).into_iter().flatten().map(|(name, node)| (name, node))
}
