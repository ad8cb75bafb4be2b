//! Chunked bodies (RFC 9112, 7.1), read strictly: no lone LF, no space after a size, extensions as the grammar has them.

use std::ops::Range;

use crate::error::MalformedMessage;
use crate::line::is_token;

/// Bytes of extensions that one body may have: they mean nothing to anyone.
const MAX_EXTENSIONS: usize = 8 * 1024;

/// Bytes of trailers that one body may have.
const MAX_TRAILERS: usize = 16 * 1024;

/// Hexadecimal digits of a chunk's size that 64 bits can hold.
const MAX_DIGITS: u8 = 16;

/// Some readers count in signed 64 bits, and some shift before they look: a size from here on is an attack.
const MAX_SIZE: u64 = 1 << 60;

/// Follows a chunked body to its end.
pub(crate) struct Chunked {
    place: ChunkPlace,
    extensions: usize,
    pub(crate) trailers: Vec<u8>,
}

#[derive(Clone, Copy)]
enum ChunkPlace {
    Size { size: u64, digits: u8 },
    Extension { size: u64, at: Extension },
    SizeEnd { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    Trailers,
    End,
}

/// Where in `;name=value` or `;name="value"`.
#[derive(Clone, Copy)]
enum Extension {
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Value,
    Quoted,
    Escaped,
    AfterQuoted,
}

impl Chunked {
    pub(crate) fn new() -> Self {
        Chunked { place: ChunkPlace::Size { size: 0, digits: 0 }, extensions: 0, trailers: Vec::new() }
    }

    pub(crate) fn ended(&self) -> bool {
        matches!(self.place, ChunkPlace::End)
    }

    /// Moves the data of all chunks in `buf` together; returns where it is then, and how many bytes were used.
    pub(crate) fn decode(&mut self, buf: &mut [u8]) -> Result<(Range<usize>, usize), MalformedMessage> {
        let mut data = 0..0;
        let mut at = 0;
        while at < buf.len() {
            match self.place {
                ChunkPlace::End => break,
                ChunkPlace::Data { left } => {
                    let take = take(left, buf.len() - at);
                    if data.is_empty() {
                        data = at..at;
                    } else {
                        buf.copy_within(at..at + take, data.end);
                    }
                    data.end += take;
                    at += take;
                    let left = left - take as u64;
                    self.place = if left == 0 { ChunkPlace::DataCr } else { ChunkPlace::Data { left } };
                }
                place => {
                    self.place = self.step(place, buf[at])?;
                    at += 1;
                }
            }
        }
        Ok((data, at))
    }

    fn step(&mut self, place: ChunkPlace, byte: u8) -> Result<ChunkPlace, MalformedMessage> {
        Ok(match (place, byte) {
            (ChunkPlace::Size { size, digits }, b'\r') if digits > 0 => ChunkPlace::SizeEnd { size },
            (ChunkPlace::Size { size, digits }, b';') if digits > 0 => {
                ChunkPlace::Extension { size, at: Extension::BeforeName }
            }
            (ChunkPlace::Size { size, digits }, _) => {
                let digit = char::from(byte).to_digit(16).filter(|_| digits < MAX_DIGITS);
                let digit = digit.ok_or(MalformedMessage("the size of a chunk is invalid"))?;
                let size = size << 4 | u64::from(digit);
                if size >= MAX_SIZE {
                    return Err(MalformedMessage("the size of a chunk is invalid"));
                }
                ChunkPlace::Size { size, digits: digits + 1 }
            }
            (ChunkPlace::Extension { size, at }, _) => self.extension(size, at, byte)?,
            (ChunkPlace::SizeEnd { size: 0 }, b'\n') => ChunkPlace::Trailers,
            (ChunkPlace::SizeEnd { size }, b'\n') => ChunkPlace::Data { left: size },
            (ChunkPlace::DataCr, b'\r') => ChunkPlace::DataLf,
            (ChunkPlace::DataLf, b'\n') => ChunkPlace::Size { size: 0, digits: 0 },
            (ChunkPlace::Trailers, _) => self.trailer(byte)?,
            _ => return Err(MalformedMessage("a chunk does not end where its size says")),
        })
    }

    fn extension(&mut self, size: u64, at: Extension, byte: u8) -> Result<ChunkPlace, MalformedMessage> {
        self.extensions += 1;
        let next = match (at, byte) {
            (Extension::Name | Extension::Value | Extension::AfterQuoted, b'\r') => {
                return Ok(ChunkPlace::SizeEnd { size });
            }
            (Extension::Name | Extension::AfterName | Extension::Value | Extension::AfterQuoted, b';') => {
                Extension::BeforeName
            }
            (Extension::BeforeName | Extension::BeforeValue, b' ' | b'\t') => at,
            (Extension::Name | Extension::AfterName, b' ' | b'\t') => Extension::AfterName,
            (Extension::Name | Extension::AfterName, b'=') => Extension::BeforeValue,
            (Extension::BeforeValue, b'"') => Extension::Quoted,
            (Extension::Quoted, b'"') => Extension::AfterQuoted,
            (Extension::Quoted, b'\\') => Extension::Escaped,
            (Extension::Quoted | Extension::Escaped, b'\t' | b' '..=b'~' | 0x80..) => Extension::Quoted,
            (Extension::BeforeName | Extension::Name, _) if is_token(byte) => Extension::Name,
            (Extension::BeforeValue | Extension::Value, _) if is_token(byte) => Extension::Value,
            _ => return Err(MalformedMessage("the extension of a chunk is invalid")),
        };
        match self.extensions > MAX_EXTENSIONS {
            true => Err(MalformedMessage("the extensions of the chunks are too large")),
            false => Ok(ChunkPlace::Extension { size, at: next }),
        }
    }

    fn trailer(&mut self, byte: u8) -> Result<ChunkPlace, MalformedMessage> {
        if byte == b'\n' && self.trailers.last() != Some(&b'\r') {
            return Err(MalformedMessage("a trailer is invalid"));
        }
        if byte != b'\n' && self.trailers.last() == Some(&b'\r') {
            return Err(MalformedMessage("a trailer is invalid"));
        }
        if self.trailers.len() == MAX_TRAILERS {
            return Err(MalformedMessage("the trailers are too large"));
        }
        // No name begins with a space, and a line that does is an old way to continue the one before.
        let begins = self.trailers.is_empty() || self.trailers.ends_with(b"\n");
        if begins && byte != b'\r' && !is_token(byte) {
            return Err(MalformedMessage("a trailer is invalid"));
        }
        self.trailers.push(byte);
        let ended = self.trailers == b"\r\n" || self.trailers.ends_with(b"\r\n\r\n");
        Ok(if ended { ChunkPlace::End } else { ChunkPlace::Trailers })
    }
}

/// The number of bytes to take of those that are there, with this many left of a body.
pub(crate) fn take(left: u64, there: usize) -> usize {
    usize::try_from(left).map_or(there, |left| left.min(there))
}
