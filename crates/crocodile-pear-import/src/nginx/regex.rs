//! Regular expressions of locations and rewrites, as paths of ours: where each segment is a text, one parameter, or the rest.

use super::piece::{self, Piece, REST};
use crate::jq;

/// A path that a regular expression means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegexRoute {
    /// The path as we write it: `/users/{id}`.
    pub path: String,
    /// The text that all paths of it begin with.
    pub literal: String,
    /// Whether it ends with the rest of the path.
    pub has_rest: bool,
    /// Whether the text before the rest ends within a segment, as that of `^/api` does.
    pub is_open: bool,
    /// The captures by name or number.
    pub captures: Vec<(String, Vec<Piece>)>,
    /// Parameters with what they must match.
    pub checks: Vec<(String, String)>,
    /// The path as pieces.
    pub pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegexPaths {
    /// Whether it begins with `^`.
    pub is_anchored: bool,
    pub routes: Vec<RegexRoute>,
}

/// More alternatives than this are left alone.
const MOST: usize = 32;

/// The paths that a regular expression means.
///
/// # Errors
/// The part that paths cannot express.
pub fn paths(regex: &str) -> Result<RegexPaths, String> {
    let regex = regex.strip_prefix("(?i)").unwrap_or(regex);
    let (is_anchored, rest) = match regex.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, regex),
    };
    let letters: Vec<char> = rest.chars().collect();
    let mut parser = RegexParser { letters: &letters, at: 0, groups: 0 };
    let alternatives = parser.alternatives()?;
    if parser.at < letters.len() {
        return Err("a `)` has no partner".to_owned());
    }
    let mut sequences = Vec::new();
    for alternative in &alternatives {
        expand(alternative, &mut vec![Vec::new()], &mut sequences)?;
    }
    let routes = sequences.iter().map(|sequence| route(sequence)).collect::<Result<Vec<RegexRoute>, String>>()?;
    Ok(RegexPaths { is_anchored, routes })
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RegexNode {
    Letter(char),
    /// Characters of one segment, with their quantifier, as they are written. `whole`: any segment.
    Atom {
        source: String,
        is_any: bool,
    },
    /// `.*` or `.+`
    Rest,
    Group {
        number: Option<usize>,
        name: Option<String>,
        alternatives: Vec<Vec<RegexNode>>,
        is_optional: bool,
    },
    /// A letter that may be missing.
    Maybe(char),
    End,
}

struct RegexParser<'a> {
    letters: &'a [char],
    at: usize,
    groups: usize,
}

