//! jq's own tests, and our tests in the same format.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::compile::filter::explain;
use super::eval::machine::{Current, Machine};
use super::value::bounded::Item;
use super::value::budget::{self, Budget};
use super::value::operators;
use super::value::operators::same;
use super::*;
use crate::error::Error;
use crate::json;
use crate::meter;

/// How many of jq's tests may differ from jq 1.8.
const MOST: usize = 40;

/// A program, its input and its outputs. Without input: the program must be rejected.
pub struct Case {
    pub line: usize,
    pub program: String,
    pub input: Option<String>,
    outputs: Vec<String>,
}

/// The cases of a file.
pub fn cases(text: &str) -> Vec<Case> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let mut cases = Vec::new();
    while let Some((line, program)) = lines.next() {
        if program.trim().is_empty() || program.trim_start().starts_with('#') {
            continue;
        }
        let refused = program.starts_with("%%FAIL");
        let (line, program) = if refused { lines.next().expect("a program") } else { (line, program) };
        let input = if refused { None } else { lines.by_ref().find(|(_, line)| !line.starts_with('#')) };
        let rest = lines.by_ref().take_while(|(_, line)| !line.trim().is_empty());
        let outputs = rest.map(|(_, line)| line.to_owned()).filter(|line| !line.starts_with('#')).collect();
        let input = input.map(|(_, input)| input.trim_start_matches('\u{feff}').to_owned());
        cases.push(Case { line, program: program.to_owned(), input, outputs });
    }
    cases
}

/// The folder of the files: ours, and jq's as its authors publish them.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/jq")
}

/// jq's own files.
pub const THEIRS: [&str; 6] = ["jq.test", "man.test", "manonig.test", "onig.test", "base64.test", "uri.test"];

fn read(text: &str) -> Option<Value> {
    json::read(&Bytes::copy_from_slice(text.trim().as_bytes())).ok()
}

/// The input. Text that is not JSON is evaluated as an expression.
fn input(text: &str) -> Option<Value> {
    read(text).or_else(|| {
        let source = text.replace("NaN", "nan").replace("Infinity", "infinite");
        Filter::compile(&source, &[]).ok()?.run_one(null(), &mut |_| null()).ok()?
    })
}

/// All outputs, including those before an error.
fn outputs(filter: &Filter, input: Value) -> (Vec<Value>, Option<Error>) {
    let mut outputs = Vec::new();
    let ended = meter::alone(|| {
        budget::within(Budget::WHOLE, || {
            let machine = Machine::new(&filter.program.functions, &[]);
            let flow = machine.each(&filter.program.main, None, Current::of(Item::incoming(input)), &mut |current| {
                outputs.push(current.item.value);
                Ok(())
            });
            flow.map_err(explain)
        })
    });
    (outputs, ended.err())
}

/// The reason why a case fails, if it does.
fn fault(case: &Case) -> Option<String> {
    let filter = match (Filter::compile(&case.program, &[]), &case.input) {
        (Err(_), None) => return None,
        (Ok(_), None) => return Some("it is not refused".into()),
        (Err(faults), _) => return Some(format!("it does not compile: {}", faults[0].message)),
        (Ok(filter), _) => filter,
    };
    let input = input(case.input.as_deref().unwrap_or_default()).expect("an input");
    // The file does not show an error after the outputs.
    let (given, failed) = outputs(&filter, input);
    let wanted: Vec<Value> = case.outputs.iter().map(|output| read(output).expect("an output")).collect();
    let compared = meter::alone(|| {
        budget::within(Budget::of_work(1 << 40), || {
            if given.len() == wanted.len() && given.iter().zip(&wanted).all(|(given, wanted)| same(given, wanted)) {
                return Ok(None);
            }
            let text = |value: &Value| as_str(&operators::written(value).value).unwrap_or_default().to_owned();
            let given: Vec<String> = given.iter().map(text).collect();
            Ok(Some(format!("it gives {given:?}, {failed:?}, and not {:?}", case.outputs)))
        })
    });
    compared.expect("compared")
}

#[test]
fn programs_give_what_jq_gives() {
    let text = fs::read_to_string(folder().join("ours.test")).expect("our own tests");
    let cases = cases(&text);
    assert!(cases.len() > 300, "{}", cases.len());
    let wrong: Vec<String> =
        cases.iter().filter_map(|case| Some(format!("{}: {}: {}", case.line, case.program, fault(case)?))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each of jq's tests passes or is named in `differences`, and each named test differs.
#[test]
fn jqs_own_tests_pass_or_are_listed() {
    let listed = fs::read_to_string(folder().join("differences")).expect("the differences");
    let listed = listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let listed: HashSet<&str> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for name in THEIRS {
        let text = fs::read_to_string(folder().join(name)).expect("jq's own tests");
        for case in cases(&text) {
            count += 1;
            let place = format!("{name}:{}", case.line);
            match (fault(&case), listed.contains(place.as_str())) {
                (None, false) | (Some(_), true) => {}
                (None, true) => wrong.push(format!("{place}: {} passes", case.program)),
                (Some(fault), false) => wrong.push(format!("{place}: {}: {fault}", case.program)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 800 && listed.len() <= MOST, "{} of {count}", listed.len());
}
