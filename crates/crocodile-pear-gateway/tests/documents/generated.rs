//! The documents that the code writes, which must not differ from it.

use std::fs;

use crocodile_pear::unstable::config::spec::{Json, schema};
use crocodile_pear_gateway::gateway::document::Document;

use crate::documents::reference;
use crate::documents::root;

fn document() -> Json {
    schema::<Document>("Crocodile Pear configuration")
}

fn same(path: &str, made: &str) {
    let path = root().join(path);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "{} is not what the code says; `BLESS=1` writes it", path.display());
}

// A line for each definition, so that a change shows which one it changes.
#[test]
fn the_schema_beside_the_examples_is_the_code_s() {
    let mut rest = document();
    let definitions = rest.as_object_mut().and_then(|fields| fields.remove("$defs")).unwrap();
    let lines = definitions.as_object().unwrap().iter().map(|(name, definition)| format!("{name:?}:{definition}"));
    let lines = lines.collect::<Vec<_>>().join(",\n");
    let head = rest.to_string();
    let schema = format!("{},\n\"$defs\":{{\n{lines}\n}}}}\n", head.strip_suffix('}').unwrap());
    let read: Json = serde_json::from_str(&schema).unwrap();
    assert_eq!(read, document());
    same("examples/crocodile-pear.schema.json", &schema);
}

#[test]
fn the_reference_says_what_the_code_does() {
    same("docs/reference.md", &reference::write(&document()));
}
