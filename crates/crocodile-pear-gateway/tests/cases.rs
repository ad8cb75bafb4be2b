//! The tests whose cases are written in files: a test for each file, or for each row of a table. A file of `scenarios/` has one
//! promise, which is tried with real sockets and the program itself. The other folders have a module each.
//! `cargo test --test cases scenarios::slow` plays the scenarios whose names begin with `slow`.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

mod coming;
mod problems;
mod remedies;
mod tasks;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

use crocodile_pear_gateway::cli;
use crocodile_pear_gateway::config::ProblemFormat;
use crocodile_pear_stage as stage;

/// Variables that configurations read.
const VARIABLES: [(&str, &str); 3] =
    [("CROCODILE_PEAR_CODE", "{id: .id}"), ("CROCODILE_PEAR_LINES", "a\nb"), ("HOST", "127.0.0.1")];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They wait more than they work.
    arguments.test_threads.get_or_insert(8);
    let trials =
        coming::trials().chain(problems::trials()).chain(remedies::trials()).chain(tasks::trials(arguments.nocapture));
    let scenarios = each("scenarios", files("scenarios", "yaml"), play);
    libtest_mimic::run(&arguments, trials.chain(scenarios).collect()).exit_code()
}

/// The files with this extension in a folder of `tests`, sorted by name.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = Path::new("tests").join(folder).read_dir().unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension() == Some(OsStr::new(extension)));
    files.sort();
    files
}

/// A test for each file, whose name is that of the module and that of the file.
fn each(module: &str, files: Vec<PathBuf>, test: fn(&Path) -> Result<(), Failed>) -> impl Iterator<Item = Trial> {
    files.into_iter().map(move |path| {
        let name = format!("{module}::{}", path.file_stem().unwrap().to_string_lossy());
        Trial::test(name, move || test(&path))
    })
}

/// Returns what `check` says of a configuration, and whether it fails. A configuration that reads the environment is checked by the
/// program itself.
fn check(path: &Path, format: ProblemFormat) -> Result<(String, bool), Failed> {
    if !std::fs::read_to_string(path)?.contains("${") {
        return Ok(cli::check(path, format));
    }
    let format = if format == ProblemFormat::Json { "json" } else { "text" };
    let mut check = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    let output = check.envs(VARIABLES).args(["check", "--format", format]).arg(path).output()?;
    match output.stderr.is_empty() {
        true => Ok((String::from_utf8(output.stdout)?, !output.status.success())),
        false => Err(String::from_utf8(output.stderr)?.into()),
    }
}

/// Plays the scenario in a file.
fn play(path: &Path) -> Result<(), Failed> {
    stage::play::play(path).map_err(Failed::from)
}