impl RegexParser<'_> {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn next_is(&mut self, text: &str) -> bool {
        let letters: Vec<char> = text.chars().collect();
        let fits = self.letters[self.at..].starts_with(&letters);
        if fits {
            self.at += letters.len();
        }
        fits
    }

    fn alternatives(&mut self) -> Result<Vec<Vec<RegexNode>>, String> {
        let mut all = vec![Vec::new()];
        while let Some(letter) = self.peek() {
            match letter {
                ')' => break,
                '|' => {
                    self.at += 1;
                    all.push(Vec::new());
                }
                _ => {
                    let node = self.node()?;
                    all.last_mut().expect("there is one from the beginning").push(node);
                }
            }
        }
        Ok(all)
    }

    fn node(&mut self) -> Result<RegexNode, String> {
        let from = self.at;
        let letter = self.peek().unwrap_or_default();
        self.at += 1;
        match letter {
            '$' => return Ok(RegexNode::End),
            '^' => return Err("`^` stands in the middle".to_owned()),
            '(' => return self.group(from),
            '.' => {
                let quantifier = self.quantifier();
                return match quantifier.as_str() {
                    "*" | "+" | "*?" | "+?" => Ok(RegexNode::Rest),
                    _ => Ok(RegexNode::Atom { source: format!(".{quantifier}"), is_any: false }),
                };
            }
            '[' => {
                let source = self.class()?;
                let quantifier = self.quantifier();
                let is_any = source == "[^/]" && matches!(quantifier.as_str(), "+" | "*" | "+?" | "*?");
                let excludes = source.starts_with("[^") && (source.contains('/') || source.contains("\\/"));
                let includes = !source.starts_with("[^") && source.contains('/');
                if includes || (source.starts_with("[^") && !excludes) {
                    return Err(format!("`{source}` also takes slashes"));
                }
                return Ok(RegexNode::Atom { source: source + &quantifier, is_any });
            }
            '\\' => {
                let escaped = self.peek().ok_or("it ends with a backslash")?;
                self.at += 1;
                if matches!(escaped, 'd' | 'w') {
                    let quantifier = self.quantifier();
                    return Ok(RegexNode::Atom { source: format!("\\{escaped}{quantifier}"), is_any: false });
                }
                if escaped.is_ascii_alphanumeric() {
                    return Err(format!("`\\{escaped}` has no form in a path"));
                }
                return self.letter(escaped);
            }
            '*' | '+' | '?' => return Err(format!("`{letter}` has nothing before it")),
            _ => {}
        }
        self.letter(letter)
    }

    fn letter(&mut self, letter: char) -> Result<RegexNode, String> {
        match self.quantifier().as_str() {
            "" => Ok(RegexNode::Letter(letter)),
            "?" => Ok(RegexNode::Maybe(letter)),
            "+" if letter == '/' => Ok(RegexNode::Letter(letter)),
            quantifier if letter != '/' => {
                Ok(RegexNode::Atom { source: format!("{}{quantifier}", quoted(letter)), is_any: false })
            }
            quantifier => Err(format!("`/{quantifier}` has no form in a path")),
        }
    }

    fn quantifier(&mut self) -> String {
        let from = self.at;
        match self.peek() {
            Some('*' | '+' | '?') => self.at += 1,
            Some('{') => {
                while self.peek().is_some_and(|letter| letter != '}') {
                    self.at += 1;
                }
                self.at = (self.at + 1).min(self.letters.len());
            }
            _ => return String::new(),
        }
        if matches!(self.peek(), Some('?' | '+')) {
            self.at += 1;
        }
        self.letters[from..self.at].iter().collect()
    }

    fn class(&mut self) -> Result<String, String> {
        let from = self.at - 1;
        if self.peek() == Some('^') {
            self.at += 1;
        }
        let mut is_first = true;
        loop {
            let letter = self.peek().ok_or("a `[` has no partner")?;
            self.at += 1;
            match letter {
                '\\' => self.at += 1,
                ']' if !is_first => break,
                _ => {}
            }
            is_first = false;
        }
        Ok(self.letters[from..self.at.min(self.letters.len())].iter().collect())
    }

    fn group(&mut self, from: usize) -> Result<RegexNode, String> {
        let (mut number, mut name) = (None, None);
        if self.next_is("?:") {
        } else if self.next_is("?<") || self.next_is("?P<") {
            if matches!(self.peek(), Some('=' | '!')) {
                return Err("it looks behind".to_owned());
            }
            let mut text = String::new();
            while let Some(letter) = self.peek().filter(|letter| *letter != '>') {
                text.push(letter);
                self.at += 1;
            }
            self.at += 1;
            self.groups += 1;
            (number, name) = (Some(self.groups), Some(text));
        } else if self.peek() == Some('?') {
            return Err("it looks ahead, or sets flags".to_owned());
        } else {
            self.groups += 1;
            number = Some(self.groups);
        }
        let alternatives = self.alternatives()?;
        if !self.next_is(")") {
            return Err("a `(` has no partner".to_owned());
        }
        let inner: String = self.letters[from..self.at].iter().collect();
        match self.quantifier().as_str() {
            "" => Ok(RegexNode::Group { number, name, alternatives, is_optional: false }),
            "?" => Ok(RegexNode::Group { number, name, alternatives, is_optional: true }),
            quantifier if number.is_none() && !inner.contains('/') && !inner.contains('.') => {
                Ok(RegexNode::Atom { source: inner + quantifier, is_any: false })
            }
            quantifier => Err(format!("`{inner}{quantifier}` has no form in a path")),
        }
    }
}

fn quoted(letter: char) -> String {
    if letter.is_ascii_alphanumeric() || !letter.is_ascii() || "-_/".contains(letter) {
        letter.to_string()
    } else {
        format!("\\{letter}")
    }
}

/// A part of one alternative of the whole.
#[derive(Clone, Debug)]
enum RegexItem {
    Letter(char),
    Atom {
        source: String,
        is_any: bool,
    },
    Rest,
    Open(String, Option<String>),
    Close(String),
    /// A capture that takes no part.
    Missing(String, Option<String>),
    End,
}

