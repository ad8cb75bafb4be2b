//! The functions that expressions may call: the engine's own library without what reads the machine or has no bound.

use std::collections::HashSet;

use bytes::Bytes;
use jaq_core::box_iter::box_once;
use jaq_core::data::JustLut;
use jaq_core::load::parse::Def;
use jaq_core::native::{Fun, bome, run, unary, v};
use jaq_core::{Exn, Native, RunPtr};
use jaq_json::{Val, read::parse_single_num};

use super::budget::{self, Level, charge, step};
use super::item::{self, Fault, Item, fail};
use super::value::kind;
use crate::format::json;

/// What the engine runs on.
pub type Engine = JustLut<Item>;

/// Counts a unit of work and gives what it got.
pub const TICK: &str = "__tick";

/// Stands in loops: counts, also the steps of a path. No update goes through it, as that would recurse.
pub const LOOP: &str = "__loop";

/// Stands in folds: counts, and bounds how deep updates through a fold recurse.
pub const FOLD: &str = "__fold";

/// Stands behind `..`: the engine takes each output through every level above it.
pub const NODE: &str = "__node";

/// Functions that are not there, and why.
pub const REFUSED: &[(&str, &str)] = &[
    ("env", "it reads the gateway's environment"),
    ("now", "its result would depend on the clock"),
    ("localtime", "it reads the machine's time zone"),
    ("strflocaltime", "it reads the machine's time zone"),
    ("input", "there is one input only, `.`"),
    ("inputs", "there is one input only, `.`"),
    ("debug", "expressions do not write to the gateway's log"),
    ("stderr", "expressions do not write to the gateway's log"),
    ("halt", "it would stop the gateway"),
    ("halt_error", "it would stop the gateway"),
    ("input_filename", "the input is no file"),
    ("input_line_number", "the input is no file"),
    ("jn", "its work has no bound"),
    ("yn", "its work has no bound"),
];

/// Parts of the library that are left out together with what is refused, or are written anew below.
const REPLACED: &[&str] = &[
    "debug_empty",
    "stderr_empty",
    "flatten",
    "totype",
    "tonumber",
    "toboolean",
    "repeat",
    "while",
    "until",
    "fromjson",
    "tojson",
    "length",
    "contains",
    "has",
    "indices",
    "bsearch",
    "tobytes",
];

/// Native functions of the engine that get a guard in front of them.
const GUARDED: &[(&str, &str)] =
    &[("matches", "__matches"), ("split_matches", "__split_matches"), ("split_", "__split")];

const DEFINITIONS: &str = r#"
def repeat(f): def rec: __loop | (f, rec); rec;
def while(cond; update): def rec: __loop | if cond then ., (update | rec) else empty end; rec;
def until(cond; update): def rec: __loop | if cond then . else update | rec end; rec;
def matches($re; $flags): __weigh($re) | __matches($re; $flags);
def split_matches($re; $flags): __weigh($re) | __split_matches($re; $flags);
def split_($re; $flags): __weigh($re) | __split($re; $flags);
def flatten: flatten(1000000);
def ascii: [.] | implode;
def toarray: if isarray then . else [.] end;
def leaf_paths: paths(scalars);
"#;

/// The engine's loop, which runs through `..` where it can: that is bounded by the depth of the value.
const RECURSE: &str = r#"
def recurse(f): def rec: __loop | (., (f | rec)); rec;
def recurse: ..;
"#;

/// The definitions, in order: each uses only those before it.
pub fn definitions() -> Vec<Def<&'static str>> {
    let theirs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).filter(|def| !left_out(def.name));
    let ours = |source| jaq_core::load::parse(source, |parser| parser.defs()).expect("our own definitions parse");
    let mut definitions = Vec::new();
    let mut loops = ours(DEFINITIONS);
    for def in theirs {
        match (def.name, def.args.len()) {
            ("recurse", 0) => {}
            ("recurse", 1) => {
                definitions.extend(ours(RECURSE));
                // What these use of the library stands before: `empty`, `implode`'s is native.
                let at = loops.iter().position(|it| it.name == "flatten").unwrap_or(loops.len());
                definitions.extend(loops.drain(..at));
            }
            _ => definitions.push(def),
        }
    }
    definitions.extend(loops);
    definitions
}

fn left_out(name: &str) -> bool {
    REPLACED.contains(&name) || REFUSED.iter().any(|(refused, _)| *refused == name)
}

