//! Regular expressions with the syntax of Oniguruma and a bound on their cost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use fancy_regex::{Input, Regex, RegexBuilder};

use crate::jq::eval::code::Named;
use crate::jq::value::bounded::{self, Item};
use crate::jq::value::budget::{self, charge};
use crate::jq::value::operators;
use crate::jq::value::runtime_error::{Fault, fail, refuse};
use crate::json::value::{self, Value, kind};

pub const NATIVES: &[Named] = &[
    (("_match", 2), |it, arguments| {
        let search = Search::new(&it, &arguments[0], &arguments[1])?;
        let mut places = Places::default();
        let mut found = Vec::new();
        search.each(&mut |captures| {
            found.push(search.object(captures, &mut places));
            Ok(())
        })?;
        Ok(Item::list(found))
    }),
    (("test", 2), |it, arguments| {
        let search = Search::new(&it, &arguments[0], &arguments[1])?;
        Ok(search.at(&search.haystack(), 0)?.is_some().into())
    }),
    (("split", 2), |it, arguments| {
        let search = Search::new(&it, &arguments[0], &Item::from(global(&arguments[1])?))?;
        let (mut pieces, mut end) = (Vec::new(), 0);
        search.each(&mut |captures| {
            let (from, to) = span(captures, 0).unwrap_or((end, end));
            pieces.push(Item::text(search.text.slice(end.min(from)..from)));
            end = to;
            Ok(())
        })?;
        pieces.push(Item::text(search.text.slice(end..)));
        Ok(Item::list(pieces))
    }),
    // The text before each match, its named groups, and the text after the last match.
    (("_edits", 2), |it, arguments| {
        let search = Search::new(&it, &arguments[0], &arguments[1])?;
        let (mut edits, mut end) = (Vec::new(), 0);
        search.each(&mut |captures| {
            let (from, to) = span(captures, 0).unwrap_or((end, end));
            let before = Item::text(search.text.slice(end.min(from)..from));
            edits.push(Item::list(vec![before, search.named(captures)]));
            end = to;
            Ok(())
        })?;
        let tail = Item::text(search.text.slice(end..));
        Ok(Item::list(vec![Item::list(edits), tail]))
    }),
    // The texts that edits make of a text: the one before each match with its replacement, then the tail.
    (("_edited", 2), |it, arguments| edited(it, &arguments[0].value, &arguments[1])),
    (("_captures", 0), |it, _| {
        let captures = operators::index(&it, &value::string("captures"))?;
        let mut fields = value::Fields::default();
        for (_, capture) in operators::children(&captures)? {
            let name = operators::index(&capture, &value::string("name"))?;
            if let Value::Text(_) = name.value {
                budget::grow(48);
                fields.insert(name.value, operators::index(&capture, &value::string("string"))?.value);
            }
        }
        Ok(Item::made(value::fields_of(fields), 0))
    }),
    // A regular expression alone, or in a list with its flags.
    (("_pattern", 0), |it, _| match &it.value {
        Value::Text(_) => Ok(Item::list(vec![it, Item::null()])),
        Value::List(items) if !items.is_empty() => Ok(it),
        other => fail(format!("{} not a string or array", kind(other))),
    }),
];

/// Joins the pieces in one pass: adding them one by one would copy the text for each match.
fn edited(whole: Item, edits: &Value, tail: &Item) -> Result<Item, Fault> {
    let (mut texts, tail) = (Vec::<Vec<u8>>::new(), bytes_of(&tail.value));
    for edit in items_of(edits) {
        let [before, replacements] = items_of(edit) else { continue };
        for (at, new) in items_of(replacements).iter().enumerate() {
            if !matches!(new, Value::Text(_) | Value::Null) {
                return refuse("^ and ^ cannot be added", &[before, new]);
            }
            if texts.len() == at {
                texts.push(Vec::new());
            }
            append(&mut texts[at], bytes_of(before));
            append(&mut texts[at], bytes_of(new));
        }
    }
    if texts.is_empty() {
        return Ok(Item::list(vec![whole]));
    }
    let ended = texts.into_iter().map(|mut text| {
        append(&mut text, tail);
        Item::text(text.into())
    });
    Ok(Item::list(ended.collect()))
}

