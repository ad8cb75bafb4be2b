//! A compressed stream: its header once, all bytes that were written, its end once.

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use bytes::Bytes;
use crocodile_pear::unstable::error::Error;
use flate2::{Compress, Compression, FlushCompress};
use zstd::stream::raw::{CParameter, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe::ParamSwitch;

use super::deflate::{ROOM, deflate, failed};
use super::fast::Fast;
use super::gzip::Gzip;
use super::negotiate::Coding;

/// The block of brotli: at its fast levels it looks for repetitions within one block only.
const BLOCK: usize = 64 << 10;

/// Brotli's window, 2^18 bytes: 1.5 MiB less to hold than the usual 2^22, and nothing lost at fast levels.
const BR_WINDOW: u32 = 18;

/// zstd's window, 2^18 bytes. Browsers take up to 2^23 (RFC 9659).
const ZSTD_WINDOW: u32 = 18;

/// zstd's level 1 a third faster, and a tenth larger: tables that stay in a core's first cache, longer steps where
/// nothing is found, and no short repetitions. Those cost text a tenth of the time and save nothing.
const ZSTD_FAST: [CParameter; 5] = [
    CParameter::WindowLog(17),
    CParameter::HashLog(13),
    CParameter::MinMatch(7),
    CParameter::TargetLength(2),
    // Left out with long steps unless it is asked for.
    CParameter::LiteralCompressionMode(ParamSwitch::Enable),
];

/// Compresses what is written into it.
pub enum Encoder {
    Gzip(Gzip),
    /// gzip at level 1.
    Fast(Box<Fast>),
    /// deflate, which is zlib's format.
    Zlib(Compress),
    /// br, which gathers small pieces first.
    Brotli {
        stream: Box<BrotliEncoderStateStruct<StandardAlloc>>,
        block: Vec<u8>,
    },
    Zstd(zstd::stream::raw::Encoder<'static>),
}

impl Encoder {
    /// A stream in this coding, if there is memory for it.
    pub(super) fn new(coding: Coding, levels: &Levels) -> Option<Self> {
        match coding {
            Coding::Gzip if levels.gzip == 1 => Some(Encoder::Fast(Box::new(Fast::new()))),
            Coding::Gzip => Some(Encoder::Gzip(Gzip::new(levels.gzip))),
            // At 1, zlib-rs makes two fifths more of JSON than at 2, for a quarter less time.
            Coding::Deflate => Some(Encoder::Zlib(Compress::new(Compression::new(levels.gzip.max(2)), true))),
            Coding::Br => Some(brotli(levels.br)),
            Coding::Zstd => zstd(levels.zstd).ok().map(Encoder::Zstd),
        }
    }

    /// A whole body.
    pub fn whole(&mut self, bytes: &[u8]) -> Result<Bytes, Error> {
        let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
        self.write(bytes, &mut out)?;
        self.finish(&mut out)?;
        Ok(out.into())
    }

    /// Takes more of the body. What comes of it may stay inside.
    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Encoder::Gzip(stream) => stream.write(bytes, out),
            Encoder::Fast(stream) => {
                stream.write(bytes, out);
                Ok(())
            }
            Encoder::Zlib(stream) => deflate(stream, bytes, FlushCompress::None, out),
            Encoder::Brotli { stream, block } => {
                block.extend_from_slice(bytes);
                if block.len() < BLOCK {
                    return Ok(());
                }
                operate(stream, BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, block, out)
            }
            Encoder::Zstd(stream) => {
                let mut input = InBuffer::around(bytes);
                while input.pos() < bytes.len() {
                    room(out, |out| stream.run(&mut input, out))?;
                }
                Ok(())
            }
        }
    }

    /// Gives out everything that was written, so that a reader can decode it.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Encoder::Gzip(stream) => stream.flush(out),
            Encoder::Fast(stream) => stream.flush(out),
            Encoder::Zlib(stream) => deflate(stream, &[], FlushCompress::Sync, out),
            Encoder::Brotli { stream, block } => {
                operate(stream, BrotliEncoderOperation::BROTLI_OPERATION_FLUSH, block, out)
            }
            Encoder::Zstd(stream) => {
                while room(out, |out| stream.flush(out))? > 0 {}
                Ok(())
            }
        }
    }

    /// Ends the stream. A stream that was not ended is one that was cut.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Encoder::Gzip(stream) => stream.finish(out),
            Encoder::Fast(stream) => stream.finish(out),
            Encoder::Zlib(stream) => deflate(stream, &[], FlushCompress::Finish, out),
            Encoder::Brotli { stream, block } => {
                // What is given with the end itself, beyond an input block of 16 KiB, comes out broken now and then.
                operate(stream, BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, block, out)?;
                operate(stream, BrotliEncoderOperation::BROTLI_OPERATION_FINISH, block, out)
            }
            Encoder::Zstd(stream) => {
                while room(out, |out| stream.finish(out, true))? > 0 {}
                Ok(())
            }
        }
    }

    /// Whether what comes is only wrapped. br and zstd notice by themselves what is too dense, and are quick about it.
    pub fn store(&mut self, store: bool, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Encoder::Gzip(stream) => stream.store(store, out),
            Encoder::Fast(stream) => {
                stream.store(store, out);
                Ok(())
            }
            Encoder::Zlib(_) | Encoder::Brotli { .. } | Encoder::Zstd(_) => Ok(()),
        }
    }

    /// An encoder for the next part of the stream, if parts can be made beside each other. What was written before must
    /// have been flushed.
    pub fn fork(&self) -> Option<Self> {
        if let Encoder::Fast(stream) = self { Some(Encoder::Fast(Box::new(stream.fork()))) } else { None }
    }

    /// Gives out all that a fork holds.
    pub fn settle(&mut self, out: &mut Vec<u8>) {
        if let Encoder::Fast(stream) = self {
            stream.settle(out);
        }
    }

    /// Takes note of what a fork has made; forks join in the order of their parts.
    pub fn join(&mut self, fork: &Encoder) {
        if let (Encoder::Fast(stream), Encoder::Fast(fork)) = (self, fork) {
            stream.join(fork);
        }
    }
}

