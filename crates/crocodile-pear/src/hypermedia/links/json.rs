//! Links in JSON, mapped while its bytes pass. No tree is made: of a document only a member that may be a link is held.

use std::ops::Range;
use std::sync::Arc;

use memchr::memchr2;

use super::map::{LONGEST, LinkFate, LinkMap, LinkPlace, may_be_link};
use super::names::{LinkNames, MemberKind};

/// The deepest document whose links are mapped.
const DEEPEST: usize = 4096;

/// The longest name of a member that is a link.
const LONGEST_NAME: usize = 128;

/// The most bytes that are held until they are known: a link, with the object that it stands in.
const HELD: usize = LONGEST + 1024;

/// Maps the links of one JSON text, or of several that follow each other.
pub struct JsonLinks {
    names: Arc<LinkNames>,
    /// Whether links may be removed, so that a member is held until that is known.
    removes: bool,
    levels: Vec<Level>,
    /// The expected text at the level outermost, which is no object and no list.
    expects: Expects,
    inside: Inside,
    /// The end of what came, for which more is needed.
    held: Vec<u8>,
    /// The text that is open at the end of what is held.
    open: Option<OpenText>,
    /// The bytes before the member that may be removed.
    anchor: Option<Anchor>,
    /// The link object that may be removed.
    object: Option<LinkObject>,
    /// How many levels are open that are too deep.
    beyond: usize,
    spare: String,
}

/// An object or a list that is open.
#[derive(Clone, Copy, Debug)]
struct Level {
    object: bool,
    /// Whether texts here are links.
    links: bool,
    /// Whether objects here are links.
    folder: bool,
    /// Whether a member stands here.
    written: bool,
    /// Whether the member before was removed.
    removed: bool,
}

/// The kind of the next text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Name,
    Value(MemberKind),
}

/// Whether a text is open that is no link, at the end of what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Nothing,
    Text,
}

/// A text that is held and has not ended. The text is read again when it ends, or when twice as many bytes are held, and not
/// at each byte.
#[derive(Clone, Copy, Debug)]
struct OpenText {
    /// The text does not end before this byte.
    searched: usize,
    /// The number of held bytes at which the text is read again.
    enough: usize,
}

/// Where a member begins, and what was known there.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    at: usize,
    depth: usize,
    level: Option<Level>,
    expects: Expects,
}

/// An object that is a link, `{"href": …}`.
#[derive(Clone, Copy, Debug)]
struct LinkObject {
    anchor: Anchor,
    /// How many levels are open in it.
    depth: usize,
    /// Whether it is removed when it ends.
    gone: bool,
}

/// A change of the bytes that came.
struct Edit {
    range: Range<usize>,
    new: NewText,
}

/// The text that stands there instead.
enum NewText {
    Nothing,
    Null,
    /// A link, and whether its slashes are escaped.
    Link(String, bool),
}

impl NewText {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            NewText::Nothing => {}
            NewText::Null => out.extend_from_slice(b"null"),
            NewText::Link(link, slashes) => quote(link, *slashes, out),
        }
    }
}

/// Why reading stops before the end of what came.
#[derive(Clone, Copy)]
enum ScanStop {
    /// A text has not ended. Its end is at the byte `searched` or behind it.
    Open { quote: usize, searched: usize },
}

impl JsonLinks {
    /// For a text with links under these names.
    pub fn new(names: Arc<LinkNames>, removes: bool) -> Self {
        JsonLinks {
            names,
            removes,
            levels: Vec::new(),
            expects: Expects::Value(MemberKind::Other),
            inside: Inside::Nothing,
            held: Vec::new(),
            open: None,
            anchor: None,
            object: None,
            beyond: 0,
            spare: String::new(),
        }
    }

    /// Begins a new text. What is held of the one before is written out.
    pub fn reset(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
        self.levels.clear();
        (self.expects, self.inside) = (Expects::Value(MemberKind::Other), Inside::Nothing);
        (self.open, self.anchor, self.object, self.beyond) = (None, None, None, 0);
    }

