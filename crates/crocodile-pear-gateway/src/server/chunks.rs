//! Where a chunked body ends (RFC 9112, 7.1), by the letter: no lone LF, no space after a size.

/// The bytes of extensions and trailers together that one body may spend; neither is handed on.
const SPARE: u32 = 8 * 1024;

/// A size of more hexadecimal digits than this overflows someone's arithmetic.
const DIGITS: u8 = 15;

/// How far into a chunked body we are.
#[derive(Debug)]
pub struct Chunks {
    at: At,
    left: u64,
    digits: u8,
    spent: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Size,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Line,
    Trailer,
    TrailerLf,
    EndLf,
    End,
}

/// The body is not chunked by the letter.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

impl Chunks {
    /// Before the first chunk.
    pub fn new() -> Self {
        Chunks { at: At::Size, left: 0, digits: 0, spent: 0 }
    }

    /// Whether the body has ended.
    pub fn ended(&self) -> bool {
        self.at == At::End
    }

    /// Follows `bytes`, and tells how many of them belong to the body.
    ///
    /// # Errors
    /// The number of bytes before the first that is wrong.
    pub fn follow(&mut self, bytes: &[u8]) -> Result<usize, (usize, Broken)> {
        let mut done = 0;
        while done < bytes.len() && self.at != At::End {
            if self.at == At::Data {
                let step = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - done);
                self.left -= step as u64;
                done += step;
                if self.left == 0 {
                    self.at = At::DataCr;
                }
                continue;
            }
            self.at = self.step(bytes[done]).map_err(|broken| (done, broken))?;
            done += 1;
        }
        Ok(done)
    }

    fn step(&mut self, byte: u8) -> Result<At, Broken> {
        match (self.at, byte) {
            (At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte),
            (At::Size, b';') if self.digits > 0 => Ok(At::Extension),
            (At::Size, b'\r') if self.digits > 0 => Ok(At::SizeLf),
            (At::Extension, b'\r') => Ok(At::SizeLf),
            (At::Extension, b'\t' | b' '..=b'~' | 0x80..) => self.spend(At::Extension),
            (At::SizeLf, b'\n') => {
                self.digits = 0;
                Ok(if self.left == 0 { At::Line } else { At::Data })
            }
            (At::DataCr, b'\r') => Ok(At::DataLf),
            (At::DataLf, b'\n') => Ok(At::Size),
            (At::Line, b'\r') => Ok(At::EndLf),
            (At::Line, b'!'..=b'~') => self.spend(At::Trailer),
            (At::Trailer, b'\r') => Ok(At::TrailerLf),
            (At::Trailer, b'\t' | b' '..=b'~' | 0x80..) => self.spend(At::Trailer),
            (At::TrailerLf, b'\n') => Ok(At::Line),
            (At::EndLf, b'\n') => Ok(At::End),
            _ => Err(Broken),
        }
    }

    fn digit(&mut self, byte: u8) -> Result<At, Broken> {
        let value = char::from(byte).to_digit(16).ok_or(Broken)?;
        self.digits += 1;
        self.left = self.left << 4 | u64::from(value);
        if self.digits > DIGITS { Err(Broken) } else { Ok(At::Size) }
    }

    fn spend(&mut self, next: At) -> Result<At, Broken> {
        self.spent += 1;
        if self.spent > SPARE { Err(Broken) } else { Ok(next) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_ends_where_it_ends_however_it_is_cut() {
        let body = b"5;name=value\r\nhello\r\n1A\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nx: y\r\n\r\nGET ";
        for cut in 0..body.len() {
            let mut chunks = Chunks::new();
            let first = chunks.follow(&body[..cut]).expect("good");
            let second = chunks.follow(&body[first..]).expect("good");
            assert_eq!(first + second, body.len() - 4);
            assert!(chunks.ended());
        }
    }

    #[test]
    fn what_others_read_otherwise_is_broken() {
        let bodies: [&[u8]; 16] = [
            b"\r\n",
            b"5 \r\nhello",
            b" 5\r\nhello",
            b"5\nhello",
            b"0x5\r\nhello",
            b"+5\r\nhello",
            b"-5\r\nhello",
            b"5\r\nhelloX",
            b"5\r\nhello\n5",
            b"5\r\nhello\r5",
            b"5;a\nb\r\nhello",
            b"5;a\rb\r\nhello",
            b"0\r\n\n",
            b"0\r\n folded: line\r\n\r\n",
            b"0\r\nx: y\n\r\n",
            b"1000000000000000\r\n",
        ];
        for body in bodies {
            assert!(Chunks::new().follow(body).is_err(), "{:?}", body.escape_ascii().to_string());
        }
    }
}
