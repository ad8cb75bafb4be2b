//! Makes the mistakes that people make, one in each file of `remedies/`: `check` finds one problem, in the right place,
//! and what it says, done exactly, makes the configuration good.
//!
//! A file has three parts: the wrong configuration, what is said (`LINE:COLUMN SEVERITY: message`, then the remedy), and the
//! lines that the remedy changes (`LINE=text` in its place, `LINE+text` behind it, `LINE-` for no line). `BLESS=1` writes
//! the second part anew; read it as the one who made the mistake.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crocodile_pear_gateway::config::ProblemFormat;

const SAID: &str = "=== said\n";
const DONE: &str = "=== done\n";

/// Words before what is to be written exactly.
const EXACTLY: [&str; 6] = ["write", "mean", "quotes:", "in", "missing:", "unit:"];

pub fn trials() -> impl Iterator<Item = Trial> {
    // What remedies name is there.
    for (name, file) in [("cert.pem", "own.pem"), ("key.pem", "own.key")] {
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::copy(Path::new("tests/problems/parts/tls").join(file), to).unwrap();
    }
    crate::each("remedies", crate::files("remedies", "txt"), mended)
}

fn mended(path: &Path) -> Result<(), Failed> {
    let text = std::fs::read_to_string(path)?;
    let (wrong, rest) = text.split_once(SAID).ok_or("nothing is said")?;
    let (wanted, done) = rest.split_once(DONE).ok_or("nothing is done")?;
    let problems = check(path, wrong)?;
    let said: String = problems.iter().map(say).collect();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, [wrong, SAID, &said, DONE, done].concat())?;
    } else if said != wanted {
        return Err(format!("it says\n{said}").into());
    }
    let [problem] = problems.as_slice() else { return Err(format!("{} problems", problems.len()).into()) };
    let (right, changed) = apply(wrong, done)?;
    if let Some(missing) = exactly(problem["remedy"].as_str().unwrap_or_default()).find(|part| !changed.contains(part))
    {
        return Err(format!("the remedy has `{missing}`, and the lines that are changed have not").into());
    }
    match check(path, &right)?.as_slice() {
        [] => Ok(()),
        left => Err(format!("then it says\n{}", left.iter().map(say).collect::<String>()).into()),
    }
}

/// The problems that `check` finds in a configuration.
fn check(path: &Path, config: &str) -> Result<Vec<Value>, Failed> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(path.file_name().unwrap_or_default());
    std::fs::write(&file, config)?;
    let (said, _) = crate::check(&file, ProblemFormat::Json)?;
    Ok(serde_json::from_str(&said)?)
}

fn say(problem: &Value) -> String {
    let text = |name: &str| problem[name].as_str().unwrap_or_default();
    let (line, column) = (&problem["line"], &problem["column"]);
    format!("{line}:{column} {}: {}\n{}\n", text("severity"), text("message"), text("remedy"))
}

/// The configuration with the lines of the third part, and these lines alone.
fn apply(wrong: &str, done: &str) -> Result<(String, String), Failed> {
    let mut lines: Vec<String> = wrong.lines().map(|line| format!("{line}\n")).collect();
    let mut changed = String::new();
    for change in done.lines() {
        let at = change.find(|letter: char| !letter.is_ascii_digit()).ok_or("a change without a sign")?;
        let (line, text) = (change[..at].parse::<usize>()?, &change[at + 1..]);
        let line = lines.get_mut(line - 1).ok_or("a line that is not there")?;
        match &change[at..=at] {
            "=" => *line = format!("{text}\n"),
            "+" => line.push_str(&format!("{text}\n")),
            "-" => line.clear(),
            sign => return Err(format!("`{sign}` is no change").into()),
        }
        changed += &format!("{text}\n");
    }
    Ok((lines.concat(), changed))
}

/// The exact parts of the text that a remedy says to write; `…` and words in capitals stand for something else.
fn exactly(remedy: &str) -> impl Iterator<Item = &str> {
    let mut parts = remedy.split('`');
    let mut before = parts.next().unwrap_or_default();
    std::iter::from_fn(move || {
        let part = (parts.next()?, before);
        before = parts.next().unwrap_or_default();
        Some(part)
    })
    .filter(|(_, before)| before.split_whitespace().last().is_some_and(|word| EXACTLY.contains(&word)))
    .map(|(part, _)| part)
    .filter(|part| !part.contains('…') && !part.contains("NAME"))
}