/// Adds the sequences of a list of nodes to each of those so far.
fn expand(nodes: &[RegexNode], so_far: &mut Vec<Vec<RegexItem>>, done: &mut Vec<Vec<RegexItem>>) -> Result<(), String> {
    for node in nodes {
        let each: Vec<Vec<RegexItem>> = match node {
            RegexNode::Letter(letter) => vec![vec![RegexItem::Letter(*letter)]],
            RegexNode::Maybe(letter) => vec![vec![], vec![RegexItem::Letter(*letter)]],
            RegexNode::Atom { source, is_any } => {
                vec![vec![RegexItem::Atom { source: source.clone(), is_any: *is_any }]]
            }
            RegexNode::Rest => vec![vec![RegexItem::Rest]],
            RegexNode::End => vec![vec![RegexItem::End]],
            RegexNode::Group { number, name, alternatives, is_optional } => {
                let mut inner = Vec::new();
                for alternative in alternatives {
                    expand(alternative, &mut vec![Vec::new()], &mut inner)?;
                }
                let key = number.map(|number| number.to_string());
                let wrap = |items: Vec<RegexItem>| match &key {
                    Some(key) => {
                        let mut all = vec![RegexItem::Open(key.clone(), name.clone())];
                        all.extend(items);
                        all.push(RegexItem::Close(key.clone()));
                        all
                    }
                    None => items,
                };
                let mut each: Vec<Vec<RegexItem>> = inner.into_iter().map(wrap).collect();
                if *is_optional {
                    let missing = key.iter().map(|key| RegexItem::Missing(key.clone(), name.clone())).collect();
                    each.insert(0, missing);
                }
                each
            }
        };
        let before = std::mem::take(so_far);
        for sequence in &before {
            so_far.extend(each.iter().map(|more| [sequence.as_slice(), more].concat()));
        }
        if so_far.len() > MOST {
            return Err(format!("it has more than {MOST} alternatives"));
        }
    }
    done.append(so_far);
    if done.len() > MOST { Err(format!("it has more than {MOST} alternatives")) } else { Ok(()) }
}

/// The parts of a route while its sequence is read.
#[derive(Default)]
struct Builder {
    pieces: Vec<Piece>,
    path: String,
    captures: Vec<(String, Option<String>, Vec<Piece>)>,
    /// The captures that are open: their key and name, and how many pieces there were.
    open: Vec<(String, Option<String>, usize)>,
    checks: Vec<(String, String)>,
    has_rest: bool,
    is_open: bool,
}

fn route(sequence: &[RegexItem]) -> Result<RegexRoute, String> {
    let mut builder = Builder::default();
    let mut items = sequence;
    let mut is_ended = false;
    while let Some(first) = items.first() {
        match first {
            RegexItem::Letter('/') => {
                builder.text('/');
                items = &items[1..];
                let end = items.iter().position(|item| matches!(item, RegexItem::Letter('/') | RegexItem::End));
                let (segment, after) = items.split_at(end.unwrap_or(items.len()));
                builder.segment(segment)?;
                items = after;
            }
            RegexItem::End => {
                is_ended = true;
                items = &items[1..];
                if let Some(item) = items.iter().find(|item| !matches!(item, RegexItem::Close(_))) {
                    return Err(format!("`$` is not its end: {item:?} follows"));
                }
            }
            RegexItem::Rest if builder.pieces.is_empty() => {
                builder.rest(true);
                items = &items[1..];
            }
            RegexItem::Open(..) | RegexItem::Close(_) | RegexItem::Missing(..) => {
                builder.mark(first);
                items = &items[1..];
            }
            _ => return Err("it does not begin with a `/`".to_owned()),
        }
    }
    if builder.path.is_empty() {
        builder.rest(true);
    }
    if !is_ended && !builder.has_rest {
        builder.end();
    }
    Ok(builder.finish())
}

impl Builder {
    fn text(&mut self, letter: char) {
        self.pieces.push(Piece::Text(letter.to_string()));
        match letter {
            '{' => self.path.push_str("%7B"),
            '}' => self.path.push_str("%7D"),
            ' ' => self.path.push_str("%20"),
            letter => self.path.push(letter),
        }
    }

