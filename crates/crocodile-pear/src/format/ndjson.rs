//! NDJSON: one JSON value on each line, read as a list.

use crate::error::{Error, Kind};
use crate::json::{self, Raw};
use crate::offload::Made;

/// Reads the lines; skips empty ones.
///
/// # Errors
/// `Kind::Malformed` for a line that is not a JSON value.
pub fn read(bytes: &[u8]) -> Result<Raw, Error> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let (mut out, mut made) = (Vec::with_capacity(bytes.len() + 2), Made::default());
    for (number, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        json::check(line)
            .map_err(|error| Error::new(Kind::Malformed, format!("line {}: {}", number + 1, error.detail())))?;
        made.add(line.len());
        out.push(if out.is_empty() { b'[' } else { b',' });
        out.extend_from_slice(line.trim_ascii());
    }
    out.extend_from_slice(if out.is_empty() { b"[]" } else { b"]" });
    // The list adds a level, which may be one too many.
    Ok(Raw::check(&out.into())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_items() {
        let read = |text: &str| read(text.as_bytes()).map(|raw| String::from_utf8_lossy(raw.bytes()).into_owned());
        assert_eq!(read("{\"a\":1.0}\r\n\n[2]\n").expect("sound"), "[{\"a\":1.0},[2]]");
        assert_eq!(read("").expect("sound"), "[]");
        assert_eq!(
            read("1\n[1,\n2]").expect_err("two halves").detail(),
            "line 2: not valid JSON: it is incomplete (byte 3)"
        );
        assert!(read("1,2\n").is_err());
    }
}
