//! The library's documentation: each item that a Rust program may use has an example.

use crate::root;

/// The lines that declare a public item, with the documentation above each.
fn items(text: &str) -> Vec<(String, String)> {
    let mut items = Vec::new();
    let mut above = String::new();
    for line in text.lines().map(str::trim) {
        let declares = ["pub fn ", "pub async fn ", "pub struct ", "pub enum ", "pub trait ", "pub const "];
        if line.starts_with("///") || line.starts_with("#[") {
            above.push_str(line);
        } else if declares.iter().any(|start| line.starts_with(start)) {
            items.push((line.to_owned(), std::mem::take(&mut above)));
        } else {
            above.clear();
        }
    }
    items
}

/// The files of the modules from which `client.rs` exports, and itself.
fn files() -> Vec<String> {
    let folder = root().join("crates/crocodile-pear/src");
    let door = std::fs::read_to_string(folder.join("client.rs")).unwrap();
    let exported = door.lines().filter_map(|line| line.strip_prefix("pub use ")?.split("::").next());
    let mut files: Vec<String> =
        exported.map(|name| std::fs::read_to_string(folder.join(format!("client/{name}.rs"))).unwrap()).collect();
    files.push(door);
    files
}

#[test]
fn each_public_item_has_an_example() {
    let items: Vec<(String, String)> = files().iter().flat_map(|text| items(text)).collect();
    assert!(items.len() > 30, "{} items", items.len());
    let bare: Vec<&String> = items.iter().filter(|(_, above)| !above.contains("```")).map(|(item, _)| item).collect();
    assert!(bare.is_empty(), "without an example: {bare:#?}");
}

/// The inbox is a program of 25 lines: how to print it takes no more.
#[test]
fn the_inbox_has_at_most_25_lines() {
    let text = std::fs::read_to_string(root().join("crates/crocodile-pear/examples/inbox.rs")).unwrap();
    let program =
        text.lines().skip_while(|line| !line.starts_with("pub async fn print")).take_while(|line| *line != "}");
    let lines = program.count() + 1;
    assert!((10..=25).contains(&lines), "{lines} lines");
}
