//! zlib's deflate, run until it has nothing left to say.

use crocodile_pear::unstable::error::{Error, Kind};
use flate2::{Compress, FlushCompress, Status};

/// The room that is made for output at a time.
pub const ROOM: usize = 16 << 10;

/// Runs deflate until it has taken everything and has nothing left to say for this flush.
pub fn deflate(stream: &mut Compress, mut bytes: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> Result<(), Error> {
    loop {
        out.reserve(ROOM.min(bytes.len() / 2 + 64));
        let before = stream.total_in();
        let status = stream.compress_vec(bytes, out, flush).map_err(failed)?;
        bytes = &bytes[(stream.total_in() - before) as usize..];
        // With room left, it has said all that it has to say.
        if status == Status::StreamEnd || (bytes.is_empty() && out.len() < out.capacity()) {
            return Ok(());
        }
    }
}

/// An error of a codec: a fault of ours, since these codecs accept any input.
pub fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(Kind::Internal, format!("the answer cannot be compressed: {error}"))
}
