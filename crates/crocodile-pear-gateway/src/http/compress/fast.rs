//! gzip at its fastest level: blocks that know nothing of each other, so that several can be made at once.

use crocodile_pear::unstable::error::Error;
use flate2::{Compress, Compression, Crc, FlushCompress};

use super::deflate::deflate;
use super::gzip::{HEADER, end, stored};
use super::press::{BLOCK, Pressed, press};

/// Less than this leaves through zlib's algorithm, which finds again what was delivered before it.
const TRICKLE: usize = 16 << 10;

/// An empty block, the last one.
const LAST: [u8; 2] = [3, 0];

/// A gzip stream, or a part of one.
pub struct Fast {
    /// Bytes that were written, and are not compressed yet.
    block: Vec<u8>,
    sum: Crc,
    begun: bool,
    stored: bool,
    /// For what comes in small parts; made when that happens.
    trickle: Option<Box<Compress>>,
    /// Whether something left that the trickle does not know of.
    stale: bool,
}

impl Fast {
    pub fn new() -> Self {
        let (block, trickle) = (Vec::new(), None);
        Fast { block, sum: Crc::new(), begun: false, stored: false, trickle, stale: true }
    }

    /// An encoder of what comes next, for another thread: everything that was written here is flushed.
    pub fn fork(&self) -> Self {
        Fast { begun: true, stored: self.stored, ..Fast::new() }
    }

    /// Takes note of what a fork made.
    pub fn join(&mut self, fork: &Fast) {
        self.sum.combine(&fork.sum);
        self.stale = true;
    }

    pub fn write(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        self.begin(out);
        self.sum.update(bytes);
        if self.stored {
            stored(bytes, out);
            return;
        }
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK - self.block.len()));
            bytes = rest;
            if now.len() == BLOCK {
                make(now, out);
                self.stale = true;
                continue;
            }
            self.block.extend_from_slice(now);
            if self.block.len() == BLOCK {
                self.settle(out);
            }
        }
    }

    /// Makes a block of what there is.
    pub fn settle(&mut self, out: &mut Vec<u8>) {
        if !self.block.is_empty() {
            make(&self.block, out);
            self.block.clear();
            self.stale = true;
        }
    }

    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.begin(out);
        if self.block.len() >= TRICKLE || self.block.is_empty() {
            self.settle(out);
            return Ok(());
        }
        // The level above the fastest: that one makes small parts much larger, and there is no hurry.
        let stream = self.trickle.get_or_insert_with(|| Box::new(Compress::new(Compression::new(2), false)));
        if std::mem::take(&mut self.stale) {
            // It must not refer to what is further back than it knows.
            stream.reset();
        }
        let made = deflate(stream, &self.block, FlushCompress::Sync, out);
        self.block.clear();
        made
    }

    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.flush(out)?;
        out.extend_from_slice(&LAST);
        end(&self.sum, out);
        Ok(())
    }

    pub fn store(&mut self, store: bool, out: &mut Vec<u8>) {
        if store && !self.stored {
            self.begin(out);
            self.settle(out);
            self.stale = true;
        }
        self.stored = store;
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            out.extend_from_slice(&HEADER);
        }
    }
}

/// Appends one block, as short as it gets.
fn make(bytes: &[u8], out: &mut Vec<u8>) {
    if press(bytes, out) == Pressed::Dense {
        stored(bytes, out);
    }
}
