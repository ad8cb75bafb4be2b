//! A configuration as it is written: a tree of YAML in the order and the short forms that a person would choose.
//!
//! [`Map::set`] adds an entry, [`Map::comment`] a comment above the next one. [`Yaml::plain`] is for numbers, durations and
//! words such as `on`; [`Yaml::text`] is quoted where YAML needs it. Small maps and lists are written on one line.

use std::fmt::Write;
use std::time::Duration;

use crocodile_pear_spec::visible::{self, is_hidden};

use crate::duration;

/// The longest line that a map or list is put on.
const WIDTH: usize = 110;

/// The longest map that has another one in it and is put on one line.
const NESTED: usize = 72;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Yaml {
    /// A number, a duration, a size or a word, written as it is.
    Plain(String),
    /// A text, quoted if need be.
    Text(String),
    /// A list.
    List(Vec<Yaml>),
    /// A map.
    Map(Map),
}

/// A map, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    entries: Vec<MapEntry>,
    comment: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct MapEntry {
    comment: Option<String>,
    key: String,
    value: Yaml,
}

impl Yaml {
    /// A number, a duration or a word. Anything else is a text: what an imported file says is never more than that.
    pub fn plain(value: impl ToString) -> Self {
        let value = value.to_string();
        if is_word(&value) { Yaml::Plain(value) } else { Yaml::Text(value) }
    }

    /// A text.
    pub fn text(value: impl Into<String>) -> Self {
        Yaml::Text(value.into())
    }

    /// A duration in its shortest form.
    pub fn duration(value: Duration) -> Self {
        Yaml::plain(duration::write(value))
    }

    /// A list of texts.
    pub fn texts<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Yaml::List(values.into_iter().map(Yaml::text).collect())
    }

    /// A value of JSON: texts stay texts, whatever they look like.
    pub fn json(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::String(text) => Yaml::text(text),
            serde_json::Value::Array(items) => Yaml::List(items.iter().map(Yaml::json).collect()),
            serde_json::Value::Object(fields) => {
                let mut map = Map::default();
                for (key, value) in fields {
                    map.set(key, Yaml::json(value));
                }
                Yaml::Map(map)
            }
            other => Yaml::plain(other),
        }
    }
}

impl From<Map> for Yaml {
    fn from(map: Map) -> Self {
        Yaml::Map(map)
    }
}

impl Map {
    /// A map with one entry.
    pub fn of(key: impl Into<String>, value: impl Into<Yaml>) -> Self {
        let mut map = Map::default();
        map.set(key, value);
        map
    }

    /// Adds an entry, or replaces the one of this key.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Yaml>) -> &mut Self {
        let (key, value, comment) = (key.into(), value.into(), self.comment.take());
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => entry.value = value,
            None => self.entries.push(MapEntry { comment, key, value }),
        }
        self
    }

    /// Adds an entry, if there is a value for it.
    pub fn set_some(&mut self, key: impl Into<String>, value: Option<impl Into<Yaml>>) -> &mut Self {
        match value {
            Some(value) => self.set(key, value),
            None => self,
        }
    }

    /// Adds a list or a map, unless it is empty.
    pub fn set_filled(&mut self, key: impl Into<String>, value: impl Into<Yaml>) -> &mut Self {
        match value.into() {
            Yaml::List(items) if items.is_empty() => self,
            Yaml::Map(map) if map.is_empty() => self,
            value => self.set(key, value),
        }
    }

    /// Adds the entries of another map, without their comments.
    pub fn extend(&mut self, other: &Map) {
        for (key, value) in other.iter() {
            self.set(key, value.clone());
        }
    }

    /// Puts a comment above the next entry.
    pub fn comment(&mut self, text: impl Into<String>) -> &mut Self {
        let text = text.into();
        self.comment = Some(match self.comment.take() {
            Some(before) => before + "\n" + &text,
            None => text,
        });
        self
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Yaml> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The keys and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Yaml)> {
        self.entries.iter().map(|entry| (entry.key.as_str(), &entry.value))
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The whole document as text: top-level maps are blocks, with an empty line between them.
    pub fn document(&self) -> String {
        let mut text = String::new();
        for (at, entry) in self.entries.iter().enumerate() {
            let is_block = matches!(entry.value, Yaml::Map(_));
            let after_block =
                at.checked_sub(1).is_some_and(|before| matches!(self.entries[before].value, Yaml::Map(_)));
            if at > 0 && (is_block || after_block) {
                text.push('\n');
            }
            let Yaml::Map(map) = &entry.value else {
                put(&mut text, 0, entry);
                continue;
            };
            let is_named = NAMED.contains(&entry.key.as_str()) && !map.is_empty();
            if let (Some(line), false) = (flow(&entry.value, true), is_named)
                && entry.comment.is_none()
                && line.len() + entry.key.len() < WIDTH
            {
                let _ = writeln!(text, "{}: {line}", name(&entry.key, false));
                continue;
            }
            remark(&mut text, 0, entry.comment.as_deref());
            let _ = writeln!(text, "{}:", name(&entry.key, false));
            for entry in &map.entries {
                put(&mut text, 2, entry);
            }
        }
        text
    }
}

