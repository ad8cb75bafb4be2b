//! Runs expressions that only take parts and join them directly on the bytes of JSON.
//!
//! These are paths, slices, objects and lists of them, literals, texts with values in them, `//`, `+` except for
//! numbers, `length`, comparison with a literal, and the same for each selected item of a list (`[.items[] |
//! select(.open) | {id}]`). One walk over each source finds all parts, and they are copied as written. Any difficulty,
//! and above all any error, is left to the engine. A result from here is always the one that the engine would give.

use bytes::Bytes;

use crate::jq::syntax::ast::{self, Compare, Math, Missing, Operator, Part, Term};
use crate::jq::value::byte_arithmetic::{self, comma, is_whole};
use crate::json::fields::{Field, fields};
use crate::json::walk::{self, Items};
use crate::json::{DEPTH, Data, Raw, SIZE, is_small, to_bytes, write_string};

/// An expression, ready to run on bytes.
pub struct Native {
    /// The parts to take from each source.
    frames: Vec<Tree>,
    /// Which source fills which frame.
    sources: Vec<(Source, usize)>,
    make: Make,
    slots: usize,
    /// Levels that the result adds to its deepest part.
    levels: usize,
    /// Whether the result is one unchanged part.
    part: Option<OnePart>,
}

/// An expression that only takes one part.
#[derive(Clone, Copy)]
enum OnePart {
    /// `.`
    Item,
    /// The value at a path.
    Slot(usize),
}

enum Source {
    Item,
    Variable(String),
}

/// The parts to take from a value and from the values within it.
#[derive(Default)]
struct Tree {
    slots: Vec<usize>,
    fields: Vec<(String, Tree)>,
    items: Vec<(isize, Tree)>,
}

/// How to make a result.
enum Make {
    Literal(Vec<u8>),
    Take(Take),
    Object(Vec<(ObjectKey, Make)>),
    List(Vec<Make>),
    /// A list with one result for each selected item of a list.
    Each {
        list: usize,
        frame: usize,
        wanted: Option<Box<Make>>,
        make: Box<Make>,
    },
    /// `x // y`
    Either(Box<Make>, Box<Make>),
    /// A string with values in it.
    Text(Vec<Piece>),
    /// `x == "word"`
    Equals {
        value: Box<Make>,
        literal: Literal,
        /// Whether the operator is `==`; otherwise it is `!=`.
        same: bool,
    },
    /// `x + y`
    Sum(Box<Make>, Box<Make>),
    /// `x | length`
    Length(Box<Make>),
}

enum Piece {
    /// The text as it is in JSON, without quotes.
    Plain(Vec<u8>),
    Made(Make),
}

/// The literal in a comparison.
enum Literal {
    Text(String),
    /// An unsigned integer, as written.
    Whole(Vec<u8>),
    Word(Vec<u8>),
}

struct Take {
    slot: usize,
    slice: Option<Slice>,
}

type Slice = (Option<isize>, Option<isize>);

enum ObjectKey {
    /// With quotes and colon.
    Text(Vec<u8>),
    Taken(Take),
}

impl Native {
    /// The expression, if it is one that can run on bytes.
    pub fn from_term(term: &Term<'_>) -> Option<Self> {
        let mut builder =
            Builder { frames: Vec::new(), sources: Vec::new(), slots: 0, innermost: None, operates: false, deepest: 0 };
        let item = SourcePart { frame: builder.source(Source::Item), steps: Vec::new() };
        let make = builder.make(term, &item, 0)?;
        let Builder { mut frames, mut sources, slots, deepest, .. } = builder;
        // It is kept for a long time, so spare capacity is freed.
        frames.iter_mut().for_each(Tree::fit);
        frames.shrink_to_fit();
        sources.shrink_to_fit();
        let part = match &make {
            Make::Take(Take { slot, slice: None }) if frames[item.frame].slots.contains(slot) => Some(OnePart::Item),
            Make::Take(Take { slot, slice: None }) => Some(OnePart::Slot(*slot)),
            _ => None,
        };
        Some(Native { frames, sources, make, slots, levels: deepest, part })
    }

