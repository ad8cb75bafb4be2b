//! JSONTestSuite: what must be accepted is, what must be refused is, and nothing of it crashes.

use std::fs;
use std::path::Path;

use super::{Checker, Raw, check, compact, read, trim, write};
use bytes::Bytes;

fn vectors(prefix: &str) -> Vec<(String, Bytes)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/json");
    let entries = fs::read_dir(folder).expect("the vectors are there").map(|entry| entry.expect("readable").path());
    let named = entries.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path)));
    let chosen = named.filter(|(name, _)| name.starts_with(prefix));
    chosen.map(|(name, path)| (name, fs::read(path).expect("readable").into())).collect()
}

fn piecewise<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> bool {
    let mut checker = Checker::new();
    pieces.into_iter().all(|piece| checker.push(piece).is_ok()) && checker.finish().is_ok()
}

/// Splits at places that differ each time (xorshift).
fn split(bytes: &[u8], mut seed: u64) -> Vec<&[u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let (piece, after) = rest.split_at(rest.len().min(1 + seed as usize % 11));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn agreed(name: &str, bytes: &[u8]) -> bool {
    let whole = check(bytes).is_ok();
    assert_eq!(piecewise(bytes.chunks(1)), whole, "{name} byte by byte");
    for seed in 1..20 {
        assert_eq!(piecewise(split(bytes, seed)), whole, "{name} in pieces");
    }
    whole
}

#[test]
fn every_valid_document_is_accepted_and_survives() {
    let vectors = vectors("y_");
    assert_eq!(vectors.len(), 95);
    for (name, bytes) in vectors {
        assert!(agreed(&name, &bytes), "{name}");
        let mut out = Vec::new();
        write(&read(&bytes).expect(&name), &mut out).expect(&name);
        let ours: serde_json::Value = serde_json::from_slice(&out).expect(&name);
        let theirs: serde_json::Value = serde_json::from_slice(&bytes).expect(&name);
        assert_eq!(ours, theirs, "{name}");
        let mut compacted = Vec::new();
        compact(&trim(&bytes), &mut compacted);
        assert!(!compacted.contains(&b'\n'), "{name}");
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&compacted).expect(&name), theirs, "{name}");
    }
}

#[test]
fn every_invalid_document_is_refused() {
    let vectors = vectors("n_");
    assert_eq!(vectors.len(), 188);
    for (name, bytes) in vectors {
        assert!(!agreed(&name, &bytes), "{name}");
        assert!(read(&bytes).is_err(), "{name}");
    }
}

#[test]
fn documents_left_to_the_reader_never_crash_it() {
    for (name, bytes) in vectors("i_") {
        if agreed(&name, &bytes) {
            write(&read(&bytes).expect(&name), &mut Vec::new()).expect(&name);
        }
    }
}

