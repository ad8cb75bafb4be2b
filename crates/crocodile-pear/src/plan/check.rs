//! Pipelines that cannot work, and those that probably do not do what was intended: found when they are compiled.

use crate::spec::Located;
use crate::step::{About, Compile, Outline, Shape};
use crate::steps::Written;

/// More calls for one request are probably not intended: it is ten times the largest inbox in the field.
const MANY: u64 = 10_000;

/// Checks that a step which must be the last is the last.
pub fn last(written: &[Located<Written>], about: &[About], cx: &mut Compile<'_>) -> Option<()> {
    let mut sound = Some(());
    for (at, step) in about.iter().enumerate() {
        if step.ends && about[at + 1..].iter().any(|later| !later.looks_on) {
            let Located { value: step, span, .. } = &written[at];
            sound = cx.problems.error(*span, format!("`{}` is not the last step", step.name()), "move it to the end");
        }
    }
    sound
}

/// Whether a step has what it works on.
pub fn source(step: &About, cx: &mut Compile<'_>) -> Option<()> {
    if cx.flow.item || !step.needs_items {
        return Some(());
    }
    cx.problems.error_here("no step before this one gives anything", "put a `request` before it")
}

/// Warns of values under a key that no expression has used: after this step they are gone.
pub fn forget(cx: &mut Compile<'_>) {
    for (key, place) in std::mem::take(&mut cx.flow.unused) {
        let message = format!("the value under `{key}` is never used");
        cx.problems.warning(place, message, format!("use `.{key}` in a later step, or leave the step out"));
    }
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

/// Warns of calls and results that are not used.
pub fn waste(merges: bool, cx: &mut Compile<'_>) {
    let calls = Outline::calls_of(&cx.found.outline);
    // An operator who removed a limit on purpose needs no warning.
    if calls > MANY && !(cx.found.endless && calls == u64::MAX) {
        let most = cx.found.outline.iter().reduce(|most, line| if line.calls > most.calls { line } else { most });
        let place = most.map_or(cx.problems.place(), |line| line.place);
        let remedy = "lower a `limit`: the calls of each item are multiplied by the items";
        cx.problems.warning(place, format!("one request may make up to {calls} calls"), remedy);
    }
    for (name, place) in std::mem::take(&mut cx.found.results) {
        if merges && !cx.found.used.contains(&name) {
            let message = format!("the answer of `{name}` is never used");
            cx.problems.warning(place, message, format!("use `${name}`, or leave the call out"));
        }
    }
}
