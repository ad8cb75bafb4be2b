//! Upstreams that lead to others: choices, mirrors, and the calls for types of resources.

use std::sync::Arc;

use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Located, Node, suggest};
use crocodile_pear::unstable::upstream::{Choices, ReadyUpstream, UpstreamSpec, types};
use indexmap::IndexMap;

use crate::gateway::document::Document;

/// Notes what stands beside `choose` and would not be used.
pub fn check(node: &Node, problems: &mut Problems) {
    for (_, upstream) in node.field("upstreams").and_then(Node::as_map).into_iter().flatten() {
        if upstream.field("choose").is_none() {
            continue;
        }
        for (key, _) in upstream.as_map().into_iter().flatten() {
            if !["choose", "mirror"].contains(&key.as_str()) {
                let message = format!("`{}` beside `choose` would not be used", key.as_str());
                problems.error::<()>(key.span, message, "write it at the upstreams that are chosen");
            }
        }
    }
}

/// Adds the choices to the upstreams that are ready, and the mirrors to both.
pub fn add(
    document: &Document,
    unread: &[String],
    upstreams: &mut IndexMap<String, Arc<ReadyUpstream>>,
    problems: &mut Problems,
) -> Option<()> {
    let written: Vec<(&String, Span, &UpstreamSpec)> =
        document.upstreams.iter().flatten().map(|(name, (span, spec))| (name, *span, &spec.spec)).collect();
    let mut waiting: Vec<_> = written.iter().copied().filter(|(_, _, spec)| spec.choose.is_some()).collect();
    let mut sound = Some(());
    while !waiting.is_empty() {
        let waits = |spec: &UpstreamSpec, others: &[(&String, Span, &UpstreamSpec)]| {
            let to = spec.choose.iter().flatten().map(|rule| rule.to.as_str());
            to.into_iter().any(|to| others.iter().any(|(name, ..)| *name == to))
        };
        let (later, now): (Vec<_>, Vec<_>) = waiting.iter().copied().partition(|(_, _, spec)| waits(spec, &waiting));
        if now.is_empty() {
            let (name, span, _) = later[0];
            let message = format!("`{name}` leads back to itself");
            return problems.error(span, message, "let `to` of its rules name upstreams with a `url`");
        }
        for (name, span, spec) in now {
            let find = |to: &Located<String>, problems: &mut Problems| find(to, &written, unread, upstreams, problems);
            match spec.compile_choice(name, span, &Choices { find: &find }, problems) {
                Some(choice) => drop(upstreams.insert(name.clone(), choice)),
                None => sound = None,
            }
        }
        waiting = later;
    }
    for to in written.iter().filter_map(|(.., spec)| spec.types.as_ref()).flat_map(types::named) {
        match find(&to, &written, unread, upstreams, problems) {
            Some(upstream) if upstream.is_choice() => {
                let message = format!("`{to}` chooses other upstreams, and a type has one");
                sound = problems.error(to.span, message, "name an upstream with a `url`");
            }
            Some(_) => {}
            None => sound = None,
        }
    }
    for (name, _, spec) in &written {
        let Some(mirror) = &spec.mirror else { continue };
        match find(&mirror.to, &written, unread, upstreams, problems) {
            Some(to) if mirror.to.value == **name => {
                drop(to);
                let message = "an upstream cannot be its own mirror";
                sound = problems.error(mirror.to.span, message, "name another upstream");
            }
            Some(to) => upstreams.get(*name).into_iter().for_each(|upstream| upstream.set_mirror(mirror, &to)),
            None => sound = None,
        }
    }
    sound
}

/// The upstream of a name. One that has problems of its own is not reported again.
fn find(
    to: &Located<String>,
    written: &[(&String, Span, &UpstreamSpec)],
    unread: &[String],
    upstreams: &IndexMap<String, Arc<ReadyUpstream>>,
    problems: &mut Problems,
) -> Option<Arc<ReadyUpstream>> {
    if let Some(upstream) = upstreams.get(&to.value) {
        upstream.name_it();
        return Some(upstream.clone());
    }
    let known = || written.iter().map(|(name, ..)| name.as_str()).chain(unread.iter().map(String::as_str));
    if known().any(|name| name == to.as_str()) {
        return None;
    }
    let remedy = match suggest(&to.value, known()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if to.value.contains("://") => "write the URL under `upstreams`, and its name here".to_owned(),
        None => format!("the upstreams are {}", known().collect::<Vec<_>>().join(", ")),
    };
    problems.error(to.span, format!("no upstream is named `{to}`"), remedy)
}
