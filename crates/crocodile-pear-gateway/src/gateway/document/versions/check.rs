//! Problems of versions that are found before any endpoint of theirs is looked at.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Located, suggest};

use super::spec::VersionsSpec;
use crate::http::version::fold;

/// Checks names, their order and dates.
pub fn check(spec: &VersionsSpec, problems: &mut Problems) -> Option<()> {
    let named = names(spec, problems);
    let default = default(spec, problems);
    let ordered = order(spec, problems);
    let dates = dates(spec, ordered, problems);
    named.and(default).and(dates)
}

fn names(spec: &VersionsSpec, problems: &mut Problems) -> Option<()> {
    let older = spec.older.iter().map(|(name, (span, _))| (name.as_str(), *span));
    let mut sound = Some(());
    let mut known: Vec<String> = Vec::new();
    for (name, span) in std::iter::once((spec.current.as_str(), spec.current.span)).chain(older) {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if name.is_empty() || !name.bytes().all(fits) || name.bytes().all(|byte| byte == b'.') {
            let remedy = "write letters, digits, `.`, `-` and `_`, as in `v2`";
            sound = problems.error(span, "no request can name this version", remedy);
        } else if known.contains(&fold(name)) {
            let remedy = "leave out one: `v2` and `2` are the same version";
            sound = problems.error(span, format!("the version `{name}` is written twice"), remedy);
        }
        known.push(fold(name));
    }
    sound
}

fn default(spec: &VersionsSpec, problems: &mut Problems) -> Option<()> {
    let Some(default) = &spec.default else { return Some(()) };
    let names = || std::iter::once(spec.current.as_str()).chain(spec.older.keys().map(String::as_str));
    if names().any(|name| fold(name) == fold(default.as_str())) {
        return Some(());
    }
    let remedy = match suggest(default.as_str(), names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the versions are {}", names().collect::<Vec<_>>().join(", ")),
    };
    problems.error(default.span, format!("no version is named `{default}`"), remedy)
}

/// A later number below an earlier one: what differs would be taken from the wrong version.
fn order(spec: &VersionsSpec, problems: &mut Problems) -> bool {
    let mut ordered = true;
    let mut newer = (&spec.current.value, numbers(&spec.current.value));
    for (name, (span, _)) in &spec.older {
        let own = numbers(name);
        if let (Some(above), Some(below)) = (&newer.1, &own)
            && below > above
        {
            let message = format!("`{name}` is below `{}`, and so an older version than that", newer.0);
            problems.warning(*span, message, "write the versions from the newest to the oldest");
            ordered = false;
        }
        newer = (name, own);
    }
    ordered
}

/// The numbers of a name that is made of numbers: `v1.10`, `2026-01-15`.
fn numbers(name: &str) -> Option<Vec<u64>> {
    fold(name).split(['.', '-', '_']).map(|part| part.parse().ok()).collect()
}

fn dates(spec: &VersionsSpec, ordered: bool, problems: &mut Problems) -> Option<()> {
    let mut sound = Some(());
    let mut newer: Option<&str> = None;
    for (name, (span, older)) in &spec.older {
        if let (Some(deprecated), Some(sunset)) = (&older.deprecated, &older.sunset)
            && sunset.value < deprecated.value
        {
            let message = format!("`{name}` ends before it is deprecated, on {}", deprecated.value);
            sound = problems.error(sunset.span, message, "write a date that is not earlier than `deprecated`");
        }
        if let (Some(newer), None, true) = (newer, &older.deprecated, ordered) {
            let message = format!("`{name}` is not deprecated, and `{newer}`, which is newer, is");
            problems.warning(*span, message, "add `deprecated` here, or leave it out there");
        }
        newer = older.deprecated.as_ref().map(|_| name.as_str()).or(newer);
        if let Some(page) = &older.documentation {
            sound = url(page, problems).and(sound);
        }
    }
    sound
}

fn url(page: &Located<String>, problems: &mut Problems) -> Option<()> {
    let text = page.as_str();
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>' | b'"'));
    if visible && (text.starts_with('/') || text.starts_with("https://") || text.starts_with("http://")) {
        return Some(());
    }
    problems.error(page.span, "this is not the URL of a page", "write it as `https://…`, or as a path")
}
