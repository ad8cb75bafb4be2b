//! The rows of the pages' tables.

use std::fs;
use std::path::{Path, PathBuf};

/// Stands for a bar that is no border of a cell.
const BAR: &str = "\u{1}";

/// The head of a table that is read.
const HEAD: &str = "| here | where |";

/// A row: `| there | here | where |`.
#[derive(Clone)]
pub struct Row {
    /// The page's name.
    pub page: String,
    /// Its line, from 1.
    pub line: usize,
    /// The texts of the second cell in backticks, one a line.
    pub here: String,
    /// The third cell: where they are written.
    pub at: String,
}

/// The rows of all pages.
pub fn all() -> Vec<Row> {
    let mut pages: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages.iter().flat_map(|page| rows(page)).collect()
}

/// The folder of the pages.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from")
}

fn rows(path: &Path) -> Vec<Row> {
    let page = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).unwrap();
    let mut within = false;
    let mut rows = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.ends_with(HEAD) {
            within = true;
        } else if !line.starts_with('|') {
            within = false;
        } else if within && !line.starts_with("|---") {
            rows.push(row(&page, at + 1, line));
        }
    }
    rows
}

fn row(page: &str, line: usize, text: &str) -> Row {
    let text = text.replace("\\|", BAR);
    let cells: Vec<&str> = text.trim_matches('|').split('|').collect();
    let [_, here, at] = cells[..] else { panic!("{page}.md:{line}: there are {} cells, not 3", cells.len()) };
    // Backticks end a text; two begin one that has backticks itself, which no row needs.
    let here: Vec<String> = here.split('`').skip(1).step_by(2).map(|text| text.replace(BAR, "|")).collect();
    Row { page: page.to_owned(), line, here: here.join("\n"), at: at.trim().to_owned() }
}
