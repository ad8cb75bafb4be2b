//! Reads YAML (1.2, core schema) to JSON. All limits for its aliases, tags and keys are here.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::error::{Error, Kind};
use crate::json::{DEPTH, Raw, write_string};
use crate::offload::{self, Made};

/// Bytes that aliases may add: enough for honest reuse, and far less than "billion laughs" needs.
const ALIASED: usize = 1 << 20;

/// Bytes that the scanner needs at once for each token of a document on one line.
const TOKEN: usize = 112;

/// Largest body, in bytes. For some documents the scanner needs more than a hundred times their size at once.
const SIZE: usize = 1 << 20;

/// Most digits of a number, same as in JSON.
const DIGITS: usize = 1000;

/// Reads a document. Several documents become a list, none becomes null.
///
/// # Errors
/// `Kind::Malformed` for input that is not YAML, and for anything that JSON cannot express: keys that are not scalars
/// or occur twice, tags outside the core schema, infinities. Also for more than 128 levels, numbers of more than 1,000
/// digits, and aliases that add more than 1 MiB. `Kind::Oversized` for more than 1 MiB.
pub fn read(text: &str) -> Result<Raw, Error> {
    if text.len() > SIZE {
        return Err(Error::new(Kind::Oversized, "the YAML is larger than 1 MiB"));
    }
    offload::hold(text.bytes().filter(|byte| b"[]{},:?".contains(byte)).count() * TOKEN);
    let mut reader = DocumentReader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|fault| refuse(fault.info(), fault.marker().line()))?;
        reader.take(event).map_err(|reason| refuse(&reason, span.start.line()))?;
    }
    let mut out = reader.out;
    match reader.documents {
        0 => out.extend_from_slice(b"null"),
        1 => {}
        _ => {
            out.insert(0, b'[');
            out.push(b']');
        }
    }
    // A list of documents adds a level, which may be one too many.
    Ok(Raw::check(&out.into())?)
}

fn refuse(reason: &str, line: usize) -> Error {
    Error::new(Kind::Malformed, format!("not valid YAML: {reason} (line {line})"))
}

type YamlFault = std::borrow::Cow<'static, str>;

/// The state while documents are read.
#[derive(Default)]
struct DocumentReader {
    out: Vec<u8>,
    documents: usize,
    open: Vec<OpenCollection>,
    /// The range and the depth of the JSON of each anchor.
    anchors: HashMap<usize, (Range<usize>, usize)>,
    aliased: usize,
    made: Made,
}

/// An open list or map.
struct OpenCollection {
    start: usize,
    anchor: usize,
    empty: bool,
    keys: Option<Keys>,
    /// The depth of its content.
    depth: usize,
}

/// The keys of a map.
#[derive(Default)]
struct Keys {
    seen: HashSet<String>,
    /// Whether a value must come next.
    read: bool,
}

