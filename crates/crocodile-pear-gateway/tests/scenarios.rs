//! Plays every file in `scenarios/`: one promise each, with real sockets and the real binary.
//! `cargo test --test scenarios slow` plays those whose names have `slow` in them.

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crocodile_pear_stage as stage;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut arguments = Arguments::from_args();
    // They wait more than they work.
    arguments.test_threads.get_or_insert(8);
    libtest_mimic::run(&arguments, trials(&folder)).exit_code()
}

fn trials(folder: &Path) -> Vec<Trial> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let trial = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Trial::test(name, move || stage::play::play(&path).map_err(Into::into))
    };
    files.into_iter().map(trial).collect()
}
