//! Checks every faulty file in `problems/` as an operator would: `check` says exactly what is in its `.report`.
//! `BLESS=1` writes what is said; read it as the one who made the fault.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    let files = std::fs::read_dir("tests/problems").unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    files.sort();
    let trial = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Trial::test(name, move || told(&path))
    };
    libtest_mimic::run(&Arguments::from_args(), files.into_iter().map(trial).collect()).exit_code()
}

fn told(path: &Path) -> Result<(), Failed> {
    let mut check = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    check.envs([("CROCODILE_PEAR_LINES", "a\nb"), ("CROCODILE_PEAR_CODE", "{id: .id}")]);
    let output = check.arg("check").arg(path).output()?;
    let said = String::from_utf8(output.stdout)?;
    let wanted = path.with_extension("report");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&wanted, &said)?;
    }
    let wanted = std::fs::read_to_string(&wanted)?;
    if said != wanted {
        return Err(format!("{} is told as\n{said}", path.display()).into());
    }
    // What has warnings alone runs.
    let fatal = i32::from(said.lines().any(|line| line.starts_with("error")));
    match output.status.code() {
        Some(code) if code == fatal && output.stderr.is_empty() => Ok(()),
        code => Err(format!("exit code {code:?}, {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}
