//! A client's reading of the bytes that came so far.

use std::io::{Read, Write};

/// The codings that are offered.
pub const CODINGS: [&str; 4] = ["gzip", "br", "zstd", "deflate"];

/// The text that can be read of the beginning of a stream, and whether that is all of it.
pub fn read(coding: &str, coded: &[u8]) -> (Vec<u8>, bool) {
    let (mut text, mut coded) = (Vec::new(), coded);
    let source = &mut coded;
    let ended = match coding {
        "identity" => source.read_to_end(&mut text),
        "gzip" => flate2::read::GzDecoder::new(source).read_to_end(&mut text),
        "deflate" => flate2::read::ZlibDecoder::new(source).read_to_end(&mut text),
        "br" => brotli::Decompressor::new(source, 4096).read_to_end(&mut text),
        "zstd" => zstd::stream::read::Decoder::new(source).unwrap().read_to_end(&mut text),
        other => panic!("a client cannot read {other}"),
    };
    let whole = ended.is_ok() && coded.is_empty();
    (text, whole)
}

/// A body in a coding, as an upstream might send it.
pub fn write(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match coding {
        "identity" => out.extend(bytes),
        "gzip" => {
            let mut stream = flate2::write::GzEncoder::new(&mut out, flate2::Compression::new(9));
            stream.write_all(bytes).and_then(|()| stream.try_finish()).unwrap();
        }
        "deflate" => {
            let mut stream = flate2::write::ZlibEncoder::new(&mut out, flate2::Compression::new(9));
            stream.write_all(bytes).and_then(|()| stream.try_finish()).unwrap();
        }
        "br" => brotli::CompressorWriter::new(&mut out, 4096, 5, 22).write_all(bytes).unwrap(),
        "zstd" => out = zstd::stream::encode_all(bytes, 3).unwrap(),
        other => panic!("an upstream cannot write {other}"),
    }
    out
}