    /// Writes out what is held, where a line ends that no text goes beyond. What is open stays open, if nothing is held.
    pub fn settle_line(&mut self, out: &mut Vec<u8>) {
        if !self.held.is_empty() || self.inside == Inside::Text {
            self.reset(out);
        }
    }

    /// Writes out what came, with its links mapped.
    pub fn feed(&mut self, came: &[u8], map: &mut dyn LinkMap, out: &mut Vec<u8>) {
        if self.held.is_empty() {
            let kept = self.pass(came, map, out);
            self.held.extend_from_slice(&came[kept..]);
            return;
        }
        let mut whole = std::mem::take(&mut self.held);
        whole.extend_from_slice(came);
        if let Some(open) = &mut self.open
            && whole.len() < open.enough
            && let TextEnd::Open(searched) = text_end(&whole, open.searched)
        {
            open.searched = searched;
            self.held = whole;
            return;
        }
        let kept = self.pass(&whole, map, out);
        whole.drain(..kept);
        self.held = whole;
    }

    /// Passes what can be passed; gives where the rest begins.
    fn pass(&mut self, input: &[u8], map: &mut dyn LinkMap, out: &mut Vec<u8>) -> usize {
        let mut edits = Vec::new();
        let mut at = 0;
        if self.inside == Inside::Text {
            match text_end(input, 0) {
                TextEnd::At(end, _) => {
                    self.inside = Inside::Nothing;
                    at = end + 1;
                    self.after_text();
                }
                TextEnd::Open(kept) => {
                    out.extend_from_slice(&input[..kept]);
                    return kept;
                }
            }
        }
        let stop = self.scan(input, at, map, &mut edits);
        let kept = self.hold(input, stop, &mut edits);
        self.open = match stop {
            Some(ScanStop::Open { quote, searched }) if kept <= quote && quote < searched => {
                Some(OpenText { searched: searched - kept, enough: 2 * (input.len() - kept) })
            }
            _ => None,
        };
        let mut from = 0;
        for edit in &edits {
            out.extend_from_slice(&input[from..edit.range.start]);
            edit.new.write(out);
            from = edit.range.end;
        }
        out.extend_from_slice(&input[from..kept]);
        kept
    }

    /// Where what must be held begins, at the end of what came. What was changed behind it will be read again.
    fn hold(&mut self, input: &[u8], stop: Option<ScanStop>, edits: &mut Vec<Edit>) -> usize {
        let fits = |at: usize| input.len() - at <= HELD;
        let back = match (&self.object, &self.anchor) {
            (Some(object), _) if fits(object.anchor.at) => Some(object.anchor),
            (_, Some(anchor)) if fits(anchor.at) => Some(*anchor),
            _ => None,
        };
        if let Some(anchor) = back {
            self.levels.truncate(anchor.depth);
            if let (Some(level), Some(last)) = (anchor.level, self.levels.last_mut()) {
                *last = level;
            }
            (self.expects, self.inside, self.beyond) = (anchor.expects, Inside::Nothing, 0);
            edits.retain(|edit| edit.range.end <= anchor.at);
            (self.anchor, self.object) = (self.removes.then_some(Anchor { at: 0, ..anchor }), None);
            return anchor.at;
        }
        (self.anchor, self.object) = (None, None);
        let Some(ScanStop::Open { quote, .. }) = stop else { return input.len() };
        let longest = if self.expects == Expects::Name { LONGEST_NAME } else { LONGEST };
        // A name may have escapes, six bytes each.
        if input.len() - quote <= longest * 6 {
            return quote;
        }
        self.inside = Inside::Text;
        match text_end(input, quote + 1) {
            TextEnd::Open(kept) => kept,
            TextEnd::At(..) => input.len(),
        }
    }