fn brotli(level: u32) -> Encoder {
    let mut stream = BrotliEncoderStateStruct::new(StandardAlloc::default());
    stream.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, level);
    stream.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, BR_WINDOW);
    Encoder::Brotli { stream: Box::new(stream), block: Vec::new() }
}

fn zstd(level: u32) -> std::io::Result<zstd::stream::raw::Encoder<'static>> {
    let mut stream = zstd::stream::raw::Encoder::new(level.cast_signed())?;
    stream.set_parameter(CParameter::WindowLog(ZSTD_WINDOW))?;
    if level == 1 {
        ZSTD_FAST.into_iter().try_for_each(|parameter| stream.set_parameter(parameter))?;
    }
    stream.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(stream)
}

/// Runs brotli over its block, which is empty then.
fn operate(
    stream: &mut BrotliEncoderStateStruct<StandardAlloc>,
    operation: BrotliEncoderOperation,
    block: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let (mut left, mut taken) = (block.len(), 0);
    loop {
        let (mut room, mut made, mut total) = (0, 0, None);
        let ok = stream.compress_stream(
            operation,
            &mut left,
            block,
            &mut taken,
            &mut room,
            &mut [],
            &mut made,
            &mut total,
            &mut |_, _, _, _| (),
        );
        if !ok {
            return Err(failed("brotli"));
        }
        let mut size = 0;
        // The slice is longer than what is in it.
        let taken_out = stream.take_output(&mut size);
        out.extend_from_slice(&taken_out[..size]);
        if left == 0 && !stream.has_more_output() {
            block.clear();
            return Ok(());
        }
    }
}

/// Runs zstd with room for some output.
fn room<T>(out: &mut Vec<u8>, run: impl FnOnce(&mut OutBuffer<'_, Vec<u8>>) -> std::io::Result<T>) -> Result<T, Error> {
    out.reserve(ROOM);
    let written = out.len();
    run(&mut OutBuffer::around_pos(out, written)).map_err(failed)
}

/// How hard each coding tries.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    /// The level of gzip and deflate.
    pub gzip: u32,
    pub br: u32,
    pub zstd: u32,
}

impl Levels {
    /// Whether this coding takes so long that no core may do it.
    pub(super) fn is_slow(&self, coding: Coding) -> bool {
        match coding {
            Coding::Gzip | Coding::Deflate => self.gzip >= 7,
            Coding::Br => self.br >= 7,
            Coding::Zstd => self.zstd >= 13,
        }
    }
}

/// The levels for small bodies.
pub const SMALL: Levels = Levels { gzip: 6, br: 3, zstd: 3 };

/// The level for larger bodies, and for those of unknown length: speed before size.
pub const LARGE: Levels = Levels { gzip: 1, br: 1, zstd: 1 };