fn append(text: &mut Vec<u8>, piece: &[u8]) {
    let length = text.len() + piece.len();
    if length > budget::TEXT {
        // Says so and unwinds.
        budget::text(length);
    }
    charge(1 + piece.len() / 64);
    if length > text.capacity() {
        budget::grow(length.max(2 * text.len()));
    }
    text.extend_from_slice(piece);
}

fn items_of(value: &Value) -> &[Value] {
    if let Value::List(items) = value { items } else { &[] }
}

fn bytes_of(value: &Value) -> &[u8] {
    if let Value::Text(text) = value { text } else { &[] }
}

fn global(flags: &Item) -> Result<String, Fault> {
    match &flags.value {
        Value::Null => Ok("g".to_owned()),
        Value::Text(flags) => Ok(format!("{}g", String::from_utf8_lossy(flags))),
        other => refuse("^ and ^ cannot be added", &[other, &value::string("g")]),
    }
}

/// A regular expression and the text to search.
struct Search {
    text: Bytes,
    regex: Rc<Compiled>,
    all: bool,
}

/// A compiled regular expression with its cache key.
struct Compiled {
    source: Bytes,
    flags: Flags,
    regex: Regex,
    names: Vec<Option<Bytes>>,
    states: usize,
}

/// Up to which byte the characters of a text have been counted.
#[derive(Default)]
struct Places {
    bytes: usize,
    characters: usize,
}

impl Places {
    fn of(&mut self, text: &[u8], at: usize) -> usize {
        if at < self.bytes {
            (self.bytes, self.characters) = (0, 0);
        }
        self.characters += operators::characters(&text[self.bytes..at]);
        self.bytes = at;
        self.characters
    }
}

fn span(captures: &Captures<'_>, group: usize) -> Option<(usize, usize)> {
    captures.get(group)
}

type Captures<'t> = fancy_regex::Captures<'t, Haystack<'t>>;

/// The text of a search. The engine asks it for its bytes at almost each step, so the steps can be counted and charged while the search
/// runs: the time of a single search may grow with the square of the length of the text.
struct Haystack<'t> {
    text: &'t str,
    /// Nanoseconds of the most expensive step, which reads all of the text.
    dearest: usize,
    steps: Cell<u32>,
    since: Cell<Instant>,
}

impl Haystack<'_> {
    /// Charges the steps since the last time by the time that they took: a step may read one byte or all of them.
    #[cold]
    fn pay(&self) {
        let (now, steps) = (Instant::now(), self.steps.replace(0));
        let took = (now - self.since.replace(now)).as_nanos() as usize;
        // If it took longer than the steps can take, other threads had the core meanwhile.
        charge(took.min(steps as usize * self.dearest) / UNIT);
    }
}

