//! What a pipeline cannot mean, and what it probably does not: found when it is compiled.

use crate::step::{Compile, Shape};
use crate::steps::Written;

/// More calls for one request are hardly meant: it is ten times the largest inbox in the field.
const MANY: u64 = 10_000;

/// Whether something flows from this step on, so that `.` is an item.
pub fn gives(step: &Written) -> bool {
    !matches!(step, Written::Timer(_))
}

/// Whether a step has what it works on.
pub fn source(step: &Written, cx: &mut Compile<'_>) -> Option<()> {
    let takes_items = matches!(step, Written::Concatenate(_) | Written::Convert(_) | Written::Dedupe(_));
    if cx.flow.item || !takes_items {
        return Some(());
    }
    cx.problems.error_here("no step before this one gives anything", "put a `request` before it")
}

/// What leaves the last step.
pub fn end(cx: &mut Compile<'_>) {
    if !cx.flow.item {
        let remedy = "add a `request`, or a `respond`";
        cx.problems.warning_here("no step of this pipeline gives anything", remedy);
    }
    if let Shape::Many(_) = cx.flow.shape {
        let message = "several answers follow one another: `{…}{…}` is not JSON";
        cx.problems.warning_here(message, "add `- concatenate: { body_only: true }` after it");
    }
}

/// What the whole pipeline does in vain.
pub fn waste(calls: u64, merges: bool, cx: &mut Compile<'_>) {
    // Who writes that there is no limit need not be warned of that.
    if calls > MANY && !(cx.found.endless && calls == u64::MAX) {
        let remedy = "lower a `limit`: the calls of each item are multiplied by the items";
        cx.problems.warning_here(format!("one request may make up to {calls} calls"), remedy);
    }
    for (name, place) in std::mem::take(&mut cx.found.results) {
        if merges && !cx.found.used.contains(&name) {
            let message = format!("the answer of `{name}` is never used");
            cx.problems.warning(place, message, format!("use `${name}`, or leave the call out"));
        }
    }
}
