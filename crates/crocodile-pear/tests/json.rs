//! JSONTestSuite: what must be accepted is, what must be refused is, and nothing of it crashes.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use crocodile_pear::format::json::{Checker, check, compact, read, trim, write};

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
