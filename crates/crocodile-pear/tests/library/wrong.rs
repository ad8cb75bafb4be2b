//! Programs that are wrong, and what the compiler says of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The newest build of a library beside this test.
fn newest(folder: &Path, name: &str) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let fits = |file: &PathBuf| {
        let stem = file.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        stem.strip_prefix(&format!("lib{name}-")).is_some_and(|rest| rest.ends_with(".rlib"))
    };
    files.filter(fits).max_by_key(|file| file.metadata().and_then(|data| data.modified()).ok())
}

/// The messages of the compiler about a program; `None` if it has nothing against it.
fn errors(program: &Path) -> Option<String> {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let mut compiler = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()));
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wrong-{}", std::process::id()));
    compiler.args(["--edition=2024", "--emit=metadata", "--crate-type=bin", "-o"]).arg(made).arg("-L");
    compiler.arg(format!("dependency={}", folder.display()));
    for name in ["crocodile_pear", "serde", "http", "tower_service"] {
        let Some(library) = newest(folder, name) else { continue };
        compiler.arg("--extern").arg(format!("{name}={}", library.display()));
    }
    let said = compiler.arg(program).output().unwrap();
    (!said.status.success()).then(|| String::from_utf8_lossy(&said.stderr).into_owned())
}

#[test]
fn a_wrong_program_does_not_compile_and_the_error_says_what_to_write() {
    if Command::new("rustc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no rustc");
        return;
    }
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/library/wrong");
    let programs: BTreeMap<PathBuf, String> = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| (entry.path(), std::fs::read_to_string(entry.path()).unwrap()))
        .collect();
    assert_eq!(programs.len(), 28);
    let mut unlike = Vec::new();
    for (program, text) in programs {
        let wanted = text.lines().next().and_then(|line| line.strip_prefix("// says: ")).unwrap();
        match errors(&program) {
            None => unlike.push(format!("{} compiles", program.display())),
            Some(said) if !said.contains(wanted) => {
                unlike.push(format!("{}: not `{wanted}` but\n{said}", program.display()));
            }
            Some(_) => {}
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
}