/// The maps of named parts: always blocks.
const NAMED: [&str; 4] = ["upstreams", "endpoints", "groups", "databases"];

fn remark(text: &mut String, indent: usize, comment: Option<&str>) {
    for line in comment.unwrap_or_default().lines() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:indent$}# {}", "", visible::plain(line));
    }
}

/// Writes an entry of a block.
fn put(text: &mut String, indent: usize, entry: &MapEntry) {
    remark(text, indent, entry.comment.as_deref());
    let _ = write!(text, "{:indent$}{}:", "", name(&entry.key, false));
    value(text, indent, indent + entry.key.len() + 2, &entry.value);
}

/// Writes the value of a key or of a `-` that stands at this indentation.
fn value(text: &mut String, indent: usize, column: usize, value: &Yaml) {
    let line = match value {
        Yaml::Text(text) if !text.contains('\n') => Some(scalar(text, false)),
        value => flow(value, false).filter(|line| column + line.len() <= WIDTH || is_scalar(value)),
    };
    if let Some(line) = line {
        let _ = writeln!(text, " {line}");
        return;
    }
    match value {
        Yaml::Plain(plain) => _ = writeln!(text, " {plain}"),
        Yaml::Text(lines) => {
            let _ = writeln!(text, " |-");
            for line in lines.lines() {
                let _ = writeln!(text, "{:width$}{line}", "", width = indent + 2);
            }
        }
        Yaml::Map(map) => {
            text.push('\n');
            for entry in &map.entries {
                put(text, indent + 2, entry);
            }
        }
        Yaml::List(items) => {
            text.push('\n');
            for item in items {
                self::item(text, indent + 2, item);
            }
        }
    }
}

/// Writes an item of a block list.
fn item(text: &mut String, indent: usize, item: &Yaml) {
    let is_step = matches!(item, Yaml::Map(map) if map.len() == 1);
    match item {
        Yaml::Map(map) if is_step || flow(item, false).is_none_or(|line| indent + 2 + line.len() > WIDTH) => {
            for (at, entry) in map.entries.iter().enumerate() {
                let mut part = String::new();
                put(&mut part, indent + 2, entry);
                match part.get(indent + 2..).filter(|_| at == 0 && entry.comment.is_none()) {
                    Some(first) => drop(write!(text, "{:indent$}- {first}", "")),
                    None => text.push_str(&part),
                }
            }
        }
        _ => {
            let _ = write!(text, "{:indent$}-", "");
            value(text, indent, indent + 2, item);
        }
    }
}

/// Whether a text is one word for YAML and for the configuration, wherever it is written.
fn is_word(text: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-+/%".contains(letter);
    !matches!(text, "" | "-" | "---" | "...") && !text.starts_with('%') && text.chars().all(fits)
}

fn is_scalar(value: &Yaml) -> bool {
    matches!(value, Yaml::Plain(_) | Yaml::Text(_))
}

/// A value on one line, if it reads well there.
fn flow(value: &Yaml, within: bool) -> Option<String> {
    match value {
        Yaml::Plain(plain) => Some(plain.clone()),
        Yaml::Text(text) if text.contains('\n') => block_safe(text).then_some(()).map_or(Some(quoted(text)), |()| None),
        Yaml::Text(text) => Some(scalar(text, true)),
        Yaml::List(items) => {
            let plain = items.iter().all(is_scalar) || (within && items.is_empty());
            let parts = || items.iter().map(|item| flow(item, true)).collect::<Option<Vec<String>>>();
            plain.then(parts)?.map(|parts| format!("[{}]", parts.join(", ")))
        }
        Yaml::Map(map) if map.is_empty() => Some("{}".to_owned()),
        Yaml::Map(map) => {
            let one = |entry: &MapEntry| {
                let value = entry.comment.is_none().then(|| flow(&entry.value, true))??;
                Some(format!("{}: {value}", name(&entry.key, true)))
            };
            let parts: Vec<String> = map.entries.iter().map(one).collect::<Option<_>>()?;
            let line = format!("{{ {} }}", parts.join(", "));
            let nested = map.entries.iter().any(|entry| matches!(entry.value, Yaml::Map(_)));
            (!nested || line.len() <= NESTED).then_some(line)
        }
    }
}

/// Whether a text of several lines may be written as a block.
fn block_safe(text: &str) -> bool {
    let odd = |letter: char| is_hidden(letter) && letter != '\n';
    !text.starts_with([' ', '\n']) && !text.ends_with('\n') && !text.contains(odd) && !text.contains("${")
}

