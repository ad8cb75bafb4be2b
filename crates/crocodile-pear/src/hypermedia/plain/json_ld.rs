//! JSON-LD and Hydra: nodes, with `@id` as `id` and `@type` as `type`; collections of Hydra are lists.

use std::collections::HashMap;

use super::object::Object;
use super::rules::{ObjectLinks, PlainRules, list};
use crate::error::Error;
use crate::hypermedia::part::{Members, Part};
use crate::offload;

/// The nodes of a document that others name.
#[derive(Default)]
pub(super) struct Nodes<'a>(HashMap<&'a [u8], Part<'a>>);

/// Where a node is written.
pub(super) struct NodePath<'a, 'n> {
    nodes: &'n Nodes<'a>,
    /// The identifiers of the nodes on the way to this one.
    trail: Vec<&'a [u8]>,
    /// Levels of nodes that were only named.
    level: usize,
    start: usize,
}

pub(super) fn document(plain: &PlainRules, document: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let named = ["@graph", "@included"].iter().filter_map(|name| document.field(name)).flat_map(Part::each);
    let nodes = Nodes(named.filter_map(|node| Some((node.field("@id")?.bytes(), node))).collect());
    if let Some(graph) = document.field("@graph") {
        let start = out.len();
        return list(graph.each(), out, |node, out| {
            let within = out.len() - start;
            if within > plain.spread() {
                return plain.check_size(within);
            }
            value(plain, node, &mut NodePath { nodes: &nodes, trail: Vec::new(), level: 0, start: out.len() }, out)
        });
    }
    value(plain, document, &mut NodePath { nodes: &nodes, trail: Vec::new(), level: 0, start: out.len() }, out)
}

/// The plain form of a node that names none of its document.
pub(super) fn node(plain: &PlainRules, part: Part<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let nodes = Nodes::default();
    value(plain, part, &mut NodePath { nodes: &nodes, trail: Vec::new(), level: 0, start: out.len() }, out)
}

/// The members of a collection of Hydra.
pub(super) fn members(part: Part<'_>) -> Option<Part<'_>> {
    let found = part.field("hydra:member").or_else(|| part.field("member").filter(|_| is_collection(part)));
    found.filter(|members| members.is_list())
}

fn is_collection(part: Part<'_>) -> bool {
    part.field("@type")
        .into_iter()
        .flat_map(Part::each)
        .any(|one| one.text().is_some_and(|one| one.ends_with("Collection")))
}

fn value<'a>(plain: &PlainRules, part: Part<'a>, way: &mut NodePath<'a, '_>, out: &mut Vec<u8>) -> Result<(), Error> {
    plain.check_size(out.len() - way.start)?;
    if part.is_list() {
        return list(part.items(), out, |item, out| value(plain, item, way, out));
    }
    if !part.is_object() {
        out.extend_from_slice(part.bytes());
        return Ok(());
    }
    let literal = part.fields().find(|(name, _)| name == "@value").map(|(_, literal)| literal);
    if let Some(literal) = literal {
        out.extend_from_slice(literal.bytes());
        return Ok(());
    }
    if let Some(within) = part.field("@list").or_else(|| part.field("@set")).or_else(|| members(part)) {
        return list(within.each(), out, |item, out| value(plain, item, way, out));
    }
    if let (Some(id), 1) = (part.field("@id"), part.fields().count()) {
        return named(plain, id, way, out);
    }
    written(plain, part, way, out)
}

/// A node that is only named: the node of the document, or its address.
fn named<'a>(plain: &PlainRules, id: Part<'a>, way: &mut NodePath<'a, '_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let found = way.nodes.0.get(id.bytes()).copied();
    match found.filter(|_| plain.resolves(way.level + 1) && !way.trail.contains(&id.bytes())) {
        Some(node) => {
            offload::hold(64);
            way.level += 1;
            let done = written(plain, node, way, out);
            way.level -= 1;
            done
        }
        None => {
            out.extend_from_slice(id.bytes());
            Ok(())
        }
    }
}

fn written<'a>(plain: &PlainRules, part: Part<'a>, way: &mut NodePath<'a, '_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let id = part.field("@id");
    way.trail.extend(id.map(Part::bytes));
    let mut object = Object::default();
    let own = Members::from_part(Some(part));
    let taken = |name: &str| own.has(name);
    for (name, within) in part.fields() {
        match &*name {
            "@id" | "@type" if !taken(&name[1..]) => {
                object.name(&name[1..], out);
                out.extend_from_slice(within.bytes());
            }
            "@reverse" | "@nest" => {
                for (name, within) in within.fields().filter(|(name, _)| !name.starts_with('@') && !taken(name)) {
                    object.name(&name, out);
                    value(plain, within, way, out)?;
                }
            }
            control if control.starts_with('@') || is_control(control, within) => {}
            _ => {
                object.name(&name, out);
                value(plain, within, way, out)?;
            }
        }
    }
    let mut links = ObjectLinks::default();
    if let Some(id) = id {
        way.trail.pop();
        links.add("self", id);
    }
    object.links(plain, &links, taken, out);
    object.end(out);
    Ok(())
}

/// Whether a field says what can be done with a node, not what it is.
fn is_control(name: &str, value: Part<'_>) -> bool {
    let operation = |one: Part<'_>| one.field("method").is_some() || one.field("hydra:method").is_some();
    name.starts_with("hydra:") || (name == "operation" && value.each().any(operation))
}
