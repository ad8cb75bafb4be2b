//! Forty-seven tasks with hypermedia, each an endpoint against documents shaped as real servers send them: Spring Data
//! REST, Spring HATEOAS, Django REST framework, json-server, SAP CAP, spyne, moto, feeds, GraphQL servers, language models.
//! `cargo test --test tasks -- --nocapture table` prints how many lines each takes.

// The table of lines is for a reader of the test.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use crocodile_pear_stage as stage;

/// The number of tasks.
const TASKS: usize = 47;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tasks/set");
    let mut arguments = Arguments::from_args();
    // They wait more than they work.
    arguments.test_threads.get_or_insert(8);
    let files = files(&folder);
    let mut trials: Vec<Trial> = files.iter().cloned().map(trial).collect();
    trials.push(Trial::test("table", move || table(&files)));
    // Answers of real servers; bench/hypermedia/record.py records them anew.
    trials.extend(self::files(&folder.with_file_name("recorded")).into_iter().map(trial));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

fn trial(path: PathBuf) -> Trial {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Trial::test(name, move || stage::play::play(&path).map_err(Into::into))
}

/// Every task is there once; its lines are those of its endpoints.
fn table(files: &[PathBuf]) -> Result<(), Failed> {
    if files.len() != TASKS {
        return Err(format!("{} tasks, not {TASKS}", files.len()).into());
    }
    let mut sum = 0;
    for (at, path) in files.iter().enumerate() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with(&format!("{:02}_", at + 1)) {
            return Err(format!("{name} is not task {}", at + 1).into());
        }
        let text = std::fs::read_to_string(path)?;
        let about = text.lines().find_map(|line| line.strip_prefix("about: ")).unwrap_or_default();
        let lines = lines(&text);
        sum += lines;
        println!("| {} | {about} | {lines} |", at + 1);
    }
    println!("| | all, {:.1} each | {sum} |", f64::from(u32::try_from(sum)?) / 47.0);
    Ok(())
}

/// The lines of the endpoints: those below `endpoints:` in the configuration.
fn lines(text: &str) -> usize {
    let config = text.lines().skip_while(|line| *line != "config: |").skip(1);
    let config = config.take_while(|line| line.is_empty() || line.starts_with(' '));
    config.skip_while(|line| line.trim() != "endpoints:").skip(1).filter(|line| !line.trim().is_empty()).count()
}
