//! A gzip member (RFC 1952) around a deflate stream. Data that does not shrink is stored.

use crocodile_pear::unstable::error::Error;
use flate2::{Compress, Compression, Crc, FlushCompress};

use super::deflate::deflate;

/// No name, no time, no system.
pub const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// The most that a stored block holds (RFC 1951, 3.2.4).
const STORED: usize = 65_535;

/// Wraps bytes as they are.
pub fn stored(bytes: &[u8], out: &mut Vec<u8>) {
    for block in bytes.chunks(STORED) {
        let size = block.len() as u16;
        out.push(0);
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&(!size).to_le_bytes());
        out.extend_from_slice(block);
    }
}

/// Writes the trailer behind the last block: checksum and length of the data (RFC 1952, 2.3.1).
pub fn end(sum: &Crc, out: &mut Vec<u8>) {
    out.extend_from_slice(&sum.sum().to_le_bytes());
    out.extend_from_slice(&sum.amount().to_le_bytes());
}

/// A gzip stream.
pub struct Gzip {
    stream: Compress,
    sum: Crc,
    begun: bool,
    stored: bool,
}

impl Gzip {
    pub fn new(level: u32) -> Self {
        Gzip { stream: Compress::new(Compression::new(level), false), sum: Crc::new(), begun: false, stored: false }
    }

    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.begin(out);
        self.sum.update(bytes);
        if !self.stored {
            return deflate(&mut self.stream, bytes, FlushCompress::None, out);
        }
        stored(bytes, out);
        Ok(())
    }

    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.begin(out);
        // Stored blocks are out already.
        if self.stored { Ok(()) } else { deflate(&mut self.stream, &[], FlushCompress::Sync, out) }
    }

    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.begin(out);
        deflate(&mut self.stream, &[], FlushCompress::Finish, out)?;
        end(&self.sum, out);
        Ok(())
    }

    pub fn store(&mut self, store: bool, out: &mut Vec<u8>) -> Result<(), Error> {
        if store && !self.stored {
            self.begin(out);
            // A full flush: what comes after the stored blocks must not refer to what came before them.
            deflate(&mut self.stream, &[], FlushCompress::Full, out)?;
        }
        self.stored = store;
        Ok(())
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(&HEADER);
        }
    }
}