    /// The result; `None` if the engine has to find it.
    pub fn run(&self, item: &Data, lookup: &mut dyn FnMut(&str) -> Data) -> Option<Data> {
        if let (Some(OnePart::Item), true) = (self.part, self.sources.len() == 1) {
            return match item {
                Data::Value(value) if !is_small(value) => None,
                small => Some(small.clone()),
            };
        }
        let mut inputs: Vec<(usize, Raw)> = Vec::with_capacity(self.sources.len());
        for (source, frame) in &self.sources {
            if self.frames[*frame].is_empty() {
                continue;
            }
            let data = match source {
                Source::Item => item.clone(),
                Source::Variable(name) => lookup(name),
            };
            inputs.push((*frame, raw(data)?));
        }
        let depth = inputs.iter().map(|(_, raw)| usize::from(raw.depth())).max().unwrap_or(0) + self.levels;
        if depth > DEPTH {
            return None;
        }
        let mut slots: Vec<&[u8]> = vec![b"null"; self.slots];
        for (frame, raw) in &inputs {
            self.frames[*frame].fill_from(raw, &mut slots)?;
        }
        if let Some(OnePart::Slot(slot)) = self.part {
            return Some(Raw::sound(Bytes::copy_from_slice(slots[slot]), depth as u8).into());
        }
        let mut out = Vec::with_capacity(slots.iter().map(|slot| slot.len()).sum::<usize>().min(SIZE) + 64);
        self.put(&self.make, &mut slots, &mut out)?;
        Some(Raw::sound(out.into(), depth as u8).into())
    }

    fn put(&self, make: &Make, slots: &mut Vec<&[u8]>, out: &mut Vec<u8>) -> Option<()> {
        if out.len() > SIZE {
            return None;
        }
        match make {
            Make::Literal(text) => out.extend_from_slice(text),
            Make::Take(take) => take.put(slots, out)?,
            Make::Object(entries) => self.object(entries, slots, out)?,
            Make::List(items) => {
                out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    comma(index, out);
                    self.put(item, slots, out)?;
                }
                out.push(b']');
            }
            Make::Each { list, frame, wanted, make } => {
                out.push(b'[');
                let frame = &self.frames[*frame];
                let mut count = 0;
                for item in Items::of(slots[*list])? {
                    frame.clear(slots);
                    frame.fill(item, slots)?;
                    if let Some(wanted) = wanted
                        && !self.holds(wanted, slots, out)?
                    {
                        continue;
                    }
                    comma(count, out);
                    self.put(make, slots, out)?;
                    count += 1;
                }
                out.push(b']');
            }
            Make::Either(first, other) => {
                let start = out.len();
                self.put(first, slots, out)?;
                if !is_true(&out[start..]) {
                    out.truncate(start);
                    self.put(other, slots, out)?;
                }
            }
            Make::Text(pieces) => self.text(pieces, slots, out)?,
            Make::Sum(left, right) => {
                let start = out.len();
                self.put(left, slots, out)?;
                let middle = out.len();
                self.put(right, slots, out)?;
                byte_arithmetic::add(out, start, middle)?;
            }
            Make::Length(value) => {
                let start = out.len();
                self.put(value, slots, out)?;
                byte_arithmetic::measure(out, start)?;
            }
            Make::Equals { value, literal, same } => {
                let start = out.len();
                self.put(value, slots, out)?;
                let equal = literal.equals(&out[start..])?;
                out.truncate(start);
                out.extend_from_slice(if equal == *same { b"true" } else { b"false" });
            }
        }
        Some(())
    }

    /// Whether a condition is true.
    fn holds(&self, condition: &Make, slots: &mut Vec<&[u8]>, out: &mut Vec<u8>) -> Option<bool> {
        let start = out.len();
        self.put(condition, slots, out)?;
        let holds = is_true(&out[start..]);
        out.truncate(start);
        Some(holds)
    }

    fn text(&self, pieces: &[Piece], slots: &mut Vec<&[u8]>, out: &mut Vec<u8>) -> Option<()> {
        out.push(b'"');
        for piece in pieces {
            let make = match piece {
                Piece::Plain(plain) => {
                    out.extend_from_slice(plain);
                    continue;
                }
                Piece::Made(make) => make,
            };
            let start = out.len();
            self.put(make, slots, out)?;
            match out[start] {
                // Two halves of a surrogate pair may meet here.
                b'"' if memchr::memmem::find(&out[start..], b"\\u").is_some() => return None,
                b'"' => {
                    out.pop();
                    out.remove(start);
                }
                b'n' | b't' | b'f' => {}
                _ if is_whole(&out[start..]) => {}
                _ => return None,
            }
        }
        out.push(b'"');
        Some(())
    }

    fn object(&self, entries: &[(ObjectKey, Make)], slots: &mut Vec<&[u8]>, out: &mut Vec<u8>) -> Option<()> {
        out.push(b'{');
        let taken = entries.iter().any(|(key, _)| matches!(key, ObjectKey::Taken(_)));
        let mut keys = Vec::new();
        for (index, (key, make)) in entries.iter().enumerate() {
            comma(index, out);
            let start = out.len();
            match key {
                ObjectKey::Text(text) => out.extend_from_slice(text),
                ObjectKey::Taken(take) => {
                    take.put(slots, out)?;
                    out.push(b':');
                }
            }
            if taken {
                let text = walk::text(out[start..].strip_suffix(b":")?)?.into_owned();
                // If a key occurs twice, the last value counts, at the position of the first.
                if keys.contains(&text) {
                    return None;
                }
                keys.push(text);
            }
            self.put(make, slots, out)?;
        }
        out.push(b'}');
        Some(())
    }
}