impl Input for Haystack<'_> {
    type Match<'t>
        = (usize, usize)
    where
        Self: 't;

    fn len(&self) -> usize {
        self.text.len()
    }

    fn as_bytes(&self) -> &[u8] {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() == STEPS {
            self.pay();
        }
        self.text.as_bytes()
    }

    fn is_char_boundary(&self, at: usize) -> bool {
        self.text.is_char_boundary(at)
    }

    fn is_ascii(&self) -> bool {
        self.text.is_ascii()
    }

    fn prev_codepoint_ix(&self, at: usize) -> usize {
        self.text.prev_codepoint_ix(at)
    }

    fn make_match<'t>(&'t self, start: usize, end: usize) -> Self::Match<'t> {
        (start, end)
    }

    fn advance_position(&self, at: usize) -> usize {
        self.text.advance_position(at)
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Flags {
    all: bool,
    any_case: bool,
    extended: bool,
    newlines: bool,
    longest: bool,
    not_empty: bool,
}

impl Flags {
    fn from_item(item: &Item) -> Result<Self, Fault> {
        let mut flags = Flags::default();
        let letters = match &item.value {
            Value::Null => return Ok(flags),
            Value::Text(letters) => letters,
            other => return refuse("^ is not a string", &[other]),
        };
        for letter in letters.iter() {
            match letter {
                b'g' => flags.all = true,
                b'i' => flags.any_case = true,
                b'x' => flags.extended = true,
                b'm' | b'p' => flags.newlines = true,
                // `^` and `$` match at the ends of the whole text anyway.
                b's' => {}
                b'l' => flags.longest = true,
                b'n' => flags.not_empty = true,
                _ => return fail(format!("{} is not a valid modifier string", String::from_utf8_lossy(letters))),
            }
        }
        Ok(flags)
    }
}

/// Largest number of states of a regular expression.
const STATES: usize = 2_000;

/// Largest number of backtracking steps in one search. Most searches end before that, by the budget of their expression.
const BACK: usize = 10_000_000;

/// The number of steps that are charged together.
const STEPS: u32 = 32;

/// Nanoseconds of an expensive step, and of each byte that it reads, for eight states.
const STEP: usize = 1_000;
const BYTE: usize = 4;

/// Nanoseconds that one unit of work takes elsewhere.
const UNIT: usize = 40;

/// Compiled regular expressions that a thread caches.
const KEPT: usize = 4;

thread_local! {
    static RECENT: RefCell<Vec<Rc<Compiled>>> = const { RefCell::new(Vec::new()) };
}

fn compiled(source: &Bytes, flags: Flags) -> Result<Rc<Compiled>, Fault> {
    let same = |kept: &Rc<Compiled>| kept.source == source && kept.flags == flags;
    let kept = RECENT.with_borrow_mut(|recent| {
        let at = recent.iter().position(same)?;
        let found = recent.remove(at);
        recent.push(found.clone());
        Some(found)
    });
    if let Some(kept) = kept {
        return Ok(kept);
    }
    let states = source.len().saturating_mul(repetitions(source));
    if states > STATES {
        return fail("the regular expression is too large");
    }
    charge(50 * states);
    let Ok(pattern) = std::str::from_utf8(source) else { return fail("the regular expression is not UTF-8") };
    let mut builder = RegexBuilder::new(&ends(pattern));
    builder.case_insensitive(flags.any_case).verbose_mode(flags.extended).dot_matches_new_line(flags.newlines);
    builder.find_not_empty(flags.not_empty).leftmost_longest(flags.longest).oniguruma_mode(true);
    builder.backtrack_limit(BACK).max_prog_size(100_000).delegate_size_limit(4 << 20);
    builder.delegate_dfa_size_limit(4 << 20).delegate_dfa_skip_cache_capacity_check(false);
    let regex = match builder.build() {
        Ok(regex) => regex,
        Err(error) => return fail(format!("Regex failure: {error}")),
    };
    let names = regex.capture_names().map(|name| name.map(|name| Bytes::copy_from_slice(name.as_bytes()))).collect();
    let made = Rc::new(Compiled { source: source.clone(), flags, regex, names, states });
    RECENT.with_borrow_mut(|recent| {
        if recent.len() == KEPT {
            recent.remove(0);
        }
        recent.push(made.clone());
    });
    Ok(made)
}

/// The most that counted repetitions can multiply a pattern.
fn repetitions(source: &[u8]) -> usize {
    let counts = source.split(|byte| *byte == b'{').skip(1).map(|rest| {
        let inner = rest.split(|byte| *byte == b'}').next().unwrap_or_default();
        let numbers = inner.split(|byte| *byte == b',').filter_map(|digits| std::str::from_utf8(digits).ok());
        let parsed = numbers.map(|digits| match digits.trim() {
            "" => 1,
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().unwrap_or(usize::MAX),
            _ => 1,
        });
        parsed.max().unwrap_or(1).max(1)
    });
    counts.fold(1, usize::saturating_mul)
}

/// `$` also matches before a newline at the end, as in Perl.
fn ends(pattern: &str) -> String {
    if !pattern.contains('$') || pattern.contains("(?m") || pattern.contains("m)") || pattern.contains("m:") {
        return pattern.to_owned();
    }
    let (mut out, mut class, mut escaped) = (String::with_capacity(pattern.len() + 8), 0usize, false);
    for character in pattern.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => class += 1,
            ']' => class = class.saturating_sub(1),
            '$' if class == 0 => {
                out.push_str("(?=\\n?\\z)");
                continue;
            }
            _ => {}
        }
        out.push(character);
    }
    out
}

