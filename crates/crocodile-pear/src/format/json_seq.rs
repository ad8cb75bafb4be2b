//! A sequence of JSON texts (RFC 7464), each between a record separator and a line end, as lines of JSON.

use bytes::Bytes;

/// Stands before each text.
const SEPARATOR: u8 = 0x1e;

/// Makes lines of what arrives: one for each text, however many lines the text has itself.
#[derive(Default)]
pub struct SequenceReader {
    depth: usize,
    quoted: bool,
    escaped: bool,
}

impl SequenceReader {
    /// The next part. A text of the sequence that is cut off ends with its line.
    pub fn push(&mut self, chunk: &[u8]) -> Bytes {
        chunk.iter().map(|&byte| self.step(byte)).collect::<Vec<u8>>().into()
    }

    fn step(&mut self, byte: u8) -> u8 {
        if byte == SEPARATOR {
            *self = SequenceReader::default();
            return b'\n';
        }
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.quoted => self.escaped = true,
            b'"' => self.quoted = !self.quoted,
            _ if self.quoted => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            // A line end inside of a text is white space.
            b'\n' | b'\r' if self.depth > 0 => return b' ',
            _ => {}
        }
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_lines() {
        let text = b"\x1e{\"a\":\n\"]\\\"\"}\n\x1e[1,\r\n2]\n\x1e3\n";
        for size in 1..text.len() {
            let mut sequence = SequenceReader::default();
            let lines: Vec<u8> = text.chunks(size).flat_map(|part| sequence.push(part)).collect();
            assert_eq!(lines, b"\n{\"a\": \"]\\\"\"}\n\n[1,  2]\n\n3\n");
        }
    }
}