impl Literal {
    /// The literal, if a term is one that a value may be compared with.
    fn from_term(term: &Term<'_>) -> Option<Self> {
        match term {
            Term::Text(..) => term.text().map(Literal::Text),
            Term::Number(digits) if is_whole(digits.as_bytes()) => Some(Literal::Whole(digits.as_bytes().to_vec())),
            Term::Call("null" | "true" | "false", _) => literal(term).map(Literal::Word),
            _ => None,
        }
    }

    fn equals(&self, value: &[u8]) -> Option<bool> {
        let number = value.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
        match self {
            Literal::Text(text) => Some(walk::text(value).is_some_and(|value| *value == *text.as_bytes())),
            Literal::Word(word) => Some(value == word.as_slice()),
            Literal::Whole(digits) if is_whole(value) => Some(value == digits.as_slice()),
            // 1.0 equals 1.
            Literal::Whole(_) => (!number).then_some(false),
        }
    }
}

/// Whether it counts as true: it is neither false nor null.
fn is_true(value: &[u8]) -> bool {
    value != b"null" && value != b"false"
}

fn raw(data: Data) -> Option<Raw> {
    match data {
        Data::Json(raw) => Some(raw),
        // Larger values are already parsed, and the engine is fast with them.
        Data::Value(value) if is_small(&value) => Some(Raw::sound(to_bytes(&value).ok()?, 1)),
        Data::Value(_) => None,
    }
}

impl Take {
    fn put(&self, slots: &[&[u8]], out: &mut Vec<u8>) -> Option<()> {
        let value = slots[self.slot];
        match self.slice {
            None => out.extend_from_slice(value),
            Some(slice) => cut(value, slice, out)?,
        }
        Some(())
    }
}

/// Appends a slice of a text, counted in characters, or of a list; a slice of null is null.
fn cut(value: &[u8], (from, to): Slice, out: &mut Vec<u8>) -> Option<()> {
    let range = |length: usize| {
        let place = |index: isize| match usize::try_from(index) {
            Ok(index) => index.min(length),
            Err(_) => length.saturating_sub(index.unsigned_abs()),
        };
        let from = from.map_or(0, place);
        from..to.map_or(length, place).max(from)
    };
    match value.first()? {
        b'n' => out.extend_from_slice(b"null"),
        b'"' => {
            let text = walk::text(value)?;
            if text.is_ascii() {
                write_string(std::str::from_utf8(&text[range(text.len())]).ok()?, out);
            } else {
                let text = std::str::from_utf8(&text).ok()?;
                let range = range(text.chars().count());
                let at = |index: usize| text.char_indices().nth(index).map_or(text.len(), |(at, _)| at);
                write_string(&text[at(range.start)..at(range.end)], out);
            }
        }
        b'[' => {
            let range = range(Items::of(value)?.count());
            out.push(b'[');
            for (index, item) in Items::of(value)?.take(range.end).skip(range.start).enumerate() {
                comma(index, out);
                out.extend_from_slice(item);
            }
            out.push(b']');
        }
        _ => return None,
    }
    Some(())
}

