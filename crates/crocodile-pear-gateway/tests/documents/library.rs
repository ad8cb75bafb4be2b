//! The library's documentation: each item that a Rust program may use has an example.

use crate::documents::root;

/// The lines that declare a public item, with the documentation above each.
fn items(text: &str) -> Vec<(String, String)> {
    let mut items = Vec::new();
    let (mut above, mut attribute) = (String::new(), false);
    for line in text.lines().map(str::trim) {
        let declares = ["pub fn ", "pub async fn ", "pub struct ", "pub enum ", "pub trait ", "pub const "];
        if line.starts_with("///") || line.starts_with("#[") || attribute {
            attribute = (attribute || line.starts_with("#[")) && !line.ends_with(']');
            above.push_str(line);
            above.push('\n');
        } else if declares.iter().any(|start| line.starts_with(start)) {
            items.push((line.to_owned(), std::mem::take(&mut above)));
        } else {
            above.clear();
        }
    }
    items
}

/// The files of the modules from which `client.rs` exports, and itself; and what it exports.
fn files() -> (Vec<String>, String) {
    let folder = root().join("crates/crocodile-pear/src");
    let door = std::fs::read_to_string(folder.join("client.rs")).unwrap();
    let exports: Vec<&str> = door.lines().filter_map(|line| line.strip_prefix("pub use ")).collect();
    let modules = exports.iter().filter_map(|export| export.split("::").next());
    let modules = modules.chain(door.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')));
    let mut files: Vec<String> =
        modules.map(|name| std::fs::read_to_string(folder.join(format!("client/{name}.rs"))).unwrap()).collect();
    let exports = exports.join("\n");
    files.push(door);
    (files, exports)
}

/// The code of all examples: those in the documentation, and the programs.
fn examples(files: &[String]) -> String {
    let mut code = String::new();
    for text in files {
        let mut inside = false;
        for line in text.lines().map(str::trim).filter_map(|line| line.strip_prefix("///")) {
            match line.trim().starts_with("```") {
                true => inside = !inside,
                false if inside => code.push_str(line),
                false => {}
            }
        }
    }
    for entry in std::fs::read_dir(root().join("crates/crocodile-pear/examples")).unwrap() {
        code.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    code
}

/// The name that a line declares.
fn name(item: &str) -> &str {
    let rest = item.trim_start_matches("pub ").trim_start_matches("async ").split_once(' ').unwrap().1;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()
}

/// An item has its own example, or an example uses it.
#[test]
fn each_public_item_has_an_example() {
    let (files, exports) = files();
    let code = examples(&files);
    let items: Vec<(String, String)> = files.iter().flat_map(|text| items(text)).collect();
    assert!(items.len() > 30, "{} items", items.len());
    let used = |item: &str| {
        let name = name(item);
        match item.contains("fn ") {
            true => [".", "::"].iter().any(|before| {
                code.match_indices(&format!("{before}{name}")).any(|(at, found)| {
                    let after = &code[at + found.len()..];
                    after.starts_with('(') || after.starts_with("::<")
                })
            }),
            false => !exports.contains(name) || code.contains(name),
        }
    };
    let bare = items.iter().filter(|(item, above)| !above.contains("```") && !used(item));
    let bare: Vec<&String> = bare.map(|(item, _)| item).collect();
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
