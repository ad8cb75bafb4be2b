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

#[test]
fn the_schema_beside_the_examples_is_the_code_s() {
    same("examples/crocodile-pear.schema.json", &format!("{:#}\n", document()));
}

#[test]
fn the_reference_says_what_the_code_does() {
    same("docs/reference.md", &reference::write(&document()));
}
