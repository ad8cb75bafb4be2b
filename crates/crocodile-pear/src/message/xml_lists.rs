//! XML elements that always become lists, even if they occur once or never.

use std::sync::Arc;

use crate::config::problem::Problems;
use crate::config::spec::Located;
use crate::{choice, spec};

spec! {
    /// How to read XML in answers.
    pub struct XmlSpec {
        /// The elements that are lists, each with its parent: `channel/item`. Such an element becomes a list even if
        /// it occurs only once, and an empty list if it does not occur, so that `.rss.channel.item[]` always works.
        /// You can write more of its ancestors: `rss/channel/item`.
        pub lists: Vec<Located<String>> = Vec::new(),
        /// Whether names keep their prefixes: `dc:date`. With `off` the name is `date`, and declarations of namespaces are left
        /// out.
        pub prefixes: PrefixesSpec = PrefixesSpec::On,
        /// Whether documents are read that are not XML by the letter, as some feeds: with a blank line before `<?xml`, with
        /// entities of HTML (`&nbsp;`), or with an `&` that stands for itself.
        pub lenient: LenientSpec = LenientSpec::Off,
    }
}

choice! {
    /// Whether names in XML keep their prefixes.
    pub enum PrefixesSpec {
        /// They do.
        On = "on",
        /// They do not.
        Off = "off",
    }
}

choice! {
    /// Whether documents are read that are nearly XML.
    pub enum LenientSpec {
        /// They are.
        On = "on",
        /// They are an error.
        Off = "off",
    }
}

spec! {
    /// How to read CSV in answers.
    pub struct CsvSpec {
        /// The character between fields: `;`, or `tab`.
        pub delimiter: Located<String> = Located::new(",".to_owned(), Default::default()),
    }
}

impl CsvSpec {
    /// The byte between fields.
    pub fn compile(&self, problems: &mut Problems) -> Option<u8> {
        match self.delimiter.value.as_bytes() {
            b"tab" | b"\t" => Some(b'\t'),
            [byte] if (byte.is_ascii_punctuation() && *byte != b'"') || *byte == b' ' => Some(*byte),
            _ => {
                problems.error(self.delimiter.span, "a delimiter is one sign, and no quote", "write `;`, `|` or `tab`")
            }
        }
    }
}

/// How answers are read where their format leaves it open: the elements that are lists, and others. Most answers have none.
#[derive(Clone, Debug, Default)]
pub struct Lists(Option<Arc<ListRules>>);

#[derive(Clone, Debug, Default)]
struct ListRules {
    lists: Vec<ListElement>,
    bare: bool,
    lenient: bool,
    delimiter: Option<u8>,
}

/// An element that is a list, and the elements around it, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListElement {
    within: Vec<String>,
    name: String,
}

impl XmlSpec {
    /// Compiles the spec; records every problem.
    pub fn compile(&self, problems: &mut Problems) -> Option<Lists> {
        // Collect first: an early return at the first failure would hide the other problems.
        let lists: Vec<Option<ListElement>> = self.lists.iter().map(|written| list(written, problems)).collect();
        let lists = lists.into_iter().collect::<Option<Vec<ListElement>>>()?;
        let (bare, lenient) = (self.prefixes == PrefixesSpec::Off, self.lenient == LenientSpec::On);
        let plain = lists.is_empty() && !bare && !lenient;
        Some(Lists((!plain).then(|| Arc::new(ListRules { lists, bare, lenient, delimiter: None }))))
    }
}

fn list(written: &Located<String>, problems: &mut Problems) -> Option<ListElement> {
    let mut names: Vec<String> = written.value.trim_start_matches('/').split('/').map(str::to_owned).collect();
    let name = names.pop().unwrap_or_default();
    if name.starts_with('.') || name.contains(['[', ' ']) {
        let path = written.value.trim_start_matches('.').replace("[]", "").replace('.', "/");
        return problems.error(
            written.span,
            "this is an expression, not a path of elements",
            format!("write `{path}`"),
        );
    }
    if names.is_empty() && !name.is_empty() {
        let parent = match name.as_str() {
            "item" => "channel",
            "entry" => "feed",
            _ => "NAME",
        };
        let message = format!("the parent element of `{name}` is missing");
        let remedy = format!("write `{parent}/{name}`: a parent without any `{name}` then gets an empty list");
        return problems.error(written.span, message, remedy);
    }
    if name.is_empty() || names.iter().any(String::is_empty) {
        return problems.error(written.span, "an element without a name", "write names with a `/` between them");
    }
    Some(ListElement { within: names, name })
}

impl Lists {
    /// The same, with this byte between the fields of CSV.
    pub fn with_delimiter(self, delimiter: u8) -> Self {
        if delimiter == b',' {
            return self;
        }
        let rules = self.0.as_deref().cloned().unwrap_or_default();
        Lists(Some(Arc::new(ListRules { delimiter: Some(delimiter), ..rules })))
    }

