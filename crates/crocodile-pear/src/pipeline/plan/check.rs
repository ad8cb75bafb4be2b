//! Pipelines that cannot work, and those that probably do not do what was intended: found when they are compiled.

use http::Method;

use crate::config::problem::Span;
use crate::config::spec::Located;
use crate::pipeline::step::{About, Compile, Outline, Shape};
use crate::pipeline::steps::Written;

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

/// Checks the items that leave the last step.
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

/// The parts of a client's request that no step takes. The gateway refuses requests that have them.
#[derive(Clone, Default)]
pub struct LostParts {
    pub body: bool,
    /// Its method, unless it is one of these.
    pub methods: Option<Vec<Method>>,
}

/// Finds what no call takes of the client's request, and warns of it where clients probably send it. `place` is where the
/// endpoint is written; `asks`: a step runs statements in a database. A pipeline that no endpoint serves has no client.
pub fn lost(place: Span, asks: bool, cx: &mut Compile<'_>) -> LostParts {
    let (route, taken) = (cx.known.route, &cx.found.taken_parts);
    if route.path.is_empty() || Outline::calls_of(&cx.found.outline) == 0 {
        return LostParts::default();
    }
    let (reads_body, sent) = (cx.found.reads_body, route.method.is_none_or(often_has_body));
    let unread = taken.streams.is_empty() && taken.copies.is_empty();
    let changed = unread && taken.changes_method();
    let mut served = taken.fixed_methods();
    // Whose body is read is a question, whatever the calls are.
    if reads_body && !served.contains(&Method::POST) {
        served.push(Method::POST);
    }
    let lost = LostParts {
        body: unread && !reads_body && !route.ignores_body,
        methods: (changed && route.method.is_none()).then_some(served),
    };
    if let ([upstream], true, false) = (taken.streams.as_slice(), taken.copies.is_empty(), reads_body) {
        if let Some(place) = taken.bodiless {
            let message = format!("this call has no body: the client's goes to `{upstream}`");
            let remedy = "write `body: client` here, and `method: GET` at the call that needs no body";
            cx.problems.warning(place, message, remedy);
        } else if let (Some(place), true) = (taken.unrelated, sent) {
            let message = format!("this call is a GET without a body: the client's method and body go to `{upstream}`");
            let remedy = "write `body: client` here, and `method: GET` at the call before, or `method: GET` here if \
                          that is meant";
            cx.problems.warning(place, message, remedy);
        }
    }
    match (&lost.methods, route.method) {
        (Some(served), _) => {
            let (first, served) = (served[0].clone(), listed(served));
            if lost.body {
                let message = format!(
                    "no call takes the client's method and body: other methods than {served} get 405, and bodies 413"
                );
                let remedy =
                    format!("write `{first}` before the path, or `body: client` at the call that is to have both");
                cx.problems.warning(place, message, remedy);
            } else {
                let message = format!("no call takes the client's method: other methods than {served} get 405");
                let remedy = format!("write `{first}` before the path, or `method: client` at a call");
                cx.problems.warning(place, message, remedy);
            }
        }
        (None, _) if lost.body && sent => {
            let message = "no call takes the client's body: requests with one get 413";
            let remedy = "write `body: client` at the call that is to have it, or `body: ignore` at the endpoint";
            cx.problems.warning(place, message, remedy);
        }
        // A POST whose body is read may well be a question.
        (None, Some(method)) if changed && !asks && !taken.names_methods() && CHANGES.contains(method) => {
            let has = &taken.fixed_methods()[0];
            let message = format!("no call is a {method}: by default they are {has}");
            let remedy =
                format!("write `method: client` at the call that is to have it, or `method: {has}` if that is meant");
            cx.problems.warning(place, message, remedy);
        }
        _ => {}
    }
    lost
}

/// The methods of requests that change something, apart from POST.
const CHANGES: [Method; 3] = [Method::PUT, Method::PATCH, Method::DELETE];

/// `GET`, `GET and POST`, `GET, POST and PUT`.
pub fn listed(methods: &[Method]) -> String {
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

/// The methods whose requests rarely have a body.
const RARELY: [Method; 5] = [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS, Method::TRACE];

/// Whether clients usually send a body with this method.
pub fn often_has_body(method: &Method) -> bool {
    !RARELY.contains(method)
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
