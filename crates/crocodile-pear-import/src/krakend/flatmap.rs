//! `flatmap_filter`: fields moved and deleted, also within lists.

use super::keys::Item;
use crate::jq;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Delete(Vec<Vec<String>>),
    /// Moves a field. Both paths are the same up to the last `*`.
    Move(Vec<String>, Vec<String>),
}

impl Operation {
    pub fn read(item: &Item<'_>) -> Vec<Operation> {
        item.list().iter().filter_map(one).collect()
    }

    /// The operation as a jq expression.
    pub fn expression(&self) -> String {
        match self {
            Operation::Delete(paths) => {
                let paths: Vec<String> = paths.iter().map(|path| written(path)).collect();
                format!("del({})", paths.join(", "))
            }
            Operation::Move(from, to) => {
                let common = from.iter().rposition(|name| name == "*").map_or(0, |at| at + 1);
                let (old, new) = (jq::path(&from[common..]), jq::path(&to[common..]));
                let first = from[common..].first().map_or("", String::as_str);
                let has = match from.len() - common {
                    1 => format!("has({})", jq::text(first)),
                    _ => format!("({old}?) != null"),
                };
                let step = format!("if {has} then {new} = {old} | del({old}) else . end");
                match common {
                    0 => step,
                    _ => format!("({}) |= ({step})", written(&from[..common])),
                }
            }
        }
    }
}

/// A path with `*` for the items of a list.
fn written(path: &[String]) -> String {
    let part = |(at, name): (usize, &String)| match (at, name.as_str()) {
        (0, "*") => ".[]?".to_owned(),
        (_, "*") => "[]?".to_owned(),
        (0, name) if !jq::is_name(name) => format!(".[{}]?", jq::text(name)),
        (_, name) => format!("{}?", jq::field(name)),
    };
    path.iter().enumerate().map(part).collect()
}

fn one(item: &Item<'_>) -> Option<Operation> {
    let keys = item.map()?;
    let kind = keys.text("type")?;
    let arguments = keys.texts("args");
    keys.end();
    let paths: Vec<Vec<String>> = arguments.iter().map(|path| path.split('.').map(str::to_owned).collect()).collect();
    match (kind.as_str(), paths.as_slice()) {
        ("del", paths) if !paths.is_empty() => Some(Operation::Delete(paths.to_vec())),
        ("move", [from, to]) => {
            let last = |path: &[String]| path.iter().rposition(|name| name == "*").map_or(0, |at| at + 1);
            let (one, other) = (last(from), last(to));
            if from[..one] == to[..other] && one < from.len() && other < to.len() {
                return Some(Operation::Move(from.clone(), to.clone()));
            }
            item.report(
                "`move` from one list to another, or out of a list, is not imported",
                "write a `transform` step",
            );
            None
        }
        _ => {
            item.report(
                format!("the operation `{kind}` is not imported"),
                "write a `transform` step, such as `.a += .b`",
            );
            None
        }
    }
}