/// The native functions.
pub fn natives() -> Vec<Fun<Engine>> {
    let theirs = jaq_core::funs::<Engine>().chain(jaq_std::funs()).filter(|fun| !left_out(fun.0)).map(|mut fun| {
        if let Some((_, guarded)) = GUARDED.iter().find(|(name, _)| *name == fun.0) {
            fun.0 = guarded;
        }
        fun
    });
    let ours: [(&'static str, usize, RunPtr<Engine>); 12] = [
        ("__weigh", 1, |cv| unary(cv, weigh)),
        ("length", 0, |cv| bome(length(&cv.1))),
        ("contains", 1, |cv| unary(cv, |it, other| Ok(contains(&it.value, &other.value).into()))),
        ("has", 1, |cv| unary(cv, |it, key| has(&it, &key))),
        ("indices", 1, |cv| unary(cv, |it, wanted| indices(&it, &wanted))),
        ("bsearch", 1, |cv| unary(cv, |it, wanted| bsearch(&it, &wanted))),
        ("flatten", 1, |cv| unary(cv, |it, depth| flatten(&it, &depth))),
        ("tojson", 0, |cv| bome(Ok(item::written(&cv.1.value)))),
        ("fromjson", 0, |cv| bome(parse(&cv.1))),
        ("tonumber", 0, |cv| bome(number(cv.1))),
        ("toboolean", 0, |cv| bome(boolean(cv.1))),
        ("tostring", 0, |cv| bome(Ok(jaq_core::ValT::into_string(cv.1)))),
    ];
    theirs.chain(ours.into_iter().map(|(name, arity, f)| run::<Engine>((name, v(arity), f)))).chain(meters()).collect()
}

fn meters() -> [Fun<Engine>; 4] {
    let tick = Native::new(|cv| {
        charge(1);
        box_once(Ok(cv.1))
    });
    let tick = tick.with_paths(|cv| {
        charge(1);
        box_once(Ok(cv.1))
    });
    let tick = tick.with_update(|cv, update| {
        charge(1);
        update(cv.1)
    });
    let loop_ = Native::new(|cv| {
        // A turn is some ten steps of the engine.
        charge(8);
        // A loop's pending outputs are kept.
        budget::grow(128);
        box_once(Ok(cv.1))
    });
    let loop_ = loop_.with_paths(|cv| {
        step();
        box_once(Ok(cv.1))
    });
    let fold = Native::new(|cv| {
        charge(1);
        box_once(Ok(cv.1))
    });
    let fold = fold.with_paths(|cv| {
        step();
        box_once(Ok(cv.1))
    });
    let fold = fold.with_update(|cv, update| {
        let _level = Level::enter();
        // Within the level to the end, so that what is nested is counted as nested.
        let outputs: Vec<Result<Item, Exn<'_, Item>>> = update(cv.1).collect();
        Box::new(outputs.into_iter())
    });
    let node = Native::new(|cv| {
        charge(16);
        box_once(Ok(cv.1))
    });
    let node = node.with_paths(|cv| {
        charge(16);
        box_once(Ok(cv.1))
    });
    let node = node.with_update(|cv, update| {
        charge(16);
        update(cv.1)
    });
    [(NODE, v(0), node), (TICK, v(0), tick), (LOOP, v(0), loop_), (FOLD, v(0), fold)]
}

/// Refuses what a regular expression would make too much work of: the engine bounds neither repetitions nor matches.
fn weigh(text: Item, pattern: Item) -> Result<Item, Fault> {
    const STATES: usize = 2_000;
    const MATCHES: usize = 1 << 18;
    let (Val::TStr(bytes), Val::TStr(source)) = (&text.value, &pattern.value) else {
        return fail(format!("cannot match {} with {}", kind(&text.value), kind(&pattern.value)));
    };
    let states = source.len().saturating_mul(repetitions(source));
    let groups = 1 + memchr::memchr_iter(b'(', source).count();
    if states > STATES || groups.saturating_mul(bytes.len() + 1) > MATCHES {
        return fail("the text or the regular expression is too large");
    }
    charge(50 * states + bytes.len() * (states / 8 + groups));
    Ok(text)
}

/// How often counted repetitions can multiply a pattern at most.
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

fn length(it: &Item) -> Result<Item, Fault> {
    charge(1 + item::length(&it.value) / 64);
    Ok(match &it.value {
        Val::Null => 0usize.into(),
        Val::Bool(_) => return fail("a boolean has no length"),
        Val::Num(_) if it.value < Val::from(0isize) => return -it.clone(),
        Val::Num(_) => it.clone(),
        Val::TStr(text) => String::from_utf8_lossy(text).chars().count().into(),
        Val::BStr(bytes) => bytes.len().into(),
        Val::Arr(items) => items.len().into(),
        Val::Obj(fields) => fields.len().into(),
    })
}

fn contains(it: &Val, other: &Val) -> bool {
    charge(1);
    match (it, other) {
        (Val::TStr(text), Val::TStr(part)) => {
            charge((text.len() + part.len()) / 64);
            memchr::memmem::find(text, part).is_some()
        }
        (Val::Arr(items), Val::Arr(parts)) => parts.iter().all(|part| items.iter().any(|item| contains(item, part))),
        (Val::Obj(fields), Val::Obj(parts)) => {
            parts.iter().all(|(key, part)| fields.get(key).is_some_and(|field| contains(field, part)))
        }
        _ => item::same(it, other),
    }
}

fn has(it: &Item, key: &Item) -> Result<Item, Fault> {
    charge(1 + item::length(&key.value) / 64);
    match (&it.value, &key.value) {
        (Val::Obj(fields), name @ Val::TStr(_)) => Ok(fields.contains_key(name).into()),
        (Val::Arr(items), Val::Num(number)) => {
            Ok(number.as_isize().and_then(|at| usize::try_from(at).ok()).is_some_and(|at| at < items.len()).into())
        }
        (value, key) => fail(format!("cannot look for {} in {}", kind(key), kind(value))),
    }
}

fn indices(it: &Item, wanted: &Item) -> Result<Item, Fault> {
    match (&it.value, &wanted.value) {
        (Val::Null, _) => Ok(Item::bounded(Val::Null, 0)),
        (Val::TStr(_), Val::TStr(part)) if part.is_empty() => Ok(std::iter::empty().collect()),
        (Val::TStr(text), Val::TStr(part)) => {
            charge((text.len() + part.len()) / 16);
            let (mut at, mut characters) = (0, 0usize);
            let finder = memchr::memmem::Finder::new(&**part);
            let places = std::iter::from_fn(|| {
                let found = at + finder.find(text.get(at..)?)?;
                charge(1 + part.len() / 16);
                characters += String::from_utf8_lossy(&text[at..found]).chars().count();
                let place = characters;
                // Occurrences may overlap, but begin with characters.
                let first = text[found..].iter().skip(1).take_while(|byte| **byte & 0xc0 == 0x80).count() + 1;
                characters += 1;
                at = found + first;
                Some(Item::from(place))
            });
            Ok(places.collect())
        }
        (Val::Arr(items), Val::Arr(wanted)) => Ok(item::windows(items, wanted).map(Item::from).collect()),
        (Val::Arr(items), wanted) => {
            let found = items.iter().enumerate().filter(|(_, item)| item::same(item, wanted));
            Ok(found.map(|(at, _)| Item::from(at)).collect())
        }
        (value, wanted) => fail(format!("cannot look for {} in {}", kind(wanted), kind(value))),
    }
}

fn bsearch(it: &Item, wanted: &Item) -> Result<Item, Fault> {
    let Val::Arr(items) = &it.value else { return fail(format!("cannot search {}", kind(&it.value))) };
    let found = items.binary_search_by(|item| item::compare(item, &wanted.value));
    Ok(found.map_or_else(|at| -1 - at as isize, |at| at as isize).into())
}

fn flatten(it: &Item, depth: &Item) -> Result<Item, Fault> {
    let Val::Arr(items) = &it.value else { return fail(format!("cannot flatten {}", kind(&it.value))) };
    let Some(levels) = jaq_std::ValT::as_isize(depth) else { return fail("flatten takes a whole number") };
    let mut flat = Vec::new();
    level(items, levels.max(0), &mut flat);
    Ok(Item::incoming(super::value::list(flat)))
}

fn level(items: &[Val], levels: isize, flat: &mut Vec<Val>) {
    for inner in items {
        charge(1);
        match inner {
            Val::Arr(items) if levels > 0 => level(items, levels - 1, flat),
            other => {
                budget::grow(24);
                flat.push(other.clone());
            }
        }
    }
}

fn parse(it: &Item) -> Result<Item, Fault> {
    let Val::TStr(text) = &it.value else { return fail(format!("cannot parse {} as JSON", kind(&it.value))) };
    charge(1 + text.len() / 4);
    // A list of empty objects is the dearest: 3 bytes that become some 150.
    budget::grow(16 * text.len());
    let bytes: &Bytes = text;
    json::read(bytes).map(Item::incoming).or_else(|error| fail(error.detail()))
}

fn number(it: Item) -> Result<Item, Fault> {
    match &it.value {
        Val::Num(_) => Ok(it),
        Val::TStr(text) if text.len() <= 1000 && text.last().is_some_and(u8::is_ascii_digit) => {
            charge(text.len());
            match parse_single_num(text) {
                Some(number) => Ok(Item::bounded(Val::Num(number), 0)),
                None => fail("cannot parse the string as a number"),
            }
        }
        other => fail(format!("cannot parse {} as a number", kind(other))),
    }
}

fn boolean(it: Item) -> Result<Item, Fault> {
    match &it.value {
        Val::Bool(_) => Ok(it),
        Val::TStr(text) if &***text == b"true" => Ok(true.into()),
        Val::TStr(text) if &***text == b"false" => Ok(false.into()),
        other => fail(format!("cannot parse {} as a boolean", kind(other))),
    }
}

/// The names that are called by a set of definitions, those included: what an expression needs of the library.
pub fn needed<'s>(mut names: HashSet<&'s str>, definitions: Vec<Def<&'s str>>) -> Vec<Def<&'s str>> {
    let mut kept = Vec::new();
    for def in definitions.into_iter().rev() {
        if names.contains(def.name) {
            super::scope::calls(&def.body, &mut names);
            kept.push(def);
        }
    }
    kept.reverse();
    kept
}
