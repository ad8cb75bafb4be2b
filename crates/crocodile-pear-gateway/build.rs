//! Finds the commit that is built, for `--version`.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CROCODILE_PEAR_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let built = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=CROCODILE_PEAR_VERSION={built}");
}

/// The short hash of the commit and its date.
fn commit() -> Option<String> {
    // Packages are also built from sources without a repository.
    if let Some(given) = env::var("CROCODILE_PEAR_COMMIT").ok().filter(|given| !given.is_empty()) {
        return Some(given);
    }
    // A commit would make every build of a developer begin anew.
    if env::var("PROFILE").as_deref() == Ok("debug") {
        return Some("development build".to_owned());
    }
    // The repository around an unpacked crate is another project's.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    for changed in ["HEAD", "logs/HEAD"] {
        println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", changed])?);
    }
    git(&["log", "-1", "--abbrev=9", "--format=%h %cs"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