impl DocumentReader {
    fn take(&mut self, event: Event<'_>) -> Result<(), YamlFault> {
        let before = self.out.len();
        match event {
            Event::DocumentStart(_) => self.begin_document(),
            Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, anchor, tag.as_deref())?,
            Event::SequenceStart(anchor, tag) => self.begin(None, anchor, tag.as_deref())?,
            Event::MappingStart(anchor, tag) => self.begin(Some(Keys::default()), anchor, tag.as_deref())?,
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor)?,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        self.made.add(self.out.len() - before);
        Ok(())
    }

    fn begin_document(&mut self) {
        self.documents += 1;
        self.anchors.clear();
        if self.documents > 1 {
            self.out.push(b',');
        }
    }

    /// Whether a key must come next.
    fn at_key(&self) -> bool {
        self.open.last().and_then(|open| open.keys.as_ref()).is_some_and(|keys| !keys.read)
    }

    /// Writes the separator before a value.
    fn separate(&mut self) -> Result<(), YamlFault> {
        if self.at_key() {
            return Err("a key that is a list, a map or an alias".into());
        }
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        match &mut open.keys {
            Some(keys) => keys.read = false,
            None if !open.empty => self.out.push(b','),
            None => {}
        }
        open.empty = false;
        Ok(())
    }

    fn begin(&mut self, keys: Option<Keys>, anchor: usize, tag: Option<&Tag>) -> Result<(), YamlFault> {
        let wanted = if keys.is_some() { "map" } else { "seq" };
        if tag.is_some_and(|tag| !(tag.is_yaml_core_schema() && tag.suffix == wanted)) {
            return Err("a tag that JSON cannot say".into());
        }
        self.separate()?;
        if self.open.len() == DEPTH {
            return Err("it nests deeper than 128 levels".into());
        }
        let start = self.out.len();
        self.out.push(if keys.is_some() { b'{' } else { b'[' });
        self.open.push(OpenCollection { start, anchor, empty: true, keys, depth: 0 });
        Ok(())
    }

    fn end(&mut self) {
        let Some(open) = self.open.pop() else { return };
        self.out.push(if open.keys.is_some() { b'}' } else { b']' });
        self.whole(open.start, open.anchor, open.depth + 1);
    }

    /// Records a complete value.
    fn whole(&mut self, start: usize, anchor: usize, depth: usize) {
        if let Some(outer) = self.open.last_mut() {
            outer.depth = outer.depth.max(depth);
        }
        if anchor != 0 {
            self.anchors.insert(anchor, (start..self.out.len(), depth));
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, anchor: usize, tag: Option<&Tag>) -> Result<(), YamlFault> {
        if self.at_key() {
            return self.key(text, style, anchor);
        }
        self.separate()?;
        let start = self.out.len();
        self.out.extend_from_slice(&resolve(text, style, tag)?);
        self.whole(start, anchor, 0);
        Ok(())
    }

    /// Reads a key. It is always its text, even if it looks like a number or a bool.
    fn key(&mut self, text: &str, style: ScalarStyle, anchor: usize) -> Result<(), YamlFault> {
        if text == "<<" && style == ScalarStyle::Plain {
            return Err("a merge key (`<<`), which YAML 1.2 has not".into());
        }
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        let Some(keys) = &mut open.keys else { return Ok(()) };
        if !keys.seen.insert(text.to_owned()) {
            return Err("a key that occurs twice".into());
        }
        keys.read = true;
        if !std::mem::take(&mut open.empty) {
            self.out.push(b',');
        }
        let start = self.out.len();
        write_string(text, &mut self.out);
        if anchor != 0 {
            self.anchors.insert(anchor, (start..self.out.len(), 0));
        }
        self.out.push(b':');
        Ok(())
    }

    fn alias(&mut self, anchor: usize) -> Result<(), YamlFault> {
        self.separate()?;
        let (range, depth) = self.anchors.get(&anchor).cloned().ok_or("an alias within what it names")?;
        self.aliased += range.len();
        if self.aliased > ALIASED {
            return Err("its aliases add more than 1 MiB".into());
        }
        if self.open.len() + depth > DEPTH {
            return Err("it nests deeper than 128 levels".into());
        }
        let start = self.out.len();
        self.out.extend_from_within(range);
        self.whole(start, 0, depth);
        Ok(())
    }
}

/// The JSON of a scalar.
fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Vec<u8>, YamlFault> {
    let quoted = || {
        let mut out = Vec::with_capacity(text.len() + 2);
        write_string(text, &mut out);
        out
    };
    let Some(tag) = tag else {
        let plain = if style == ScalarStyle::Plain { plain(text)? } else { None };
        return Ok(plain.map_or_else(quoted, |(_, json)| json.into_bytes()));
    };
    match tag.suffix.as_str() {
        "str" if tag.is_yaml_core_schema() => Ok(quoted()),
        suffix @ ("null" | "bool" | "int" | "float") if tag.is_yaml_core_schema() => match plain(text)? {
            Some((kind, json)) if kind == suffix || (kind, suffix) == ("int", "float") => Ok(json.into_bytes()),
            _ => Err("a value that is not what its tag says".into()),
        },
        _ => Err("a tag that JSON cannot say".into()),
    }
}

/// The core-schema value (10.3.2) of a scalar without quotes, unless it is text.
fn plain(text: &str) -> Result<Option<(&'static str, String)>, YamlFault> {
    let found = match text {
        "" | "~" | "null" | "Null" | "NULL" => Some(("null", "null".to_owned())),
        "true" | "True" | "TRUE" => Some(("bool", "true".to_owned())),
        "false" | "False" | "FALSE" => Some(("bool", "false".to_owned())),
        _ => None,
    };
    if found.is_some() || !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Ok(found);
    }
    if matches!(text.trim_start_matches(['+', '-']), ".inf" | ".Inf" | ".INF")
        || matches!(text, ".nan" | ".NaN" | ".NAN")
    {
        return Err("a number that JSON cannot say".into());
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix).filter(|digits| !digits.is_empty())
            && digits.chars().all(|c| c.is_digit(radix))
        {
            let number = u128::from_str_radix(digits, radix).map_err(|_| "a number that is too large")?;
            return Ok(Some(("int", number.to_string())));
        }
    }
    match number(text) {
        Some(_) if text.len() > DIGITS => Err("a number of more than 1000 digits".into()),
        found => Ok(found),
    }
}