/// Documents that differ each time, and what chance makes of them.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn space(&mut self, out: &mut String) {
        const SPACES: [&str; 10] =
            ["", "", "", "", "", " ", "\n", "\t ", "\r\n    ", "                                  "];
        out.push_str(self.pick(&SPACES));
    }

    fn text(&mut self, out: &mut String) {
        const PARTS: [&str; 12] =
            ["a", "key", "{[,:]}", "\\\"", "\\\\", "\\u00e5", "å", "日本", "🐊", "\\n", "a long one ", "true 1.5"];
        out.push('"');
        for _ in 0..self.below(9) {
            out.push_str(self.pick(&PARTS));
        }
        out.push('"');
    }

    fn document(&mut self, depth: usize, out: &mut String) {
        const PLAIN: [&str; 16] = [
            "0",
            "-0",
            "7",
            "-12",
            "1.5",
            "0.25",
            "-0.0",
            "1e5",
            "2E-3",
            "6.02e+23",
            "true",
            "false",
            "null",
            "12345678901234567890",
            "123.4567890123456789",
            "1000000000000000000000000000000000000000000000000000000000000000000001",
        ];
        self.space(out);
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0 | 1 => out.push_str(self.pick(&PLAIN)),
            2 => self.text(out),
            3 => self.nest(['[', ']'], out, |chance, out| chance.document(depth - 1, out)),
            _ => self.nest(['{', '}'], out, |chance, out| {
                chance.space(out);
                chance.text(out);
                chance.space(out);
                out.push(':');
                chance.document(depth - 1, out);
            }),
        }
        self.space(out);
    }

    fn nest(&mut self, brackets: [char; 2], out: &mut String, item: impl Fn(&mut Self, &mut String)) {
        out.push(brackets[0]);
        for index in 0..self.below(5) {
            if index > 0 {
                out.push(',');
            }
            item(self, out);
        }
        out.push(brackets[1]);
    }

    /// Puts something in, takes something out, or doubles a part.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        const THINGS: &[u8] = b"{}[],:\"\\ \n\t0129-+.eEtfnu/a\x00\x1f\x7f\x80\xc3\xff";
        let (at, thing) = (self.below(bytes.len()), THINGS[self.below(THINGS.len())]);
        match self.below(4) {
            0 => bytes[at] = thing,
            1 => bytes.insert(at, thing),
            2 => drop(bytes.remove(at)),
            _ => {
                let part = bytes[at..(at + 1 + self.below(9)).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, part));
            }
        }
    }
}

/// The two ways to check agree with each other, and with a reader of others.
fn compared(bytes: &[u8]) -> bool {
    let shown = || String::from_utf8_lossy(bytes).into_owned();
    let whole = Raw::check(&Bytes::copy_from_slice(bytes)).is_ok();
    assert_eq!(piecewise([bytes]), whole, "{}", shown());
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Ok(_) => assert!(whole, "{}", shown()),
        // The grammar allows what cannot be a character, and numbers of any size.
        Err(error) => {
            let reason = error.to_string();
            let allowed =
                reason.contains("surrogate") || reason.contains("hex escape") || reason.contains("out of range");
            assert!(!whole || allowed, "{reason}: {}", shown());
        }
    }
    whole
}

#[test]
fn documents_of_chance_are_seen_as_others_see_them() {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..1_500 {
        let mut document = String::new();
        let depth = chance.below(5);
        chance.document(depth, &mut document);
        assert!(compared(document.as_bytes()), "{document}");
        for _ in 0..6 {
            let mut spoiled = document.clone().into_bytes();
            for _ in 0..1 + chance.below(2) {
                chance.spoil(&mut spoiled);
                if spoiled.is_empty() {
                    break;
                }
            }
            if compared(&spoiled) { good += 1 } else { bad += 1 }
        }
    }
    assert!(good > 500 && bad > 2_000, "{good} {bad}");
}

#[test]
fn every_byte_is_seen_at_every_place_of_a_block() {
    let value = br#"{"a":[-1.5e+3,true,"x\u00e5\\"],"b":{},"c":0}"#;
    for before in 0..64 {
        let document = [&vec![b' '; before][..], value].concat();
        assert!(compared(&document));
        for at in before..document.len() {
            for byte in *b"{}[],:\"\\ 0-.et\n" {
                let mut spoiled = document.clone();
                spoiled[at] = byte;
                compared(&spoiled);
                spoiled.truncate(at);
                assert!(!compared(&spoiled), "cut at {at}");
            }
        }
    }
}

#[test]
fn long_numbers_are_left_to_the_reader() {
    for length in [900, 999, 1000, 1001, 1100, 5000] {
        for before in [0, 1, 31, 63] {
            let document = format!("[{}{}]", " ".repeat(before), "7".repeat(length));
            let bytes = Bytes::from(document);
            assert!(check(&bytes).is_ok());
            assert_eq!(Raw::check(&bytes).is_ok(), length <= 1000, "{length}");
        }
    }
}
