//! Checks every faulty file in `problems/` as an operator would: `check` says exactly what is in its `.report`.
//! `BLESS=1` writes what is said; read it as the one who made the fault.

use std::path::Path;

use libtest_mimic::{Failed, Trial};

use crocodile_pear_gateway::config::{Colour, ProblemFormat};

pub fn trials() -> impl Iterator<Item = Trial> {
    crate::each("problems", crate::files("problems", "yaml"), told)
}

fn told(path: &Path) -> Result<(), Failed> {
    let (said, fails) = crate::check(path, ProblemFormat::Text(Colour::Never))?;
    let wanted = path.with_extension("report");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&wanted, &said)?;
    }
    if said != std::fs::read_to_string(&wanted)? {
        return Err(format!("{} is told as\n{said}", path.display()).into());
    }
    // A configuration that has only warnings runs.
    match fails == said.lines().any(|line| line.starts_with("error")) {
        true => Ok(()),
        false => Err(format!("whether it fails: {fails}").into()),
    }
}
