//! Links in XML, mapped while its bytes pass: attributes and texts, without a tree.

use std::ops::Range;
use std::sync::Arc;

use memchr::memchr;
use memchr::memmem;

use super::map::{LONGEST, LinkFate, LinkMap, LinkPlace, may_be_link};
use super::names::{LinkNames, MemberKind};

/// The longest tag whose links are mapped.
const TAG: usize = 64 << 10;

/// Maps the links of an XML document.
pub struct XmlLinks {
    names: Arc<LinkNames>,
    state: MarkupState,
    /// The end of what came, for which more is needed.
    held: Vec<u8>,
    /// The tag that is open at the end of what is held.
    open: Option<OpenTag>,
}

/// A tag that has not ended.
#[derive(Clone, Copy)]
struct OpenTag {
    /// Where it begins in what is held.
    start: usize,
    search: TagSearch,
}

/// Where in a document what comes begins.
#[derive(Clone, Copy)]
enum MarkupState {
    /// Between tags. The text may be a link as a whole, or it may not.
    Text { link: bool },
    /// In something that has no links, up to this end.
    Skipped(&'static [u8]),
}

/// Whether what was begun has ended.
enum Passed {
    /// At this byte.
    To(usize),
    /// Not yet: what begins here is held.
    Open(usize),
}

impl XmlLinks {
    /// For a document with links in attributes of these names, too.
    pub fn new(names: Arc<LinkNames>) -> Self {
        XmlLinks { names, state: MarkupState::Text { link: false }, held: Vec::new(), open: None }
    }

    /// Writes out what came, with its links mapped.
    pub fn feed(&mut self, came: &[u8], map: &mut dyn LinkMap, out: &mut Vec<u8>) {
        let mut whole = std::mem::take(&mut self.held);
        whole.extend_from_slice(came);
        if let Some(open) = &mut self.open {
            let tag = &whole[open.start..];
            if open.search.end(tag).is_none() && tag.len() <= TAG {
                self.held = whole;
                return;
            }
        }
        self.open = None;
        let mut at = 0;
        while at < whole.len() {
            let passed = match self.state {
                MarkupState::Text { link } => self.pass(&whole, at, link, map, out),
                MarkupState::Skipped(end) => self.skip(&whole, at, end, out),
            };
            match passed {
                Passed::To(next) => at = next,
                Passed::Open(kept) => {
                    at = kept;
                    if let Some(open) = &mut self.open {
                        open.start -= kept;
                    }
                    break;
                }
            }
        }
        whole.drain(..at.min(whole.len()));
        self.held = whole;
    }

    /// Writes out what is held, at the end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }

    fn skip(&mut self, input: &[u8], at: usize, end: &'static [u8], out: &mut Vec<u8>) -> Passed {
        match memmem::find(&input[at..], end) {
            Some(found) => {
                let next = at + found + end.len();
                out.extend_from_slice(&input[at..next]);
                self.state = MarkupState::Text { link: false };
                Passed::To(next)
            }
            None => {
                let kept = input.len().saturating_sub(end.len() - 1).max(at);
                out.extend_from_slice(&input[at..kept]);
                Passed::Open(kept)
            }
        }
    }

    /// A text, and the tag behind it.
    fn pass(&mut self, input: &[u8], at: usize, link: bool, map: &mut dyn LinkMap, out: &mut Vec<u8>) -> Passed {
        let Some(found) = memchr(b'<', &input[at..]) else {
            let text = &input[at..];
            let begun = text.trim_ascii_start();
            let may = begun.len() < 9 && begun.first().is_none_or(|first| b"hH/".contains(first));
            if link && text.len() <= LONGEST && (may || may_be_link(begun, LinkPlace::Anywhere)) {
                return Passed::Open(at);
            }
            out.extend_from_slice(text);
            self.state = MarkupState::Text { link: false };
            return Passed::To(input.len());
        };
        let open = at + found;
        let rest = &input[open..];
        for (begin, end) in [(&b"<!--"[..], &b"-->"[..]), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"), (b"<!", b">")] {
            if rest.len() < begin.len() && begin.starts_with(rest) {
                return self.wait(input, at, open, out);
            }
            if rest.starts_with(begin) {
                self.text(&input[at..open], link && begin.len() < 9, map, out);
                out.extend_from_slice(begin);
                let subset = begin == b"<!" && declares_inside(rest);
                self.state = MarkupState::Skipped(if subset { b"]>" } else { end });
                return Passed::To(open + begin.len());
            }
        }
        let mut search = TagSearch::default();
        let close = match search.end(rest) {
            Some(close) if close <= TAG => close,
            None if rest.len() <= TAG => {
                self.open = Some(OpenTag { start: open, search });
                return self.wait(input, at, open, out);
            }
            // A tag that is too long passes as it is, in one piece or in several.
            _ => {
                out.extend_from_slice(&input[at..=open]);
                self.state = MarkupState::Skipped(b">");
                return Passed::To(open + 1);
            }
        };
        self.text(&input[at..open], link, map, out);
        let tag = &rest[..close];
        self.tag(tag, map, out);
        self.state = MarkupState::Text { link: !tag.starts_with(b"</") && !tag.ends_with(b"/>") };
        Passed::To(open + close)
    }

    /// Writes the text out that is no link, and waits for the rest of a tag.
    fn wait(&mut self, input: &[u8], at: usize, open: usize, out: &mut Vec<u8>) -> Passed {
        // The text is held with its tag, if it may be a link.
        if matches!(self.state, MarkupState::Text { link: true }) && open - at <= LONGEST {
            return Passed::Open(at);
        }
        out.extend_from_slice(&input[at..open]);
        self.state = MarkupState::Text { link: false };
        Passed::Open(open)
    }

