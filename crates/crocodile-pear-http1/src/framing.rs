//! Where a message's body is in the bytes of a connection, and where it ends (RFC 9112, 6 and 7).

use std::fmt;
use std::ops::Range;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::chunk::{self, Chunked};
use crate::error::{IncompleteBody, MalformedMessage};
use crate::trailers::may_trail;

/// Trailers that one body may have.
const MAX_TRAILER_FIELDS: usize = 64;

/// How a body's end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// So many bytes.
    Length(u64),
    /// Chunks, each with its size before it.
    Chunked,
    /// The connection's end.
    Close,
}

/// Whether a connection may serve another request once this one is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The connection may stay open.
    Keep,
    /// The connection ends.
    Close,
}

/// Follows a body to its end.
pub struct BodyDecoder {
    state: DecoderState,
    /// Trailers, once the end was seen and if there were any.
    pub trailers: Option<Box<HeaderMap>>,
}

enum DecoderState {
    Done,
    Length(u64),
    Close,
    Chunked(Box<Chunked>),
}

/// The result of one run of the decoder.
#[derive(Debug, PartialEq, Eq)]
pub struct DecodedChunk {
    /// Where the body's bytes now lie.
    pub data: Range<usize>,
    /// How many bytes belong to the message; what follows them does not.
    pub used: usize,
}

impl BodyDecoder {
    /// Before the first byte of a body.
    #[inline]
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => DecoderState::Done,
            Framing::Length(length) => DecoderState::Length(length),
            Framing::Close => DecoderState::Close,
            Framing::Chunked => DecoderState::Chunked(Box::new(Chunked::new())),
        };
        BodyDecoder { state, trailers: None }
    }

    /// Whether the body's end was seen.
    #[inline]
    pub fn done(&self) -> bool {
        matches!(self.state, DecoderState::Done)
    }

    /// How many bytes are still to come, if that is known.
    #[inline]
    pub fn left(&self) -> Option<u64> {
        match self.state {
            DecoderState::Done => Some(0),
            DecoderState::Length(left) => Some(left),
            DecoderState::Close | DecoderState::Chunked(_) => None,
        }
    }

    /// Whether the body marks its own end.
    #[inline]
    pub fn delimited(&self) -> bool {
        !matches!(self.state, DecoderState::Close)
    }

    /// Finds the body's bytes in `buf`, moving those of several chunks together.
    ///
    /// # Errors
    /// The connection is of no further use then.
    pub fn decode(&mut self, buf: &mut [u8]) -> Result<DecodedChunk, MalformedMessage> {
        let found = match &mut self.state {
            DecoderState::Done => DecodedChunk { data: 0..0, used: 0 },
            DecoderState::Close => DecodedChunk { data: 0..buf.len(), used: buf.len() },
            DecoderState::Length(left) => {
                let take = chunk::take(*left, buf.len());
                *left -= take as u64;
                DecodedChunk { data: 0..take, used: take }
            }
            DecoderState::Chunked(chunked) => {
                let (data, used) = chunked.decode(buf)?;
                DecodedChunk { data, used }
            }
        };
        match &self.state {
            DecoderState::Length(0) => self.state = DecoderState::Done,
            DecoderState::Chunked(chunked) if chunked.ended() => {
                self.trailers = fields(&chunked.trailers)?;
                self.state = DecoderState::Done;
            }
            _ => {}
        }
        Ok(found)
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// Unless the end of the connection is the end of the body.
    #[inline]
    pub fn end(&mut self) -> Result<(), IncompleteBody> {
        match self.state {
            DecoderState::Done | DecoderState::Close => {
                self.state = DecoderState::Done;
                Ok(())
            }
            DecoderState::Length(_) | DecoderState::Chunked(_) => Err(IncompleteBody),
        }
    }
}

impl fmt::Debug for BodyDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyDecoder").field("left", &self.left()).field("trailers", &self.trailers).finish()
    }
}

/// Reads trailers; those that could change how a message is read are dropped (RFC 9110, 6.5.1).
fn fields(raw: &[u8]) -> Result<Option<Box<HeaderMap>>, MalformedMessage> {
    let invalid = MalformedMessage("a trailer is invalid");
    let mut parsed = [httparse::EMPTY_HEADER; MAX_TRAILER_FIELDS];
    let Ok(httparse::Status::Complete((_, parsed))) = httparse::parse_headers(raw, &mut parsed) else {
        return Err(invalid);
    };
    let mut trailers = HeaderMap::new();
    for field in parsed {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| invalid)?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| invalid)?;
        if may_trail(&name) {
            trailers.append(name, value);
        }
    }
    Ok((!trailers.is_empty()).then(|| Box::new(trailers)))
}

#[cfg(test)]
mod tests {
    use super::super::framing::*;

    /// Feeds `wire` in pieces of `step` bytes; the body, and whether its end was seen.
    fn run(framing: Framing, wire: &[u8], step: usize) -> Result<(Vec<u8>, BodyDecoder), MalformedMessage> {
        let mut decoder = BodyDecoder::new(framing);
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
        assert_eq!(
            BodyDecoder::new(Framing::Chunked).decode(&mut wire).unwrap(),
            DecodedChunk { data: 3..4, used: 11 }
        );
        let mut wire = *b"abcdef";
        assert_eq!(
            BodyDecoder::new(Framing::Length(4)).decode(&mut wire).unwrap(),
            DecodedChunk { data: 0..4, used: 4 }
        );
    }

    #[test]
    fn bad_chunks_are_refused_however_they_were_split() {
        let extension = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(9000));
        let trailer = format!("0\r\na: {}\r\n\r\n", "x".repeat(17_000));
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
            "1;\r\na\r\n0\r\n\r\n",
            "1;;a\r\na\r\n0\r\n\r\n",
            "1;=b\r\na\r\n0\r\n\r\n",
            "1;a=\r\na\r\n0\r\n\r\n",
            "1;a=\"b\r\na\r\n0\r\n\r\n",
            "1;a b\r\na\r\n0\r\n\r\n",
            "1 ;a\r\na\r\n0\r\n\r\n",
            "1000000000000000\r\n",
            "0\r\n folded: line\r\n\r\n",
            "0\r\na\r: b\r\n\r\n",
            "0\r\na\n\r\n",
            "0\r\n: b\r\n\r\n",
            "0\r\na b: c\r\n\r\n",
            &extension,
            &trailer,
        ] {
            for step in [1, 2, wire.len()] {
                assert!(run(Framing::Chunked, wire.as_bytes(), step).is_err(), "{wire:.40?} by {step}");
            }
        }
    }

    #[test]
    fn an_end_before_the_end_is_a_cut() {
        for wire in ["", "5\r\nabc", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n", "0\r\na: b\r\n"] {
            let (_, mut decoder) = run(Framing::Chunked, wire.as_bytes(), 3).unwrap();
            assert_eq!(decoder.end(), Err(IncompleteBody), "{wire:?}");
        }
        assert_eq!(BodyDecoder::new(Framing::Length(1)).end(), Err(IncompleteBody));
        assert!(BodyDecoder::new(Framing::Length(0)).end().is_ok());
        assert!(BodyDecoder::new(Framing::Close).end().is_ok());
    }
}