impl Tree {
    fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.fields.is_empty() && self.items.is_empty()
    }

    fn clear(&self, slots: &mut Vec<&[u8]>) {
        self.slots.iter().for_each(|slot| slots[*slot] = b"null");
        self.fields.iter().for_each(|(_, inner)| inner.clear(slots));
        self.items.iter().for_each(|(_, inner)| inner.clear(slots));
    }

    /// Finds the parts in a document, using its recorded fields if there are any.
    fn fill_from<'a>(&self, raw: &'a Raw, slots: &mut Vec<&'a [u8]>) -> Option<()> {
        let fields = if self.items.is_empty() && !self.fields.is_empty() { raw.fields() } else { None };
        let Some(mut fields) = fields else { return self.fill(raw.bytes(), slots) };
        self.slots.iter().for_each(|slot| slots[*slot] = raw.bytes());
        fields.try_for_each(|field| self.take(field, slots))
    }

    /// Finds the parts in the value of a field.
    fn take<'a>(&self, field: Field<'a>, slots: &mut Vec<&'a [u8]>) -> Option<()> {
        let Some((_, tree)) = self.fields.iter().find(|(name, _)| field.is(name)) else { return Some(()) };
        // The same key may have come before.
        tree.clear(slots);
        tree.fill(field.value, slots)
    }

    /// Finds the parts in a value; `None` if a path does not fit the value.
    fn fill<'a>(&self, value: &'a [u8], slots: &mut Vec<&'a [u8]>) -> Option<()> {
        self.slots.iter().for_each(|slot| slots[*slot] = value);
        if self.fields.is_empty() && self.items.is_empty() {
            return Some(());
        }
        match value.first()? {
            b'n' => {
                self.fields.iter().for_each(|(_, inner)| inner.clear(slots));
                self.items.iter().for_each(|(_, inner)| inner.clear(slots));
            }
            b'{' if self.items.is_empty() => {
                fields(value, &mut |field| self.take(field, slots))?;
            }
            b'[' if self.fields.is_empty() => {
                let negative = self.items.iter().any(|(index, _)| *index < 0);
                let length = if negative { Items::of(value)?.count() as isize } else { 0 };
                for (at, inner) in Items::of(value)?.enumerate() {
                    let at = at as isize;
                    for (_, tree) in
                        self.items.iter().filter(|(index, _)| *index == at || *index == at - length && negative)
                    {
                        tree.fill(inner, slots)?;
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Frees spare capacity.
    fn fit(&mut self) {
        self.slots.shrink_to_fit();
        self.fields.shrink_to_fit();
        self.items.shrink_to_fit();
        let inner = self.fields.iter_mut().map(|(_, tree)| tree);
        inner.chain(self.items.iter_mut().map(|(_, tree)| tree)).for_each(Tree::fit);
    }

    fn at(&mut self, steps: &[Step]) -> &mut Tree {
        let Some((step, rest)) = steps.split_first() else { return self };
        let inner = match step {
            Step::Field(name) => entry(&mut self.fields, name.clone()),
            Step::Item(index) => entry(&mut self.items, *index),
        };
        inner.at(rest)
    }
}

fn entry<K: PartialEq>(list: &mut Vec<(K, Tree)>, key: K) -> &mut Tree {
    let found = list.iter().position(|(known, _)| *known == key);
    let index = found.unwrap_or_else(|| {
        list.push((key, Tree::default()));
        list.len() - 1
    });
    &mut list[index].1
}

#[derive(Clone, PartialEq)]
enum Step {
    Field(String),
    Item(isize),
}

/// A part of a source.
#[derive(Clone)]
struct SourcePart {
    frame: usize,
    steps: Vec<Step>,
}

/// The target of a path.
enum Reached {
    Place(SourcePart),
    Slice(SourcePart, Slice),
}

impl Reached {
    fn is_within(&self, outer: &SourcePart) -> bool {
        let (Reached::Place(place) | Reached::Slice(place, _)) = self;
        place.frame == outer.frame && place.steps.starts_with(&outer.steps)
    }
}

struct Builder {
    frames: Vec<Tree>,
    sources: Vec<(Source, usize)>,
    slots: usize,
    /// The frame of the items that the innermost `[]` runs over.
    innermost: Option<usize>,
    /// Whether the result is the operand of an operator.
    operates: bool,
    deepest: usize,
}

impl Builder {
    fn source(&mut self, source: Source) -> usize {
        let frame = self.frame();
        self.sources.push((source, frame));
        frame
    }

    fn frame(&mut self) -> usize {
        self.frames.push(Tree::default());
        self.frames.len() - 1
    }

    fn variable(&mut self, name: &str) -> SourcePart {
        let name = name.trim_start_matches('$');
        let known = self.sources.iter().find(|(source, _)| matches!(source, Source::Variable(known) if known == name));
        let frame = known.map(|(_, frame)| *frame);
        let frame = frame.unwrap_or_else(|| self.source(Source::Variable(name.to_owned())));
        SourcePart { frame, steps: Vec::new() }
    }

    fn slot(&mut self, place: &SourcePart) -> usize {
        let tree = self.frames[place.frame].at(&place.steps);
        if let Some(slot) = tree.slots.first() {
            return *slot;
        }
        tree.slots.push(self.slots);
        self.slots += 1;
        self.slots - 1
    }

    fn make(&mut self, term: &Term<'_>, base: &SourcePart, level: usize) -> Option<Make> {
        self.deepest = self.deepest.max(level);
        if let Some(take) = self.take(term, base) {
            return Some(Make::Take(take));
        }
        Some(match term {
            Term::Text(None, pieces) if pieces.iter().any(|piece| matches!(piece, ast::Piece::Term(_))) => {
                Make::Text(pieces.iter().map(|piece| self.piece(piece, base, level)).collect::<Option<_>>()?)
            }
            Term::Binary(first, Operator::Alternative, other) => {
                let first = Box::new(self.make(first, base, level)?);
                Make::Either(first, Box::new(self.make(other, base, level)?))
            }
            Term::Binary(value, Operator::Compare(compare @ (Compare::Equal | Compare::Unequal)), literal) => {
                let literal = Literal::from_term(literal)?;
                let value = self.operand(value, base, level)?;
                Make::Equals { value, literal, same: matches!(compare, Compare::Equal) }
            }
            // Sums of numbers are left to the engine.
            Term::Binary(left, Operator::Math(Math::Add), right) if !is_number(left) && !is_number(right) => {
                let left = self.operand(left, base, level)?;
                Make::Sum(left, self.operand(right, base, level)?)
            }
            Term::Call("length", arguments) if arguments.is_empty() => {
                Make::Length(self.operand(&Term::Id, base, level)?)
            }
            Term::Number(_) | Term::Negate(_) | Term::Text(..) | Term::List(None) => {
                self.deepest = self.deepest.max(level + 1);
                Make::Literal(literal(term)?)
            }
            Term::Call(_, arguments) if arguments.is_empty() => Make::Literal(literal(term)?),
            Term::Call("map", arguments) => match arguments.as_slice() {
                [each] => self.each(base.clone(), each, level + 1)?,
                _ => return None,
            },
            Term::Pipe(left, right) => match self.reach(left, base)? {
                Reached::Place(place) => {
                    // Read it even if the result does not use it: it may not fit the value, which is an error.
                    self.slot(&place);
                    self.make(right, &place, level)?
                }
                Reached::Slice(..) => return None,
            },
            Term::Object(entries) => Make::Object(self.object(entries, base, level + 1)?),
            Term::List(Some(inner)) => self.list(inner, base, level + 1)?,
            _ => return None,
        })
    }

    /// The operand of an operator.
    fn operand(&mut self, term: &Term<'_>, base: &SourcePart, level: usize) -> Option<Box<Make>> {
        let outer = std::mem::replace(&mut self.operates, true);
        let made = self.make(term, base, level);
        self.operates = outer;
        made.map(Box::new)
    }

    fn piece(&mut self, piece: &ast::Piece<'_>, base: &SourcePart, level: usize) -> Option<Piece> {
        let plain = |text: &str| {
            let mut written = Vec::new();
            write_string(text, &mut written);
            Piece::Plain(written[1..written.len() - 1].to_vec())
        };
        Some(match piece {
            ast::Piece::Plain(text) => plain(text),
            ast::Piece::Escaped(character) => plain(&character.to_string()),
            ast::Piece::Term(term) => Piece::Made(self.make(term, base, level)?),
        })
    }

    /// Whether it is the same for all items that the innermost `[]` runs over.
    fn is_outer(&self, place: &SourcePart) -> bool {
        self.innermost.is_some_and(|frame| frame != place.frame)
    }

    fn take(&mut self, term: &Term<'_>, base: &SourcePart) -> Option<Take> {
        match self.reach(term, base)? {
            // Slicing or calculating the same value again for every item could cost more than it saves.
            Reached::Slice(place, _) if self.is_outer(&place) => None,
            Reached::Place(place) if self.operates && self.is_outer(&place) => None,
            Reached::Place(place) => Some(Take { slot: self.slot(&place), slice: None }),
            Reached::Slice(place, slice) => Some(Take { slot: self.slot(&place), slice: Some(slice) }),
        }
    }

    fn object(
        &mut self,
        entries: &[(Term<'_>, Option<Term<'_>>)],
        base: &SourcePart,
        level: usize,
    ) -> Option<Vec<(ObjectKey, Make)>> {
        self.deepest = self.deepest.max(level);
        let mut made: Vec<(ObjectKey, Make)> = Vec::new();
        for (key, value) in entries {
            let (key, make) = match (key, value) {
                (Term::Variable(name), None) => {
                    let place = self.variable(name);
                    let make = Make::Take(Take { slot: self.slot(&place), slice: None });
                    (ObjectKey::Text(quoted(name.trim_start_matches('$'))), make)
                }
                (key, value) => {
                    let (name, written) = match key.text() {
                        Some(name) => (Some(name.clone()), ObjectKey::Text(quoted(&name))),
                        None => (None, ObjectKey::Taken(self.take(key, base)?)),
                    };
                    let make = match (value, name) {
                        (Some(value), _) => self.make(value, base, level)?,
                        (None, Some(name)) => {
                            let mut place = base.clone();
                            place.steps.push(Step::Field(name));
                            Make::Take(Take { slot: self.slot(&place), slice: None })
                        }
                        (None, None) => return None,
                    };
                    (written, make)
                }
            };
            let twice = |(known, _): &(ObjectKey, Make)| matches!((known, &key), (ObjectKey::Text(a), ObjectKey::Text(b)) if a == b);
            if made.iter().any(twice) {
                return None;
            }
            made.push((key, make));
        }
        Some(made)
    }

    fn list(&mut self, inner: &Term<'_>, base: &SourcePart, level: usize) -> Option<Make> {
        if let Some((place, body)) = self.iteration(inner, base) {
            return self.each(place, &body, level);
        }
        let mut items = Vec::new();
        self.items(inner, base, level, &mut items)?;
        Some(Make::List(items))
    }

    fn items(&mut self, term: &Term<'_>, base: &SourcePart, level: usize, out: &mut Vec<Make>) -> Option<()> {
        if let Term::Comma(left, right) = term {
            self.items(left, base, level, out)?;
            return self.items(right, base, level, out);
        }
        out.push(self.make(term, base, level)?);
        Some(())
    }

    fn each(&mut self, list: SourcePart, body: &Term<'_>, level: usize) -> Option<Make> {
        // As above: for each item, only the item itself may be walked.
        if self.is_outer(&list) {
            return None;
        }
        let list = self.slot(&list);
        let frame = self.frame();
        let outer = self.innermost.replace(frame);
        let made = self.chosen(body, &SourcePart { frame, steps: Vec::new() }, level.max(1));
        self.innermost = outer;
        let (wanted, make) = made?;
        Some(Make::Each { list, frame, wanted: wanted.map(Box::new), make: Box::new(make) })
    }

    /// The condition on an item, if any, and the result for it.
    fn chosen(&mut self, body: &Term<'_>, item: &SourcePart, level: usize) -> Option<(Option<Make>, Make)> {
        let (condition, rest) = match body {
            Term::Pipe(first, rest) if matches!(**first, Term::Id) => return self.chosen(rest, item, level),
            Term::Pipe(first, rest) => match &**first {
                Term::Call("select", condition) => (condition, &**rest),
                _ => return Some((None, self.make(body, item, level)?)),
            },
            Term::Call("select", condition) => (condition, &Term::Id),
            _ => return Some((None, self.make(body, item, level)?)),
        };
        let [condition] = condition.as_slice() else { return None };
        let wanted = self.make(condition, item, level)?;
        Some((Some(wanted), self.make(rest, item, level)?))
    }

    /// `PATH[] REST | BODY`: the list, and the term for each item.
    fn iteration<'s>(&mut self, term: &Term<'s>, base: &SourcePart) -> Option<(SourcePart, Term<'s>)> {
        let (path, body) = match term {
            Term::Pipe(path, body) => (&**path, Some(body)),
            path => (path, None),
        };
        let Term::Path(head, parts) = path else { return None };
        let at = parts.iter().position(|part| matches!(part, (Part::Each, Missing::Fails)))?;
        let Reached::Place(mut place) = self.reach(head, base)? else { return None };
        for part in &parts[..at] {
            place.steps.push(step(part)?);
        }
        let mut rest = parts.clone();
        rest.drain(..=at);
        let rest = if rest.is_empty() { Term::Id } else { Term::Path(Box::new(Term::Id), rest) };
        let each = match body {
            Some(body) => Term::Pipe(Box::new(rest), body.clone()),
            None => rest,
        };
        Some((place, each))
    }

    fn reach(&mut self, term: &Term<'_>, base: &SourcePart) -> Option<Reached> {
        match term {
            Term::Id => Some(Reached::Place(base.clone())),
            Term::Variable(name) => Some(Reached::Place(self.variable(name))),
            Term::Pipe(left, right) => match self.reach(left, base)? {
                Reached::Place(place) => {
                    let reached = self.reach(right, &place)?;
                    // Read it even if the next part does not use it: it may not fit the value, which is an error.
                    if !reached.is_within(&place) {
                        self.slot(&place);
                    }
                    Some(reached)
                }
                Reached::Slice(..) => None,
            },
            Term::Path(head, parts) => {
                let Reached::Place(mut place) = self.reach(head, base)? else { return None };
                let (last, before) = parts.split_last()?;
                for part in before {
                    place.steps.push(step(part)?);
                }
                if let (Part::Slice(from, to), Missing::Fails) = last {
                    let bound = |term: &Option<Term<'_>>| match term {
                        None => Some(None),
                        Some(term) => term.integer().map(Some),
                    };
                    return Some(Reached::Slice(place, (bound(from)?, bound(to)?)));
                }
                place.steps.push(step(last)?);
                Some(Reached::Place(place))
            }
            _ => None,
        }
    }
}

fn is_number(term: &Term<'_>) -> bool {
    matches!(term, Term::Number(_) | Term::Negate(_))
}

fn step((part, missing): &(Part<'_>, Missing)) -> Option<Step> {
    match (part, missing) {
        // A value that does not fit is left to the engine, which fails or skips it.
        (Part::Index(index), Missing::Fails | Missing::Skipped) => {
            index.text().map(Step::Field).or_else(|| index.integer().map(Step::Item))
        }
        _ => None,
    }
}

fn literal(term: &Term<'_>) -> Option<Vec<u8>> {
    let text = match term {
        // Copied to its exact size: the buffer has capacity for a document.
        Term::Number(digits) => return to_bytes(&ast::number(digits)).ok().map(|bytes| bytes.to_vec()),
        Term::Negate(_) => term.integer()?.to_string(),
        Term::Call(word @ ("null" | "true" | "false"), _) => (*word).to_owned(),
        Term::List(None) => "[]".to_owned(),
        Term::Text(..) => {
            let mut out = Vec::new();
            write_string(&term.text()?, &mut out);
            return Some(out);
        }
        _ => return None,
    };
    Some(text.into_bytes())
}

/// A key with quotes and colon.
fn quoted(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_string(name, &mut out);
    out.push(b':');
    out
}
