//! Forty-seven tasks with hypermedia, each an endpoint against documents shaped as real servers send them: Spring Data
//! REST, Spring HATEOAS, Django REST framework, json-server, SAP CAP, spyne, moto, feeds, GraphQL servers, language models.
//! `cargo test --test cases -- --nocapture tasks::table` prints how many lines each takes.

// The table of lines is for a reader of the test.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;

use libtest_mimic::{Failed, Trial};

/// The number of tasks.
const TASKS: usize = 47;

pub fn trials(shown: bool) -> impl Iterator<Item = Trial> {
    let files = crate::files("tasks/set", "yaml");
    // Answers of real servers; bench/hypermedia/record.py records them anew.
    let recorded = crate::files("tasks/recorded", "yaml");
    let played = [files.clone(), recorded].concat();
    let table = Trial::test("tasks::table", move || table(&files, shown));
    crate::each("tasks", played, crate::play).chain([table])
}

/// Every task is there once; its lines are those of its endpoints.
fn table(files: &[PathBuf], shown: bool) -> Result<(), Failed> {
    if files.len() != TASKS {
        return Err(format!("{} tasks, not {TASKS}", files.len()).into());
    }
    let (mut sum, mut rows) = (0, String::new());
    for (at, path) in files.iter().enumerate() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with(&format!("{:02}_", at + 1)) {
            return Err(format!("{name} is not task {}", at + 1).into());
        }
        let text = std::fs::read_to_string(path)?;
        let about = text.lines().find_map(|line| line.strip_prefix("about: ")).unwrap_or_default();
        let lines = lines(&text);
        sum += lines;
        rows += &format!("| {} | {about} | {lines} |\n", at + 1);
    }
    rows += &format!("| | all, {:.1} each | {sum} |", f64::from(u32::try_from(sum)?) / 47.0);
    if shown {
        println!("{rows}");
    }
    Ok(())
}

/// The lines of the endpoints: those below `endpoints:` in the configuration.
fn lines(text: &str) -> usize {
    let config = text.lines().skip_while(|line| *line != "config: |").skip(1);
    let config = config.take_while(|line| line.is_empty() || line.starts_with(' '));
    config.skip_while(|line| line.trim() != "endpoints:").skip(1).filter(|line| !line.trim().is_empty()).count()
}
