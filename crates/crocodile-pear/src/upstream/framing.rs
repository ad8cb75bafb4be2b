//! Where an answer's body lies in the bytes of a connection, and where it ends (RFC 9112, 6 and 7).

use std::ops::Range;

use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::fields::hop_by_hop;
use super::head::malformed;
use crate::error::{Error, Kind};

/// Chunk extensions mean nothing to anyone; this many bytes of them in one body are an attack (hyper's bound).
const MAX_EXTENSIONS: usize = 16 * 1024;
/// Bytes of trailers one body may have.
const MAX_TRAILERS: usize = 16 * 1024;
const MAX_TRAILER_FIELDS: usize = 64;
/// Hexadecimal digits of a chunk's size that 64 bits can hold.
const MAX_DIGITS: u8 = 16;

/// How a body's end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Empty,
    Length(u64),
    Chunked,
    Close,
}

/// Follows a body to its end.
pub(super) struct Decoder {
    state: State,
    /// Trailers, once the end was seen and if there were any.
    pub(super) trailers: Option<Box<HeaderMap>>,
}

enum State {
    Done,
    Length(u64),
    Close,
    Chunked(Chunked),
}

struct Chunked {
    place: Place,
    extensions: usize,
    trailers: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Place {
    Size { size: u64, digits: u8 },
    Extension { size: u64 },
    SizeEnd { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    Trailers,
    End,
}

/// What one run of the decoder found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Where the body's bytes now lie.
    pub(super) data: Range<usize>,
    /// How many bytes belong to the message; what follows them does not.
    pub(super) used: usize,
}

impl Decoder {
    pub(super) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Close => State::Close,
            Framing::Chunked => State::Chunked(Chunked {
                place: Place::Size { size: 0, digits: 0 },
                extensions: 0,
                trailers: Vec::new(),
            }),
        };
        Decoder { state, trailers: None }
    }

    /// Whether the body's end was seen.
    pub(super) fn done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// How many bytes are still to come, where that is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self.state {
            State::Done => Some(0),
            State::Length(left) => Some(left),
            State::Close | State::Chunked(_) => None,
        }
    }

    /// Whether the body says itself where it ends.
    pub(super) fn delimited(&self) -> bool {
        !matches!(self.state, State::Close)
    }

    /// Finds the body's bytes in `buf`, moving those of several chunks together.
    ///
    /// # Errors
    /// `Malformed`; the connection is of no further use then.
    pub(super) fn decode(&mut self, buf: &mut [u8]) -> Result<Found, Error> {
        let found = match &mut self.state {
            State::Done => Found { data: 0..0, used: 0 },
            State::Close => Found { data: 0..buf.len(), used: buf.len() },
            State::Length(left) => {
                let take = take(*left, buf.len());
                *left -= take as u64;
                Found { data: 0..take, used: take }
            }
            State::Chunked(chunked) => chunked.decode(buf)?,
        };
        match &self.state {
            State::Length(0) => self.state = State::Done,
            State::Chunked(Chunked { place: Place::End, trailers, .. }) => {
                self.trailers = fields(trailers)?;
                self.state = State::Done;
            }
            _ => {}
        }
        Ok(found)
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// `Cut`, unless the end of the connection is the end of the body.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        match self.state {
            State::Done | State::Close => {
                self.state = State::Done;
                Ok(())
            }
            State::Length(_) | State::Chunked(_) => Err(cut()),
        }
    }
}

impl Chunked {
    fn decode(&mut self, buf: &mut [u8]) -> Result<Found, Error> {
        let mut data = 0..0;
        let mut at = 0;
        while at < buf.len() {
            match self.place {
                Place::End => break,
                Place::Data { left } => {
                    let take = take(left, buf.len() - at);
                    if data.is_empty() {
                        data = at..at;
                    } else {
                        buf.copy_within(at..at + take, data.end);
                    }
                    data.end += take;
                    at += take;
                    let left = left - take as u64;
                    self.place = if left == 0 { Place::DataCr } else { Place::Data { left } };
                }
                place => {
                    self.place = self.step(place, buf[at])?;
                    at += 1;
                }
            }
        }
        Ok(Found { data, used: at })
    }

    fn step(&mut self, place: Place, byte: u8) -> Result<Place, Error> {
        Ok(match (place, byte) {
            (Place::Size { size, digits }, b'\r') if digits > 0 => Place::SizeEnd { size },
            (Place::Size { size, digits }, b';') if digits > 0 => Place::Extension { size },
            (Place::Size { size, digits }, _) => {
                let digit = char::from(byte).to_digit(16).filter(|_| digits < MAX_DIGITS);
                let digit = digit.ok_or_else(|| malformed("the size of a chunk is invalid"))?;
                Place::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Place::Extension { size }, b'\r') => Place::SizeEnd { size },
            (Place::Extension { size }, _) => {
                self.extensions += 1;
                if self.extensions > MAX_EXTENSIONS || (byte.is_ascii_control() && byte != b'\t') {
                    return Err(malformed("the extension of a chunk is invalid"));
                }
                Place::Extension { size }
            }
            (Place::SizeEnd { size: 0 }, b'\n') => Place::Trailers,
            (Place::SizeEnd { size }, b'\n') => Place::Data { left: size },
            (Place::DataCr, b'\r') => Place::DataLf,
            (Place::DataLf, b'\n') => Place::Size { size: 0, digits: 0 },
            (Place::Trailers, _) => self.trailer(byte)?,
            _ => return Err(malformed("a chunk does not end where its size says")),
        })
    }

