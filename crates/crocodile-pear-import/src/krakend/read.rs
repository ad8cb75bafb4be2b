//! A file of KrakenD, read as a tree.

use std::path::Path;

use crocodile_pear_spec::problem::{Problems, Span};
use crocodile_pear_spec::settings::{Located, Node};
use crocodile_pear_spec::yaml;

use super::{json, toml};
use crate::outcome::Unreadable;
use crocodile_pear_spec::document::{self, Source, Sources};

pub struct KrakendFile {
    pub root: Node,
    /// Keys that the same object names again further down.
    pub repeated: Vec<Located<String>>,
    pub sources: Sources,
}

/// How a template becomes a configuration.
const RENDER: &str = "render it first: `FC_ENABLE=1 FC_OUT=krakend.rendered.json krakend check -c FILE`, with the FC_SETTINGS, \
                      FC_PARTIALS and FC_TEMPLATES of your deployment, then import `krakend.rendered.json`";

/// Reads a file by its ending: YAML, TOML, or JSON.
///
/// # Errors
/// Where it cannot be read, is not of its format, or is a template.
pub fn read(path: &Path) -> Result<KrakendFile, Unreadable> {
    let nowhere = |path: &Path| Source { path: path.to_owned(), text: String::new() };
    let bytes = document::read(path).map_err(|why| {
        Unreadable::new(nowhere(path), Span::default(), format!("cannot read `{}`: {why}", path.display()), "")
    })?;
    let text = String::from_utf8(bytes).map_err(|fault| {
        let valid = String::from_utf8_lossy(&fault.as_bytes()[..fault.utf8_error().valid_up_to()]).into_owned();
        let line = u32::try_from(valid.lines().count().max(1)).unwrap_or(u32::MAX);
        let span = Span { file: 0, line, column: 1, length: 1 };
        Unreadable::new(
            Source { path: path.to_owned(), text: valid },
            span,
            "this line is not UTF-8",
            "save the file as UTF-8",
        )
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n");
    let source = || Source { path: path.to_owned(), text: text.clone() };
    if let Some(span) = template(path, &text) {
        return Err(Unreadable::new(source(), span, "this is a template, not a configuration", RENDER));
    }
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    match ending.as_str() {
        "yaml" | "yml" => read_yaml(source(), &text),
        "toml" => {
            let root = toml::read(&text)
                .map_err(|fault| Unreadable::new(source(), fault.span, fault.message, fault.remedy))?;
            let sources = Sources { files: vec![source()], ..Sources::default() };
            Ok(KrakendFile { root, repeated: Vec::new(), sources })
        }
        "hcl" | "properties" => {
            let message = format!("the format of `.{ending}` files is not supported");
            let remedy = "convert it to JSON, YAML or TOML first; KrakenD reads all of them alike";
            Err(Unreadable::new(source(), Span::default(), message, remedy))
        }
        _ => {
            let tree = json::read(&text)
                .map_err(|fault| Unreadable::new(source(), fault.span, fault.message, fault.remedy))?;
            let sources = Sources { files: vec![source()], ..Sources::default() };
            Ok(KrakendFile { root: tree.root, repeated: tree.repeated, sources })
        }
    }
}

fn read_yaml(source: Source, text: &str) -> Result<KrakendFile, Unreadable> {
    let mut problems = Problems::default();
    // KrakenD knows no variables in its file: a `${NAME}` is text.
    let node = yaml::read(0, text, &|name| Some(format!("${{{name}}}")), &mut problems);
    let sources = Sources { files: vec![source], ..Sources::default() };
    match node.filter(|_| !problems.fatal()) {
        Some(root) => Ok(KrakendFile { root, repeated: Vec::new(), sources }),
        None => Err(Unreadable { sources, problems: problems.into_sorted() }),
    }
}

/// The place of the first `{{` of a Go template.
fn template(path: &Path, text: &str) -> Option<Span> {
    let named = path.extension().is_some_and(|ending| ending == "tmpl" || ending == "tpl" || ending == "gotmpl");
    let words = [
        "{{ ",
        "{{-",
        "{{.",
        "{{env",
        "{{template",
        "{{include",
        "{{marshal",
        "{{range",
        "{{if",
        "{{end",
        "{{/*",
        "{{$",
    ];
    let first = words.iter().filter_map(|word| text.find(word)).min().or_else(|| text.find("{{").filter(|_| named))?;
    let before = &text[..first];
    let number = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
    let line = number(before.matches('\n').count());
    let column = number(before.rsplit('\n').next().unwrap_or_default().chars().count());
    Some(Span { file: 0, line, column, length: 2 })
}
