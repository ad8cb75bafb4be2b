//! Checks that running on the bytes gives the same result as the evaluator, for generated programs and values, and for
//! the test files.

use std::fs;

use bytes::Bytes;

use super::suite::{THEIRS, cases, folder};
use super::*;
use crate::json;

/// How many programs to try; `JQ_PROGRAMS=100000` sets another number.
const PROGRAMS: usize = 3_000;

/// Pseudo-random numbers (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    /// A path, mostly of keys.
    fn path(&mut self, head: &str, deep: usize) -> String {
        let mut path = head.to_owned();
        for step in 0..=self.below(3) {
            let part = match self.below(14) {
                0..6 => self.of(&[".a", ".b", ".c", ".\"a b\"", "[\"a\"]", ".\"\\u0061\""]).to_owned(),
                6 => format!("[{}]", self.of(&["0", "1", "-1", "-2", "5", "1.5", "-0"])),
                7 => {
                    format!("[{}:{}]", self.of(&["", "0", "1", "-2", "9", "0.5"]), self.of(&["1", "2", "-1", "0", "9"]))
                }
                8 => format!("[{}:]", self.of(&["1", "-1", "0", "-9"])),
                9 => self.of(&[".a?", "[0]?", "[]?", "[:1]?"]).to_owned(),
                10 => "[]".to_owned(),
                11 if deep < 2 => format!("[{}]", self.term(deep + 1)),
                _ => ".a".to_owned(),
            };
            // `.` before a bracket, or before a point with a name, is already part of it.
            path = match (step, path.as_str(), part.starts_with('.')) {
                (0, ".", true) => part,
                _ => path + &part,
            };
        }
        path
    }

    fn term(&mut self, deep: usize) -> String {
        if deep > 3 {
            return self.of(&[".", ".a", "$x", "1", "null", "\"t\""]).to_owned();
        }
        match self.below(29) {
            0..5 => self.path(".", deep),
            5 | 6 => self.path("$x", deep),
            7 => {
                self.of(&["1", "1.50", "-3", "1e3", "\"é\\n\"", "null", "true", "[]", "{}", "-1.5", "0.10"]).to_owned()
            }
            8..11 => {
                let entries: Vec<String> = (0..self.below(4)).map(|_| self.entry(deep)).collect();
                format!("{{{}}}", entries.join(", "))
            }
            11 | 12 => {
                let items: Vec<String> = (0..=self.below(3)).map(|_| self.term(deep + 1)).collect();
                format!("[{}]", items.join(", "))
            }
            13 => format!("[{}[] | {}]", self.path(".", deep), self.term(deep + 1)),
            14 => format!("{} | {}", self.term(deep + 1), self.term(deep + 1)),
            15 => format!("({})", self.term(deep + 1)),
            16 => format!("map({})", self.term(deep + 1)),
            17 => format!("({} | map({}))", self.path(".", deep), self.term(deep + 1)),
            18 => self.of(&[".", "..", ".a // 1", ".a + 1", "length?", "keys?", "(.a, .b)", ".a?//$x"]).to_owned(),
            19 => format!("({} // {})", self.term(deep + 1), self.term(deep + 1)),
            20 => format!("\"é\\n\\({})x\\({})\"", self.term(deep + 1), self.path("$x", deep)),
            21 => {
                let literal =
                    self.of(&["1", "0", "\"a\"", "\"\\u0061\"", "null", "true", "\"\"", "12345678901234567890", "1.0"]);
                format!("({} {} {literal})", self.term(deep + 1), self.of(&["==", "!="]))
            }
            22 => format!("map(select({}))", self.term(deep + 1)),
            23 => format!("[{}[] | select({}) | {}]", self.path(".", deep), self.term(deep + 1), self.term(deep + 1)),
            24 => format!("({} | length)", self.path(".", deep)),
            25 | 26 => format!("({} + {})", self.term(deep + 1), self.term(deep + 1)),
            27 => format!("({} | length)", self.term(deep + 1)),
            _ => format!("[{}[].b]", self.path(".", deep)),
        }
    }

    fn entry(&mut self, deep: usize) -> String {
        match self.below(8) {
            0 | 1 => self.of(&["a", "b", "\"a b\"", "$x", "\"\\u0061\"", "if", "@text \"k\"", "$__loc__"]).to_owned(),
            2 => format!("({}): {}", self.path(".", deep + 1), self.of(&[".a", "1", "$x"])),
            3 => format!("$x: {}", self.of(&[".a", "1"])),
            _ => {
                let key = self.of(&["a", "b", "c", "d", "\"a\""]);
                let value = self.term(deep + 1);
                format!("{key}: ({value})")
            }
        }
    }

    /// A value in the style of a real document.
    fn value(&mut self, deep: usize) -> String {
        let space = self.of(&["", "", "", " ", "\n\t"]);
        let value = match self.below(if deep > 3 { 9 } else { 14 }) {
            0 => "null".to_owned(),
            1 => self.of(&["true", "false"]).to_owned(),
            2 | 3 => self
                .of(&["0", "1", "-1", "1.0", "-0", "1e2", "0.10", "12345678901234567890", "1E400", "2.50e-3"])
                .to_owned(),
            4..8 => self
                .of(&[
                    "\"\"",
                    "\"a\"",
                    "\"b\"",
                    "\"a b\"",
                    "\"\\u0061\"",
                    "\"åäö🐊x\"",
                    "\"\\ud83d\\udc0a\"",
                    "\"2026-01-02T03\"",
                    "\"\\\"\\n\"",
                ])
                .to_owned(),
            8 => self.of(&["[]", "{}", "[ ]", "{ }"]).to_owned(),
            9..12 => {
                let keys = ["\"a\"", "\"b\"", "\"c\"", "\"a b\"", "\"\\u0061\"", "\"d\""];
                let fields: Vec<String> = (0..=self.below(4))
                    .map(|_| format!("{}{space}:{}", self.of(&keys), self.value(deep + 1)))
                    .collect();
                format!("{{{}}}", fields.join(","))
            }
            _ => {
                let items: Vec<String> = (0..=self.below(3)).map(|_| self.value(deep + 1)).collect();
                format!("[{}]", items.join(","))
            }
        };
        format!("{space}{value}{space}")
    }
}