    fn mark(&mut self, item: &RegexItem) {
        match item {
            RegexItem::Open(key, name) => self.open.push((key.clone(), name.clone(), self.pieces.len())),
            RegexItem::Close(key) => {
                if let Some(at) = self.open.iter().position(|(open, _, _)| open == key) {
                    let (key, name, from) = self.open.remove(at);
                    self.captures.push((key, name, self.pieces[from..].to_vec()));
                }
            }
            RegexItem::Missing(key, name) => self.captures.push((key.clone(), name.clone(), Vec::new())),
            _ => {}
        }
    }

    fn rest(&mut self, slash: bool) {
        self.pieces.push(Piece::Rest { slash });
        self.path.push_str(&if slash { format!("/{{*{REST}}}") } else { format!("{{*{REST}}}") });
        self.has_rest = true;
    }

    /// Without `$`, more may follow.
    fn end(&mut self) {
        let slash = !self.path.ends_with('/');
        self.is_open = slash;
        self.path.push_str(&if slash { format!("/{{*{REST}}}") } else { format!("{{*{REST}}}") });
        self.pieces.push(Piece::Rest { slash });
        self.has_rest = true;
    }

    fn segment(&mut self, items: &[RegexItem]) -> Result<(), String> {
        if self.has_rest {
            return Err("something follows `.*`".to_owned());
        }
        let is_mark =
            |item: &&RegexItem| matches!(item, RegexItem::Open(..) | RegexItem::Close(_) | RegexItem::Missing(..));
        let meant: Vec<&RegexItem> = items.iter().filter(|item| !is_mark(item)).collect();
        let rest = meant.iter().position(|item| matches!(item, RegexItem::Rest));
        if let Some(at) = rest {
            return self.open_end(items, at, meant.len());
        }
        if meant.iter().all(|item| matches!(item, RegexItem::Letter(_))) {
            for item in items {
                match item {
                    RegexItem::Letter(letter) => self.text(*letter),
                    mark => self.mark(mark),
                }
            }
            return Ok(());
        }
        self.parameter(items, &meant);
        Ok(())
    }

    /// A segment that is or ends with `.*`.
    fn open_end(&mut self, items: &[RegexItem], at: usize, count: usize) -> Result<(), String> {
        if at + 1 < count {
            return Err("something follows `.*`".to_owned());
        }
        let mut letters = 0;
        for item in items {
            match item {
                RegexItem::Letter(letter) => {
                    self.text(*letter);
                    letters += 1;
                }
                RegexItem::Rest => {
                    self.is_open = letters > 0;
                    self.rest(letters > 0);
                }
                RegexItem::Atom { source, .. } => return Err(format!("`{source}` stands before `.*`")),
                mark => self.mark(mark),
            }
        }
        Ok(())
    }

    /// A segment that is a parameter.
    fn parameter(&mut self, items: &[RegexItem], meant: &[&RegexItem]) {
        let lead = items.iter().take_while(|item| matches!(item, RegexItem::Open(..) | RegexItem::Missing(..))).count();
        let trail =
            items.iter().rev().take_while(|item| matches!(item, RegexItem::Close(_) | RegexItem::Missing(..))).count();
        let (before, rest) = items.split_at(lead);
        let (inside, after) = rest.split_at(rest.len().saturating_sub(trail));
        let closes: Vec<&String> = after
            .iter()
            .filter_map(|item| match item {
                RegexItem::Close(key) => Some(key),
                _ => None,
            })
            .collect();
        let own = |item: &&RegexItem| matches!(item, RegexItem::Open(key, _) if !inside.iter().any(|item| matches!(item, RegexItem::Close(close) if close == key)));
        let name = before
            .iter()
            .filter(own)
            .find_map(|item| match item {
                RegexItem::Open(_, Some(name)) => Some(name.clone()),
                _ => None,
            })
            .filter(|name| jq::is_name(name) && name != REST);
        let name = self.unique(name.unwrap_or_else(|| "id".to_owned()));
        before.iter().filter(own).for_each(|item| self.mark(item));
        self.pieces.push(Piece::Param(name.clone()));
        self.path.push_str(&format!("{{{name}}}"));
        let regex = source(items, None);
        let is_any = matches!(meant, [RegexItem::Atom { is_any: true, .. }]);
        if !is_any {
            self.checks.push((name.clone(), format!("^{regex}$")));
        }
        // Captures of a part of the segment.
        for item in items {
            let RegexItem::Open(key, written) = item else { continue };
            let whole = before.iter().filter(own).any(|item| matches!(item, RegexItem::Open(open, _) if open == key));
            if whole
                || (closes.contains(&key)
                    && inside.iter().all(|item| !matches!(item, RegexItem::Open(open, _) if open == key))
                    && before.iter().any(|item| matches!(item, RegexItem::Open(open, _) if open == key)))
            {
                continue;
            }
            let regex = format!("^{}$", source(items, Some(key)));
            let expression = format!("$path.{name} | capture({}).c", jq::text(&regex));
            self.captures.push((key.clone(), written.clone(), vec![Piece::Jq(expression)]));
        }
        after.iter().for_each(|item| self.mark(item));
    }