/// A text as one scalar; `flow`: also within braces.
fn scalar(text: &str, flow: bool) -> String {
    // `${` would be a variable of the environment.
    let text = text.replace("${", "$${");
    if text.chars().any(is_hidden) {
        return quoted(&text);
    }
    if is_plain(&text, flow) { text } else { format!("'{}'", text.replace('\'', "''")) }
}

/// A key. `on` and `off` are names as well as switches.
fn name(key: &str, flow: bool) -> String {
    if matches!(key, "on" | "off") { key.to_owned() } else { scalar(key, flow) }
}

/// Whether a text needs no quotes.
fn is_plain(text: &str, flow: bool) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let word = |letter: char| letter.is_ascii_alphanumeric() || "/._$".contains(letter) || !letter.is_ascii();
    let ends = text.ends_with([' ', ':']) || text.contains(": ") || text.contains(" #");
    let odd = |letter: char| {
        "\"'`\\!*|>%@#".contains(letter) && letter != '*' && letter != '%'
            || (flow && ",[]{}".contains(letter))
            || (!flow && "[]".contains(letter))
    };
    word(first) && !ends && !text.contains(odd) && !is_other(text)
}

/// Whether YAML, or the configuration, would read something else than a text.
fn is_other(text: &str) -> bool {
    let words = ["null", "true", "false", "yes", "no", "on", "off", "~"];
    words.contains(&text.to_ascii_lowercase().as_str())
        || text.parse::<f64>().is_ok()
        || text.starts_with("0x")
        || text.starts_with("0o")
}

/// A text in double quotes, with escapes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            letter if is_hidden(letter) => {
                let code = u32::from(letter);
                let _ = if code < 0x1_0000 { write!(quoted, "\\u{code:04x}") } else { write!(quoted, "\\U{code:08x}") };
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use crocodile_pear_spec::problem::Problems;
    use crocodile_pear_spec::settings::Node;

    use super::{Map, Yaml};

    #[test]
    fn small_things_are_on_one_line_and_named_parts_are_not() {
        let mut upstream = Map::default();
        upstream.set("url", Yaml::text("http://127.0.0.1:80")).set("timeout", Yaml::plain("2s"));
        let call = Map::of("to", Yaml::text("shop")).set("path", Yaml::text("/a?b={$query.b}")).clone();
        let mut endpoint = Map::default();
        endpoint.comment("Why.").set("timeout", Yaml::plain("3s"));
        endpoint.set(
            "pipeline",
            Yaml::List(vec![Map::of("request", call).into(), Map::of("transform", Yaml::text(".a")).into()]),
        );
        let mut document = Map::default();
        document.set("listen", Yaml::text("0.0.0.0:80"));
        document.set("upstreams", Map::of("shop", upstream));
        document.set("endpoints", Map::of("GET /a/{b}", endpoint));
        let wanted = "\
listen: 0.0.0.0:80

upstreams:
  shop: { url: http://127.0.0.1:80, timeout: 2s }

endpoints:
  GET /a/{b}:
    # Why.
    timeout: 3s
    pipeline:
      - request: { to: shop, path: '/a?b={$query.b}' }
      - transform: .a
";
        assert_eq!(document.document(), wanted);
    }

    #[test]
    fn every_text_is_read_as_it_was() {
        let odd = [
            "",
            " ",
            "a: b",
            "a #b",
            "#",
            "on",
            "null",
            "1",
            "1e3",
            "it's",
            "\"",
            "\\",
            "a\nb",
            "\n",
            "a\tb",
            "${HOME}",
            "$${A}",
            "{a}",
            "[a]",
            "a, b",
            "*",
            "&a",
            "!b",
            "- a",
            "-",
            "?",
            "|",
            "%a",
            "@a",
            "`",
            "\u{7f}",
            "é",
            "a:",
            "a\r",
            " a",
            "a ",
            "x\n\ny",
            "  x\ny",
            "http://a/b?c=d&e",
            "0x10",
            "~",
            "GET /a/{b}",
            "=",
            "<<",
            "\u{2028}",
        ];
        for text in odd {
            let mut map = Map::default();
            map.set("plain", Yaml::text(text)).set("list", Yaml::texts([text, text]));
            map.set("inner", Map::of(if text.is_empty() { "x" } else { text }, Yaml::text(text)));
            let written = map.document();
            let mut problems = Problems::default();
            let node = crocodile_pear_spec::yaml::read(0, &written, &|_| None, &mut problems).expect("it is YAML");
            let read = |node: Option<&Node>| node.and_then(Node::as_text).map(|text| text.value);
            assert_eq!(read(node.field("plain")).as_deref(), Some(text), "{written}");
            let list = node.field("list").and_then(Node::as_list).expect("a list");
            assert_eq!(
                list.iter().map(|item| read(Some(item))).collect::<Vec<_>>(),
                vec![Some(text.to_owned()); 2],
                "{written}"
            );
            let inner = node.field("inner").and_then(Node::as_map).expect("a map");
            assert_eq!(read(Some(&inner[0].1)).as_deref(), Some(text), "{written}");
        }
    }
}