    fn text(&self, text: &[u8], link: bool, map: &mut dyn LinkMap, out: &mut Vec<u8>) {
        let trimmed = text.trim_ascii();
        let fate = match link && may_be_link(trimmed, LinkPlace::Anywhere) {
            true => fate(trimmed, LinkPlace::Anywhere, map),
            false => LinkFate::Keep,
        };
        match fate {
            LinkFate::Keep => out.extend_from_slice(text),
            LinkFate::Replace(link) => {
                let before = text.len() - text.trim_ascii_start().len();
                out.extend_from_slice(&text[..before]);
                escape(&link, out);
                out.extend_from_slice(&text[before + trimmed.len()..]);
            }
            LinkFate::Null | LinkFate::Remove => {}
        }
    }

    /// A whole tag, with its attributes.
    fn tag(&self, tag: &[u8], map: &mut dyn LinkMap, out: &mut Vec<u8>) {
        let mut written = 0;
        let mut at = 1;
        while let Some(attribute) = attribute(tag, at) {
            at = attribute.value.end + 1;
            let value = &tag[attribute.value.clone()];
            let Some(place) = self.place(&tag[attribute.name.clone()]) else { continue };
            if !may_be_link(value.trim_ascii(), place) {
                continue;
            }
            match fate(value.trim_ascii(), place, map) {
                LinkFate::Keep => {}
                LinkFate::Replace(link) => {
                    out.extend_from_slice(&tag[written..attribute.value.start]);
                    escape(&link, out);
                    written = attribute.value.end;
                }
                LinkFate::Null | LinkFate::Remove => {
                    out.extend_from_slice(tag[written..attribute.name.start].trim_ascii_end());
                    written = attribute.value.end + 1;
                }
            }
        }
        out.extend_from_slice(&tag[written..]);
    }

    /// The kind of link that a value of this attribute may be; `None` for names of vocabularies, which are no links.
    fn place(&self, name: &[u8]) -> Option<LinkPlace> {
        let (prefix, local) = match memchr(b':', name) {
            Some(colon) => (&name[..colon], &name[colon + 1..]),
            None => (&b""[..], name),
        };
        if name == b"xmlns" || prefix == b"xmlns" || local.ends_with(b"chemaLocation") {
            return None;
        }
        let link = matches!(local, b"src" | b"base") || self.names.kind(local) == MemberKind::Link;
        Some(if link { LinkPlace::Link } else { LinkPlace::Anywhere })
    }
}

fn fate(text: &[u8], place: LinkPlace, map: &mut dyn LinkMap) -> LinkFate {
    let Ok(text) = std::str::from_utf8(text) else { return LinkFate::Keep };
    if text.len() > LONGEST {
        return LinkFate::Keep;
    }
    match text.contains('&') {
        false => map.map(text, place),
        true => map.map(&unescape(text), place),
    }
}

/// Whether a document type has declarations of its own, in brackets.
fn declares_inside(rest: &[u8]) -> bool {
    let end = memchr(b'>', rest).unwrap_or(rest.len());
    memchr(b'[', &rest[..end]).is_some()
}

/// A search for the end of a tag. When more bytes come, it continues where it stopped.
#[derive(Clone, Copy, Default)]
struct TagSearch {
    searched: usize,
    quote: Option<u8>,
}

impl TagSearch {
    /// Returns where the tag ends: behind the `>` that is not quoted.
    fn end(&mut self, tag: &[u8]) -> Option<usize> {
        for (at, &byte) in tag.iter().enumerate().skip(self.searched) {
            match (self.quote, byte) {
                (None, b'>') => return Some(at + 1),
                (None, b'"' | b'\'') => self.quote = Some(byte),
                (Some(open), byte) if open == byte => self.quote = None,
                _ => {}
            }
        }
        self.searched = tag.len();
        None
    }
}

/// An attribute: its name, and its value between the quotes.
struct TagAttribute {
    name: Range<usize>,
    value: Range<usize>,
}

/// The next attribute of a tag.
fn attribute(tag: &[u8], from: usize) -> Option<TagAttribute> {
    let equals = from + memchr(b'=', tag.get(from..)?)?;
    let before = tag[from..equals].trim_ascii_end();
    let start = before.iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
    let name = from + start..from + before.len();
    let value = tag.get(equals + 1..)?;
    let space = value.len() - value.trim_ascii_start().len();
    let open = equals + 1 + space;
    let quote = *tag.get(open).filter(|byte| b"\"'".contains(byte))?;
    let end = open + 1 + memchr(quote, tag.get(open + 1..)?)?;
    Some(TagAttribute { name, value: open + 1..end })
}

/// The characters of a text with the entities that XML has itself.
fn unescape(text: &str) -> String {
    let (mut made, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('&') {
        made.push_str(before);
        let known = after.split_once(';').and_then(|(name, left)| Some((character(name)?, left)));
        rest = match known {
            Some((character, left)) => {
                made.push(character);
                left
            }
            None => {
                made.push('&');
                after
            }
        };
    }
    made.push_str(rest);
    made
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let number = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(number.ok()?)
        }
    }
}

fn escape(link: &str, out: &mut Vec<u8>) {
    for byte in link.bytes() {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            _ => out.push(byte),
        }
    }
}
