//! Writes a string to JSON.

use crate::hex;

/// Appends a string, quoted and escaped.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte >= 0x20 && *byte != b'"' && *byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[start..at]);
        start = at + 1;
        escape(*byte, out);
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        8 => b'b',
        12 => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(b"\\u00");
            return out.extend_from_slice(&hex::pair(byte));
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
