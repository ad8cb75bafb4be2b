//! `docs/failures.md`: each log line, metric, alert and test that it names is there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::documents::root;
use crate::documents::security::tests;

/// The code of the programs.
fn code() -> String {
    let mut folders = vec![root().join("crates/crocodile-pear/src"), root().join("crates/crocodile-pear-gateway/src")];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => text.push_str(&source(&path)),
            }
        }
    }
    text
}

/// Files that are not code are left out.
fn source(path: &Path) -> String {
    match path.extension() {
        Some(extension) if extension == "rs" => fs::read_to_string(path).unwrap(),
        _ => String::new(),
    }
}

/// The names in a cell, in backticks.
fn named(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn each_failure_has_its_line_its_metric_its_alert_and_its_test() {
    let page = fs::read_to_string(root().join("docs/failures.md")).unwrap();
    let (code, tests) = (code(), tests());
    let reference = fs::read_to_string(root().join("docs/reference.md")).unwrap();
    let alerts: PathBuf = root().join("contrib/prometheus/alerts.yml");
    let alerts = fs::read_to_string(alerts).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && !line.contains("| held by |")).collect();
    assert!(rows.len() > 15, "{} failures", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [fault, _, log, metric, alert, held] = cells[..] else { panic!("{row}") };
        let mut check = |cell: &str, least: usize, holds: &dyn Fn(&str) -> bool| {
            let names = named(cell);
            if names.len() < least || !names.iter().all(|name| holds(name)) {
                wrong.push(format!("{fault}: `{cell}`"));
            }
        };
        check(log, 1, &|line| code.contains(line));
        check(metric, usize::from(!alert.is_empty()), &|name| reference.contains(&format!("| `{name}` |")));
        check(alert, 0, &|name| alerts.contains(&format!("alert: {name}\n")));
        check(held, 1, &|name| tests.contains(name));
    }
    assert!(wrong.is_empty(), "these name something that is not there:\n{}", wrong.join("\n"));
}