/// A number in JSON syntax, with its digits kept.
fn number(text: &str) -> Option<(&'static str, String)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, rest) = rest.split_at(digits(rest));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let floats = text.contains('.') || !rest.is_empty();
    let power = match rest.strip_prefix(['e', 'E']) {
        Some(power) => {
            let unsigned = power.strip_prefix(['+', '-']).unwrap_or(power);
            let sound = !unsigned.is_empty() && digits(unsigned) == unsigned.len();
            sound.then(|| format!("e{power}"))?
        }
        None if rest.is_empty() => String::new(),
        None => return None,
    };
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    Some((if floats { "float" } else { "int" }, format!("{sign}{whole}{fraction}{power}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let raw = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        String::from_utf8(raw.bytes().to_vec()).expect("UTF-8")
    }

    #[test]
    fn yaml_becomes_json() {
        assert_eq!(
            json(
                "# c\nid: 1\nname: \"a\\tb\"\ntags: [x, 'y', {z: ~}]\nnote: |\n  one\n  two\nsince: 2020-01-01\nno: no\n? e\n"
            ),
            r#"{"id":1,"name":"a\tb","tags":["x","y",{"z":null}],"note":"one\ntwo\n","since":"2020-01-01","no":"no","e":null}"#
        );
        assert_eq!(json("- &a [1, 2]\n- *a\n- {k: *a}\n- !!str 1\n- !!float 1"), r#"[[1,2],[1,2],{"k":[1,2]},"1",1]"#);
        assert_eq!(json(""), "null");
        assert_eq!(json("--- 1\n--- [2]\n"), "[1,[2]]");
        assert_eq!(json("1: a\ntrue: b\n"), r#"{"1":"a","true":"b"}"#);
    }

    #[test]
    fn numbers_are_kept_as_json_has_them() {
        assert_eq!(
            json(
                "[0, -0, 007, +1, 1.50, .5, 1., -1e3, 1E-2, 0x1F, 0o17, 12345678901234567890, 1e, 1.2.3, -a, ., 0x, 1_000]"
            ),
            r#"[0,-0,7,1,1.50,0.5,1,-1e3,1e-2,31,15,12345678901234567890,"1e","1.2.3","-a",".","0x","1_000"]"#
        );
    }

    #[test]
    fn what_is_hostile_or_not_json_is_refused() {
        let laughs: String = (1..30).map(|n| format!("l{n}: &l{n} [*l{0}, *l{0}, *l{0}]\n", n - 1)).collect();
        let laughs = format!("l0: &l0 [lol]\n{laughs}");
        let quadratic = format!("a: &a {}\nb: [{}]", "x".repeat(100_000), "*a, ".repeat(1000));
        let deep = "[".repeat(100_000);
        let maps = "{a: ".repeat(100_000);
        let lists = "- ".repeat(100_000);
        let keys = "? ".repeat(100_000);
        let huge = "9".repeat(100_000);
        let nested =
            format!("a: &a {}1{}\nb: {}*a{}", "[".repeat(100), "]".repeat(100), "[".repeat(100), "]".repeat(100));
        for text in [
            "a: 1\na: 2",
            "&a [*a]",
            "*a",
            "!x 1",
            "!!binary aaaa",
            "!!int x",
            "!!set {a}",
            "[a]: 1",
            "<<: {a: 1}",
            ".inf",
            "-.INF",
            ".nan",
            "a: [",
            "a: b: c",
            "\"",
            "0xffffffffffffffffffffffffffffffffffff",
            &laughs,
            &quadratic,
            &deep,
            &maps,
            &lists,
            &keys,
            &huge,
            &nested,
        ] {
            let refused = read(text);
            assert_eq!(refused.map(|_| ()).map_err(|error| error.kind()), Err(Kind::Malformed), "{text:.40}");
        }
        assert_eq!(read(&"- a\n".repeat(300_000)).expect_err("large").kind(), Kind::Oversized);
        assert_eq!(read("a: 1\na: 2").expect_err("twice").detail(), "not valid YAML: a key that occurs twice (line 2)");
    }
}