fn raw(text: &str) -> json::Raw {
    json::Raw::check(&Bytes::copy_from_slice(text.as_bytes())).expect("valid JSON")
}

/// Whether the bytes were enough. Panics if the result differs from the evaluator's.
fn agrees(filter: &Filter, source: &str, input: &str, variable: &str) -> bool {
    let Some(native) = &filter.native else { return false };
    let Some(made) = native.run(&raw(input).into(), &mut |_| raw(variable).into()) else { return false };
    let engine = filter.run(raw(input).value(), &mut |_| raw(variable).value());
    let engine = engine.map_err(|error| error.to_string());
    assert_eq!(Ok(vec![made.into_value()]), engine, "{source} on {input}, {variable}");
    true
}

#[test]
fn generated_programs_agree() {
    let count = std::env::var("JQ_PROGRAMS").ok().and_then(|count| count.parse().ok()).unwrap_or(PROGRAMS);
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let (mut native, mut compared) = (0usize, 0usize);
    for _ in 0..count {
        let source = chance.term(0);
        let filter = match Filter::compile(&source, &["x"]) {
            Ok(filter) => filter,
            Err(faults) => panic!("{source}: {faults:?}"),
        };
        native += usize::from(filter.is_native());
        for _ in 0..4 {
            let (input, variable) = (chance.value(0), chance.value(1));
            compared += usize::from(agrees(&filter, &source, &input, &variable));
        }
    }
    assert!(native > count / 10 && compared > count / 8, "{native} and {compared} of {count}");
}

#[test]
fn the_programs_of_the_tests_agree() {
    let names = THEIRS.iter().chain(&["ours.test"]);
    let texts: Vec<String> =
        names.map(|name| fs::read_to_string(folder().join(name)).expect("the file is here")).collect();
    let mut chance = Chance(7);
    let mut compared = 0usize;
    for case in texts.iter().flat_map(|text| cases(text)) {
        let Ok(filter) = Filter::compile(&case.program, &[]) else { continue };
        let given = case.input.filter(|input| json::check(input.as_bytes()).is_ok());
        let inputs = given.into_iter().chain((0..20).map(|_| chance.value(0)));
        compared += inputs.filter(|input| agrees(&filter, &case.program, input, "null")).count();
    }
    assert!(compared > 20, "{compared}");
}