    fn unique(&self, base: String) -> String {
        let taken = |name: &str| self.pieces.contains(&Piece::Param(name.to_owned()));
        let numbered = (2..).map(|number| format!("{base}{number}"));
        std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(base)
    }

    fn finish(self) -> RegexRoute {
        let mut captures = Vec::new();
        for (key, name, pieces) in self.captures {
            let pieces = piece::joined(pieces);
            captures.extend(name.map(|name| (name, pieces.clone())));
            captures.push((key, pieces));
        }
        let pieces = piece::joined(self.pieces);
        let literal = match pieces.first() {
            Some(Piece::Text(text)) => text.clone(),
            _ => "/".to_owned(),
        };
        RegexRoute {
            path: self.path,
            literal,
            has_rest: self.has_rest,
            is_open: self.is_open,
            captures,
            checks: self.checks,
            pieces,
        }
    }
}

/// A segment as a regular expression again; `named` is the capture that gets the name `c`.
fn source(items: &[RegexItem], named: Option<&str>) -> String {
    let one = |item: &RegexItem| match item {
        RegexItem::Letter(letter) => quoted(*letter),
        RegexItem::Atom { source, .. } => source.clone(),
        RegexItem::Open(key, _) if Some(key.as_str()) == named => "(?<c>".to_owned(),
        RegexItem::Close(key) if Some(key.as_str()) == named => ")".to_owned(),
        _ => String::new(),
    };
    items.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::paths;
    use crate::nginx::piece::Piece;

    #[test]
    fn regular_expressions_become_paths() {
        for (regex, wanted) in [
            ("^/users/([0-9]+)$", &["/users/{id}"][..]),
            ("^/users/(?<user>[^/]+)/orders/(\\d+)", &["/users/{user}/orders/{id}/{*path}"]),
            ("^/api/(.*)$", &["/api/{*path}"]),
            ("^/api(/.*)$", &["/api/{*path}"]),
            ("^/api/?(.*)$", &["/api/{*path}", "/api/{*path}"]),
            ("^/(auth|users)/", &["/auth/{*path}", "/users/{*path}"]),
            ("/api/(.*)", &["/api/{*path}"]),
            ("^/v(\\d+)/x$", &["/{id}/x"]),
            ("^(.*)$", &["/{*path}"]),
            ("^/a\\.b/?$", &["/a.b", "/a.b/"]),
        ] {
            let routes = paths(regex).map(|paths| paths.routes).unwrap_or_default();
            assert_eq!(routes.iter().map(|route| route.path.as_str()).collect::<Vec<_>>(), wanted, "{regex}");
        }
        for regex in ["\\.(png|jpg)$", "^/a/.*/b$", "^/a[^b]+$", "^/(?!x)", "^/(", "^/a)"] {
            assert!(paths(regex).is_err(), "{regex}");
        }
    }

    #[test]
    fn captures_are_pieces_of_the_path() {
        let capture = |regex: &str, name: &str| {
            let route = paths(regex).ok()?.routes.pop()?;
            route.captures.into_iter().find(|(known, _)| known == name).map(|(_, pieces)| pieces)
        };
        assert_eq!(capture("^/users/([0-9]+)$", "1"), Some(vec![Piece::Param("id".to_owned())]));
        assert_eq!(capture("^/a/(.*)$", "1"), Some(vec![Piece::Rest { slash: false }]));
        assert_eq!(capture("^/a(/.*)$", "1"), Some(vec![Piece::Text("/".to_owned()), Piece::Rest { slash: false }]));
        let inner = Piece::Jq("$path.id | capture(\"^v(?<c>\\\\d+)$\").c".to_owned());
        assert_eq!(capture("^/v(\\d+)/x$", "1"), Some(vec![inner]));
        assert_eq!(capture("^/(auth|users)/", "1"), Some(vec![Piece::Text("users".to_owned())]));
    }
}
