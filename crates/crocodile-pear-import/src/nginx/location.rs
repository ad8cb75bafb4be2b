//! The locations of a server, nested ones among them, and which of them nginx would choose.

use super::parse::Directive;
use super::scope::Scope;

/// How a location is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocationMatch {
    /// `= /path`
    Exact(String),
    /// `/path`; `sticky`: `^~`, which keeps regular expressions from being asked.
    Prefix { path: String, sticky: bool },
    /// `~ regex`; `~*` without regard to case.
    Regex { regex: String, caseless: bool },
    /// `@name`
    Named(String),
}

#[derive(Clone)]
pub struct Location<'a> {
    pub directive: &'a Directive,
    pub kind: LocationMatch,
    pub scope: Scope<'a>,
}

impl Location<'_> {
    pub fn prefix(&self) -> Option<&str> {
        match &self.kind {
            LocationMatch::Prefix { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Whether it gives out none of the files that its paths name: something else answers, or nobody may have them.
    pub fn hides_files(&self) -> bool {
        let answers = |directive: &Directive| {
            let name = directive.name.as_str();
            matches!(name, "return" | "internal") || name.ends_with("_pass") || name.contains("content_by_lua")
        };
        self.scope.is_closed() || self.scope.own().iter().any(answers)
    }
}

/// Whether requests are for programs that FastCGI, uWSGI or SCGI call.
pub fn runs_programs(scope: &Scope<'_>) -> bool {
    const PASSES: [&str; 3] = ["fastcgi_pass", "uwsgi_pass", "scgi_pass"];
    scope.own().iter().any(|directive| PASSES.contains(&directive.name.as_str()))
}

/// The locations of a block, in the order of the file.
pub fn all<'a>(scope: &Scope<'a>) -> Vec<Location<'a>> {
    let mut found = Vec::new();
    collect(scope, &mut found);
    found
}

fn collect<'a>(scope: &Scope<'a>, found: &mut Vec<Location<'a>>) {
    for directive in scope.own().iter().filter(|directive| directive.name == "location" && directive.block.is_some()) {
        let inner = scope.within(directive.inner());
        if let Some(kind) = kind(directive) {
            found.push(Location { directive, kind, scope: inner.clone() });
        }
        collect(&inner, found);
    }
}

fn kind(directive: &Directive) -> Option<LocationMatch> {
    let (sign, path) = match (directive.arg(0)?, directive.arg(1)) {
        (sign @ ("=" | "~" | "~*" | "^~"), Some(path)) => (sign, path),
        (word, _) => match ["^~", "~*", "~", "="].into_iter().find(|sign| word.starts_with(sign)) {
            Some(sign) => (sign, &word[sign.len()..]),
            None => ("", word),
        },
    };
    let path = path.to_owned();
    Some(match sign {
        "=" => LocationMatch::Exact(path),
        "~" => LocationMatch::Regex { caseless: path.starts_with("(?i)"), regex: path },
        "~*" => LocationMatch::Regex { regex: path, caseless: true },
        _ if path.starts_with('@') => LocationMatch::Named(path[1..].to_owned()),
        sign => LocationMatch::Prefix { path, sticky: sign == "^~" },
    })
}

/// The location with a text that a path begins with: an exact one, or that with the longest prefix.
pub fn find<'l, 'a>(locations: &'l [Location<'a>], path: &str, is_whole: bool) -> Option<&'l Location<'a>> {
    let exact = locations.iter().find(|location| is_whole && location.kind == LocationMatch::Exact(path.to_owned()));
    let prefixes = locations.iter().filter(|location| location.prefix().is_some_and(|prefix| path.starts_with(prefix)));
    exact.or_else(|| prefixes.max_by_key(|location| location.prefix().map_or(0, str::len)))
}