    /// Reads to the end of what came.
    fn scan(&mut self, input: &[u8], from: usize, map: &mut dyn LinkMap, edits: &mut Vec<Edit>) -> Option<ScanStop> {
        let mut at = from;
        while let Some(&byte) = input.get(at) {
            if !MARKS[usize::from(byte)] {
                at += 1;
                continue;
            }
            match byte {
                b'"' => {
                    let (end, escaped) = match text_end(input, at + 1) {
                        TextEnd::At(end, escaped) => (end, escaped),
                        TextEnd::Open(kept) => match self.may_matter(&input[at + 1..]) {
                            true => return Some(ScanStop::Open { quote: at, searched: kept }),
                            false => {
                                self.inside = Inside::Text;
                                self.anchor = None;
                                // Held, if it is a backslash whose second half is to come.
                                return (kept < input.len()).then_some(ScanStop::Open { quote: kept, searched: kept });
                            }
                        },
                    };
                    self.text(input, at..end + 1, escaped, map, edits);
                    at = end;
                }
                b'{' | b'[' => self.open(byte == b'{', at),
                b'}' | b']' => self.close(at, edits),
                b',' => self.comma(at, edits),
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// Whether it matters what a text says that begins so, and whose end is to come.
    fn may_matter(&self, begun: &[u8]) -> bool {
        match self.expects {
            Expects::Name => begun.len() <= LONGEST_NAME * 6,
            Expects::Value(kind) => {
                let place = self.place(kind);
                let short = begun.len() <= LONGEST * 6;
                let begins = match begun {
                    [] | [b'\\', ..] => true,
                    [b'h' | b'H' | b'/', ..] => {
                        // Its beginning may have escapes: `http:\/\/`.
                        let escaped = || memchr::memchr(b'\\', &begun[..begun.len().min(64)]).is_some();
                        begun.len() < 9 || may_be_link(begun, place) || escaped()
                    }
                    _ => false,
                };
                short && begins
            }
        }
    }

    fn place(&self, kind: MemberKind) -> LinkPlace {
        let link = match self.levels.last() {
            Some(level) if level.object => kind == MemberKind::Link || level.links,
            Some(level) => level.links,
            None => false,
        };
        if link { LinkPlace::Link } else { LinkPlace::Anywhere }
    }

    /// A whole text, with its quotes.
    fn text(&mut self, input: &[u8], range: Range<usize>, escaped: bool, map: &mut dyn LinkMap, edits: &mut Vec<Edit>) {
        let text = &input[range.start + 1..range.end - 1];
        match self.expects {
            Expects::Name => {
                let kind = match escaped {
                    false => self.names.kind(text),
                    true => {
                        let mut plain = std::mem::take(&mut self.spare);
                        let kind = if unescape(text, &mut plain) {
                            self.names.kind(plain.as_bytes())
                        } else {
                            MemberKind::Other
                        };
                        self.spare = plain;
                        kind
                    }
                };
                self.expects = Expects::Value(kind);
            }
            Expects::Value(kind) => {
                let place = self.place(kind);
                let fate = self.fate(text, escaped, place, map);
                self.settle(fate, escaped && has_escaped_slash(text), range, edits);
                self.after_text();
            }
        }
    }

    fn fate(&mut self, text: &[u8], escaped: bool, place: LinkPlace, map: &mut dyn LinkMap) -> LinkFate {
        // Most texts end here.
        let begins = matches!(text.first(), Some(b'h' | b'H' | b'/' | b'\\'));
        if !begins || text.len() > LONGEST * 6 || self.beyond > 0 {
            return LinkFate::Keep;
        }
        if !escaped {
            return match std::str::from_utf8(text) {
                Ok(link) if link.len() <= LONGEST && may_be_link(text, place) => map.map(link, place),
                _ => LinkFate::Keep,
            };
        }
        let mut plain = std::mem::take(&mut self.spare);
        let fits = unescape(text, &mut plain) && plain.len() <= LONGEST && may_be_link(plain.as_bytes(), place);
        let fate = if fits { map.map(&plain, place) } else { LinkFate::Keep };
        self.spare = plain;
        fate
    }

    fn settle(&mut self, fate: LinkFate, slashes: bool, range: Range<usize>, edits: &mut Vec<Edit>) {
        match fate {
            LinkFate::Keep => {}
            LinkFate::Replace(link) => edits.push(Edit { range, new: NewText::Link(link, slashes) }),
            LinkFate::Null => edits.push(Edit { range, new: NewText::Null }),
            LinkFate::Remove => match (&mut self.object, self.anchor) {
                // Its closing brace removes the object.
                (Some(object), _)
                    if self.levels.len() == object.depth && self.expects == Expects::Value(MemberKind::Link) =>
                {
                    object.gone = true;
                }
                (_, Some(anchor)) => {
                    edits.push(Edit { range: anchor.at..range.end, new: NewText::Nothing });
                    if let Some(level) = self.levels.last_mut() {
                        level.removed = true;
                    }
                }
                // A text that is the whole document, or a member too long to be held.
                (_, None) => edits.push(Edit { range, new: NewText::Null }),
            },
        }
    }

    /// A value has ended.
    fn after_text(&mut self) {
        self.anchor = None;
        if self.expects == Expects::Name {
            self.expects = Expects::Value(MemberKind::Other);
        }
    }

    fn open(&mut self, object: bool, at: usize) {
        let kind = match self.expects {
            Expects::Value(kind) => kind,
            Expects::Name => MemberKind::Other,
        };
        let above = self.levels.last().copied();
        let in_list = above.is_some_and(|level| !level.object);
        let links = match above {
            _ if kind == MemberKind::Folder => true,
            Some(level) if in_list => level.links && !object,
            _ => kind == MemberKind::Link && !object,
        };
        let folder = kind == MemberKind::Folder || (in_list && above.is_some_and(|level| level.folder) && !object);
        if self.removes {
            let link_object = object && above.is_some_and(|level| level.folder);
            if let Some(anchor) = self.anchor.take().filter(|_| link_object && self.object.is_none()) {
                self.object = Some(LinkObject { anchor, depth: self.levels.len() + 1, gone: false });
            }
        }
        if self.levels.len() == DEEPEST {
            self.beyond += 1;
        } else {
            // A list under `next` has links, one in a folder too: `{"links": {"related": ["/a"]}}`.
            let inherits = above.is_some_and(|level| level.object && level.links) && !object;
            self.levels.push(Level {
                object,
                links: links || inherits,
                folder: folder || inherits,
                written: false,
                removed: false,
            });
        }
        self.expects = if object { Expects::Name } else { Expects::Value(MemberKind::Other) };
        self.set_anchor(at + 1);
    }

    fn close(&mut self, at: usize, edits: &mut Vec<Edit>) {
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        self.levels.pop();
        self.anchor = None;
        if let Some(LinkObject { anchor, gone, .. }) =
            self.object.take_if(|object| object.depth == self.levels.len() + 1)
            && gone
        {
            edits.retain(|edit| edit.range.start < anchor.at);
            edits.push(Edit { range: anchor.at..at + 1, new: NewText::Nothing });
            if let Some(level) = self.levels.last_mut() {
                level.removed = true;
            }
        }
        self.expects = Expects::Value(MemberKind::Other);
    }

    fn comma(&mut self, at: usize, edits: &mut Vec<Edit>) {
        if self.beyond > 0 {
            return;
        }
        let Some(level) = self.levels.last_mut() else { return };
        self.expects = if level.object { Expects::Name } else { Expects::Value(MemberKind::Other) };
        if !self.removes {
            return;
        }
        level.written |= !level.removed;
        level.removed = false;
        let written = level.written;
        if !written {
            edits.push(Edit { range: at..at + 1, new: NewText::Nothing });
        }
        self.set_anchor(if written { at } else { at + 1 });
    }

    fn set_anchor(&mut self, at: usize) {
        if self.removes && self.beyond == 0 {
            // Where a comma is part of what may go, it is read again.
            let expects = self.expects;
            self.anchor = Some(Anchor { at, depth: self.levels.len(), level: self.levels.last().copied(), expects });
        }
    }
}

/// The bytes that have a meaning outside of texts.
static MARKS: [bool; 256] = {
    let (mut table, mut at) = ([false; 256], 0);
    let marks = b"\"{}[],";
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
};

enum TextEnd {
    /// At this quote; whether it has escapes.
    At(usize, bool),
    /// Behind what came. What begins here is half an escape; or nothing, at the end.
    Open(usize),
}

/// Bytes that are looked at by words, before a search is worth its price.
const NEAR: usize = 32;

fn text_end(input: &[u8], from: usize) -> TextEnd {
    let (mut at, mut escaped) = (from, false);
    loop {
        let Some(mark) = next_mark(input, at) else { return TextEnd::Open(input.len()) };
        if input[mark] == b'"' {
            return TextEnd::At(mark, escaped);
        }
        if mark + 1 == input.len() {
            return TextEnd::Open(mark);
        }
        escaped = true;
        at = mark + 2;
    }
}

/// The next quote or backslash.
fn next_mark(input: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some((word, _)) = input.get(at..)?.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let found = has(word, b'"') | has(word, b'\\');
        if found != 0 {
            return Some(at + (found.trailing_zeros() / 8) as usize);
        }
        at += 8;
        if at - from >= NEAR {
            break;
        }
    }
    memchr2(b'"', b'\\', &input[at..]).map(|found| at + found)
}

/// A mark at the first byte of a word that is this one. Behind it there may be false ones.
const fn has(word: u64, byte: u8) -> u64 {
    const LOW: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let zero = word ^ (LOW * byte as u64);
    zero.wrapping_sub(LOW) & !zero & HIGH
}

/// The characters of a text with escapes; whether it is one.
fn unescape(text: &[u8], plain: &mut String) -> bool {
    plain.clear();
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let Some(escaped) = rest.as_bytes().get(at + 1) else { return false };
        let mut length = 2;
        let made = match escaped {
            b'"' | b'\\' | b'/' => char::from(*escaped),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = |at: usize| rest.get(at..at + 4).and_then(|digits| u16::from_str_radix(digits, 16).ok());
                let Some(first) = unit(at + 2) else { return false };
                length = 6;
                match char::from_u32(u32::from(first)) {
                    Some(made) => made,
                    None => {
                        let second = rest.get(at + 6..at + 8).filter(|mark| *mark == "\\u").and_then(|_| unit(at + 8));
                        let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
                        let Some(pair) = pair else { return false };
                        length = 12;
                        pair
                    }
                }
            }
            _ => return false,
        };
        plain.push(made);
        rest = &rest[at + length..];
    }
    plain.push_str(rest);
    true
}

/// Whether slashes are escaped, as PHP writes them.
fn has_escaped_slash(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"\\/").is_some()
}

/// Writes a text in quotes.
fn quote(link: &str, slashes: bool, out: &mut Vec<u8>) {
    out.reserve(link.len() + 2);
    out.push(b'"');
    if !slashes && link.bytes().fold(true, |plain, byte| plain & (byte >= 0x20) & (byte != b'"') & (byte != b'\\')) {
        out.extend_from_slice(link.as_bytes());
    } else {
        for byte in link.bytes() {
            match byte {
                b'"' | b'\\' => out.extend([b'\\', byte]),
                b'/' if slashes => out.extend(b"\\/"),
                0..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
                _ => out.push(byte),
            }
        }
    }
    out.push(b'"');
}
