//! TOML as a tree in which every part knows its place.

use crocodile_pear_spec::problem::Span;
use crocodile_pear_spec::settings::{Located, Node, NodeKind};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::json::ParseError;

/// Reads a text as TOML.
///
/// # Errors
/// The first place where it is not TOML.
pub fn read(text: &str) -> Result<Node, ParseError> {
    let places = Places(text);
    let table = DeTable::parse(text).map_err(|error| ParseError {
        span: Span { length: 1, ..places.span(error.span().unwrap_or_default()) },
        message: error.message().to_owned(),
        remedy: "",
    })?;
    let span = Span { file: 0, line: 1, column: 1, length: 1 };
    Ok(Node { span, kind: places.table(table.get_ref()) })
}

/// The text in which bytes have their lines and columns.
struct Places<'a>(&'a str);

impl Places<'_> {
    fn span(&self, range: std::ops::Range<usize>) -> Span {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let before = self.0.get(..range.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let inner = self.0.get(range).unwrap_or_default().lines().next().unwrap_or_default();
        Span { file: 0, line: number(line), column: number(column), length: number(inner.chars().count().max(1)) }
    }

    fn table(&self, table: &DeTable<'_>) -> NodeKind {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            (Located::new(name.to_string(), self.span(key.span())), self.node(value))
        };
        NodeKind::Map(entries.into_iter().map(entry).collect())
    }

    fn node(&self, value: &Spanned<DeValue<'_>>) -> Node {
        let plain = |text: String| NodeKind::Scalar { text, quoted: false, runs: None };
        let kind = match value.get_ref() {
            DeValue::String(text) => NodeKind::Scalar { text: text.to_string(), quoted: true, runs: None },
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => plain(number.to_string()),
                Err(_) => plain(number.as_str().to_owned()),
            },
            DeValue::Float(number) => plain(number.as_str().to_owned()),
            DeValue::Boolean(value) => plain(value.to_string()),
            DeValue::Datetime(time) => NodeKind::Scalar { text: time.to_string(), quoted: true, runs: None },
            DeValue::Array(items) => NodeKind::List(items.iter().map(|item| self.node(item)).collect()),
            DeValue::Table(table) => self.table(table),
        };
        Node { span: self.span(value.span()), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn every_part_has_its_place() {
        let text = "version = 3\n[[endpoints]]\n\"endpoint\" = \"/é\"\n[[endpoints]]\nendpoint = '/b'\nflag = true\n";
        let root = read(text).ok().expect("TOML");
        let map = root.as_map().expect("a table");
        let place = |span: crocodile_pear_spec::problem::Span| (span.line, span.column, span.length);
        assert_eq!((map[0].0.value.as_str(), place(map[0].0.span)), ("version", (1, 1, 7)));
        let list = map[1].1.as_list().expect("a list");
        assert_ne!(place(list[0].span), place(list[1].span));
        let first = list[0].as_map().expect("a table");
        assert_eq!(first[0].1.as_text().map(|text| text.value).as_deref(), Some("/é"));
        let names: Vec<&str> = list[1].as_map().expect("a table").iter().map(|(key, _)| key.value.as_str()).collect();
        assert_eq!(names, ["endpoint", "flag"]);
        assert_eq!(list[1].field("flag").and_then(|node| node.as_plain()), Some("true"));
    }

    #[test]
    fn the_first_fault_is_named_with_its_place() {
        let line = read("a = 1\nb = \n").err().map(|fault| fault.span.line);
        assert_eq!(line, Some(2));
        assert!(read("a = 1\na = 2\n").is_err());
    }
}