    /// The byte between the fields of CSV.
    pub fn delimiter(&self) -> u8 {
        self.0.as_ref().and_then(|rules| rules.delimiter).unwrap_or(b',')
    }

    /// Whether names have no prefixes.
    pub fn bare(&self) -> bool {
        self.0.as_ref().is_some_and(|rules| rules.bare)
    }

    /// Whether documents are read that are nearly XML.
    pub fn lenient(&self) -> bool {
        self.0.as_ref().is_some_and(|rules| rules.lenient)
    }

    /// The names of the child elements of the innermost open element that are lists.
    pub fn within<'a>(&'a self, open: impl DoubleEndedIterator<Item = &'a str> + Clone) -> Vec<&'a str> {
        let Some(lists) = self.0.as_ref().map(|rules| &rules.lists) else { return Vec::new() };
        let around = |list: &&ListElement| {
            let mut open = open.clone().rev();
            list.within.iter().rev().all(|name| open.next() == Some(name))
        };
        lists.iter().filter(around).map(|list| list.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::xml_lists::*;
    use crate::config::problem::Span;
    use crate::format::xml::read;

    fn compiled(lists: &[&str]) -> Result<Lists, Vec<String>> {
        let span = Span { file: 0, line: 1, column: 1, length: 1 };
        let lists = lists.iter().map(|list| Located::new((*list).to_owned(), span)).collect();
        let mut problems = Problems::default();
        let compiled = XmlSpec { lists, prefixes: PrefixesSpec::On, lenient: LenientSpec::Off }.compile(&mut problems);
        let remedy = |problem: crate::config::problem::ConfigProblem| problem.remedy.unwrap_or_default();
        compiled.ok_or_else(|| problems.into_sorted().into_iter().map(remedy).collect())
    }

    fn json(text: &str, lists: &[&str]) -> String {
        let raw = read(text.as_bytes(), None, &compiled(lists).expect("sound")).expect("XML");
        assert!(crate::json::check(raw.bytes()).is_ok(), "{raw:?}");
        String::from_utf8(raw.bytes().to_vec()).expect("UTF-8")
    }

    #[test]
    fn a_list_has_none_one_or_many() {
        let feed = |items: &str| json(&format!("<rss><channel>{items}</channel></rss>"), &["channel/item"]);
        assert_eq!(feed(""), r#"{"rss":{"channel":{"item":[]}}}"#);
        assert_eq!(feed("<title>a</title>"), r#"{"rss":{"channel":{"title":"a","item":[]}}}"#);
        assert_eq!(feed("<item>1</item>"), r#"{"rss":{"channel":{"item":["1"]}}}"#);
        assert_eq!(feed("<item>1</item><t/><item/>"), r#"{"rss":{"channel":{"item":["1",""],"t":""}}}"#);
    }

    #[test]
    fn a_list_is_known_by_the_elements_around_it() {
        let text = "<a><b><c>1</c></b><d><c>2</c></d></a>";
        assert_eq!(json(text, &["b/c"]), r#"{"a":{"b":{"c":["1"]},"d":{"c":"2"}}}"#);
        assert_eq!(json(text, &["a/b/c", "x/d/c"]), r#"{"a":{"b":{"c":["1"]},"d":{"c":"2"}}}"#);
        assert_eq!(json(text, &["/a/b", "b/e"]), r#"{"a":{"b":[{"c":"1","e":[]}],"d":{"c":"2"}}}"#);
    }

    #[test]
    fn attributes_and_text_stay_beside_an_empty_list() {
        assert_eq!(json("<a b='1'>x</a>", &["a/c"]), r##"{"a":{"@b":"1","c":[],"#text":"x"}}"##);
        assert_eq!(json("<a> </a>", &["a/c"]), r#"{"a":{"c":[]}}"#);
        assert_eq!(json("<a/>", &["a/c", "a/c", "a/d"]), r#"{"a":{"c":[],"d":[]}}"#);
    }

    #[test]
    fn a_list_counts_as_a_level() {
        let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        let lists = compiled(&["a/a"]).expect("sound");
        assert!(read(nested(63).as_bytes(), None, &lists).is_ok());
        assert!(read(nested(65).as_bytes(), None, &lists).is_err());
    }

    #[test]
    fn what_is_no_path_of_elements_is_told() {
        let told = compiled(&["item", ".rss.channel.item[]", "a//b"]).expect_err("unsound");
        let wanted = [
            "write `channel/item`: a parent without any `item` then gets an empty list",
            "write `rss/channel/item`",
            "write names with a `/` between them",
        ];
        assert_eq!(told, wanted);
    }
}