impl Search {
    fn new(text: &Item, source: &Item, flags: &Item) -> Result<Self, Fault> {
        let Value::Text(text) = &text.value else {
            return refuse("^ cannot be matched, as it is not a string", &[&text.value]);
        };
        let Value::Text(source) = &source.value else { return refuse("^ is not a string", &[&source.value]) };
        let flags = Flags::from_item(flags)?;
        let regex = compiled(source, flags)?;
        let text: &Bytes = text;
        // Replaces the invalid UTF-8 in text that an expression cut within a character.
        let text = match std::str::from_utf8(text) {
            Ok(_) => text.clone(),
            Err(_) => String::from_utf8_lossy(text).into_owned().into(),
        };
        Ok(Search { text, regex, all: flags.all })
    }

    fn haystack(&self) -> Haystack<'_> {
        let text = std::str::from_utf8(&self.text).unwrap_or_default();
        let dearest = STEP + text.len() * (1 + self.regex.states / 8) * BYTE;
        Haystack { text, dearest, steps: Cell::new(0), since: Cell::new(Instant::now()) }
    }

    /// The first match from an offset on.
    fn at<'t>(&self, haystack: &'t Haystack<'t>, start: usize) -> Result<Option<Captures<'t>>, Fault> {
        haystack.since.set(Instant::now());
        let found = self.regex.regex.captures_from_pos(haystack, start);
        let end = match &found {
            Ok(Some(captures)) => span(captures, 0).map_or(start, |span| span.1),
            _ => self.text.len(),
        };
        haystack.pay();
        charge(16 + (end.saturating_sub(start)) * (1 + self.regex.states / 8) / 16);
        match found {
            Ok(found) => Ok(found),
            Err(_) => fail("Regex failure: the regular expression goes back too often"),
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&Captures<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
        let (haystack, mut start) = (self.haystack(), 0);
        while start <= self.text.len() {
            let Some(captures) = self.at(&haystack, start)? else { return Ok(()) };
            let Some((from, to)) = span(&captures, 0) else { return Ok(()) };
            visit(&captures)?;
            if !self.all {
                return Ok(());
            }
            // After an empty match, continue at the next character, not at the same position.
            let next = haystack.text.get(to..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
            start = if from == to { to + next } else { to };
        }
        Ok(())
    }

    fn object(&self, captures: &Captures<'_>, places: &mut Places) -> Item {
        let (from, to) = span(captures, 0).unwrap_or_default();
        let (offset, length, string) = self.part(from, to, places);
        let groups = (1..captures.len()).map(|group| {
            let name = self.regex.names.get(group).cloned().flatten();
            let name = name.map_or(Item::null(), Item::text);
            let (offset, length, string) = match span(captures, group) {
                Some((from, to)) => self.part(from, to, places),
                None => (Item::from(-1isize), Item::from(0isize), Item::null()),
            };
            Item::object([("offset", offset), ("length", length), ("string", string), ("name", name)])
        });
        let groups = groups.collect();
        Item::object([("offset", offset), ("length", length), ("string", string), ("captures", groups)])
    }

    fn part(&self, from: usize, to: usize, places: &mut Places) -> (Item, Item, Item) {
        let offset = places.of(&self.text, from);
        let length = operators::characters(&self.text[from..to]);
        (offset.into(), length.into(), Item::text(self.text.slice(from..to)))
    }

    /// The named groups of a match; null for a group that did not match.
    fn named(&self, captures: &Captures<'_>) -> Item {
        let mut fields = value::Fields::default();
        budget::grow(bounded::OBJECT);
        for (group, name) in self.regex.names.iter().enumerate() {
            let Some(name) = name else { continue };
            let found = span(captures, group).map_or(Item::null(), |(from, to)| Item::text(self.text.slice(from..to)));
            budget::grow(bounded::FIELD);
            fields.insert(value::text(name.clone()), found.value);
        }
        Item::made(value::fields_of(fields), 0)
    }
}