    fn trailer(&mut self, byte: u8) -> Result<Place, Error> {
        if byte == b'\n' && self.trailers.last() != Some(&b'\r') {
            return Err(malformed("a trailer of the answer is invalid"));
        }
        if self.trailers.len() == MAX_TRAILERS {
            return Err(malformed("the trailers of the answer are too large"));
        }
        self.trailers.push(byte);
        let ended = self.trailers == b"\r\n" || self.trailers.ends_with(b"\r\n\r\n");
        Ok(if ended { Place::End } else { Place::Trailers })
    }
}

fn take(left: u64, there: usize) -> usize {
    usize::try_from(left).map_or(there, |left| left.min(there))
}

/// Reads trailers; those that could change how a message is read are dropped (RFC 9110, 6.5.1).
fn fields(raw: &[u8]) -> Result<Option<Box<HeaderMap>>, Error> {
    let invalid = |_| malformed("a trailer of the answer is invalid");
    let mut parsed = [httparse::EMPTY_HEADER; MAX_TRAILER_FIELDS];
    let Ok(httparse::Status::Complete((_, parsed))) = httparse::parse_headers(raw, &mut parsed) else {
        return Err(invalid(()));
    };
    let mut trailers = HeaderMap::new();
    for field in parsed {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| invalid(()))?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| invalid(()))?;
        if !hop_by_hop(&name) && name != CONTENT_LENGTH && name != HOST {
            trailers.append(name, value);
        }
    }
    Ok((!trailers.is_empty()).then(|| Box::new(trailers)))
}

pub(super) fn cut() -> Error {
    Error::new(Kind::Cut, "the answer ended before it was whole")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `wire` in pieces of `step` bytes; the body, and whether its end was seen.
    fn run(framing: Framing, wire: &[u8], step: usize) -> Result<(Vec<u8>, Decoder), Error> {
        let mut decoder = Decoder::new(framing);
        let mut body = Vec::new();
        for piece in wire.chunks(step) {
            let mut piece = piece.to_vec();
            let found = decoder.decode(&mut piece)?;
            body.extend_from_slice(&piece[found.data]);
        }
        Ok((body, decoder))
    }

    #[test]
    fn chunks_are_put_together_however_they_were_split() {
        let wire = b"3\r\nabc\r\n0000A;x=\"y z\"\r\n0123456789\r\n1\r\nz\r\n0\r\nX-Sum: 7\r\nContent-Length: 3\r\n\r\n";
        for step in 1..=wire.len() {
            let (body, decoder) = run(Framing::Chunked, wire, step).unwrap();
            assert_eq!(body, b"abc0123456789z", "in pieces of {step}");
            assert!(decoder.done());
            let trailers = decoder.trailers.unwrap();
            assert_eq!((trailers.len(), &trailers["x-sum"]), (1, &HeaderValue::from_static("7")));
        }
    }

    #[test]
    fn what_follows_the_end_does_not_belong_to_the_body() {
        let mut wire = *b"1\r\na\r\n0\r\n\r\nHTTP/1.1";
        assert_eq!(Decoder::new(Framing::Chunked).decode(&mut wire).unwrap(), Found { data: 3..4, used: 11 });
        let mut wire = *b"abcdef";
        assert_eq!(Decoder::new(Framing::Length(4)).decode(&mut wire).unwrap(), Found { data: 0..4, used: 4 });
    }

    #[test]
    fn bad_chunks_are_refused_however_they_were_split() {
        let extension = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(MAX_EXTENSIONS + 1));
        let trailer = format!("0\r\na: {}\r\n\r\n", "x".repeat(MAX_TRAILERS));
        for wire in [
            "\r\n",
            ";a\r\n",
            "g\r\n",
            " 1\r\na\r\n",
            "1 \r\na\r\n",
            "+1\r\na\r\n",
            "-1\r\na\r\n",
            "0x1\r\na\r\n",
            "10000000000000000\r\n",
            "00000000000000001\r\na",
            "1\na\n",
            "1\r\rna",
            "1\r\nab\r\n",
            "1\r\na\n0\r\n",
            "1;\n\r\na",
            "0\r\na\n\r\n",
            "0\r\n: b\r\n\r\n",
            "0\r\na b: c\r\n\r\n",
            &extension,
            &trailer,
        ] {
            for step in [1, 2, wire.len()] {
                let error = run(Framing::Chunked, wire.as_bytes(), step).err();
                assert_eq!(error.map(|error| error.kind()), Some(Kind::Malformed), "{wire:.40?} by {step}");
            }
        }
    }

    #[test]
    fn an_end_before_the_end_is_a_cut() {
        for wire in ["", "5\r\nabc", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n", "0\r\na: b\r\n"] {
            let (_, mut decoder) = run(Framing::Chunked, wire.as_bytes(), 3).unwrap();
            assert_eq!(decoder.end().unwrap_err().kind(), Kind::Cut, "{wire:?}");
        }
        assert_eq!(Decoder::new(Framing::Length(1)).end().unwrap_err().kind(), Kind::Cut);
        assert!(Decoder::new(Framing::Length(0)).end().is_ok());
        assert!(Decoder::new(Framing::Close).end().is_ok());
    }
}
