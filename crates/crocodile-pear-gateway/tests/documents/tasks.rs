//! The page with the fifteen tasks: its lines are those of the files, and nginx takes its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::documents::root;

/// The files that belong to an example.
const PARTS: [(&str, &[&str]); 3] = [
    ("llm", &["plans-keys.yaml"]),
    ("plans", &["plans-keys.yaml"]),
    ("teams", &["plans-keys.yaml", "teams/users.yaml", "teams/weather.yaml"]),
];

/// The lines of a configuration, without comments and empty lines.
fn lines(file: &Path) -> usize {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).count()
}

#[test]
fn the_fifteen_tasks_have_the_lines_that_the_page_says() {
    let page = fs::read_to_string(root().join("docs/tasks.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && line.contains("../examples/")).collect();
    assert_eq!(rows.len(), 15);
    let mut told = 0;
    for part in rows.iter().flat_map(|row| row.split('|')).filter(|part| part.contains("](../")) {
        let (number, rest) = part.trim().trim_start_matches('[').split_once("](../").unwrap();
        let file = &rest[..rest.find(')').unwrap()];
        let name = Path::new(file).file_stem().unwrap().to_str().unwrap();
        let own = file.starts_with("examples/");
        let parts = PARTS.iter().filter(|(example, _)| own && *example == name).flat_map(|(_, parts)| *parts);
        let more: usize = parts.map(|part| lines(&root().join("examples/files").join(part))).sum();
        assert_eq!(number, (lines(&root().join(file)) + more).to_string(), "{file}");
        told += 1;
    }
    assert!(told > 30, "{told}");
}

#[test]
fn nginx_takes_the_configurations_that_it_is_compared_by() {
    let program = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"]
        .into_iter()
        .find(|path| Path::new(path).is_file());
    let Some(program) = program else { return println!("nginx is not installed: its configurations are not tried") };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tasks");
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(root().join("bench/tasks/nginx")).unwrap() {
        let file = entry.unwrap().path();
        let log = folder.join("error.log");
        let mut command = Command::new(program);
        command.arg("-t").arg("-p").arg(&folder).arg("-e").arg(&log).arg("-c").arg(&file);
        let said = command.args(["-g", "pid nginx.pid;"]).output().unwrap();
        assert!(said.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&said.stderr));
    }
}
