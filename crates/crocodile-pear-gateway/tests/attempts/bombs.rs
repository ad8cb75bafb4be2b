//! Bodies that grow beyond reason when they are decoded, or that cost much and give nothing.

use std::io::Write;
use std::sync::Arc;

use crate::attempts::{Attempt, By, EACH, PASS, Play, READ};
use crate::stage::shop::answer;

/// More white space than a body may have.
const GROWN: usize = 24 << 20;

/// White space before items: if it were held, all copies together would exceed `MOST`. There is no more, because a debug build scans it
/// slowly.
const SCANNED: usize = 7 << 20;

/// A list with so much white space that its end is out of reach.
fn spaces(length: usize) -> Vec<u8> {
    [b"[", vec![b' '; length].as_slice(), b"]"].concat()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut stream = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    stream.write_all(bytes).unwrap();
    stream.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut stream = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    stream.write_all(bytes).unwrap();
    stream.finish().unwrap()
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    brotli::CompressorWriter::new(&mut out, 4096, 2, 22).write_all(bytes).unwrap();
    out
}

/// A frame of zstd with this descriptor of its window (RFC 8878, 3.1.1.1.2) and so many blocks of 128 KiB, four bytes each.
fn zstd(window: u8, blocks: u32) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, window];
    for at in 0..blocks {
        let last = u32::from(at + 1 == blocks);
        frame.extend(&(last | 1 << 1 | (128 << 10) << 3).to_le_bytes()[..3]);
        frame.push(b' ');
    }
    frame
}

/// A gzip stream whose file name does not end for so long.
fn named(length: usize) -> Vec<u8> {
    [&[0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3], vec![b'n'; length].as_slice()].concat()
}

fn play(coding: &str, body: Vec<u8>) -> Play {
    let fields = format!("content-type: application/json\r\ncontent-encoding: {coding}\r\n");
    let whole = Arc::new(answer(200, &fields, body));
    Box::new(move |stream| {
        // One request, in one read: its head is small.
        std::io::Read::read(stream, &mut [0; 4096])?;
        stream.write_all(&whole)
    })
}

/// The bodies, each with its coding. `length` is the length of the white space in them.
fn bodies(length: usize) -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let spaces = spaces(length);
    let (gzipped, brotlied) = (gzip(&spaces), brotli(&spaces));
    vec![
        ("gzip bomb", "gzip", gzipped.clone()),
        ("deflate bomb", "deflate", deflate(&spaces)),
        ("brotli bomb", "br", brotlied.clone()),
        ("zstd bomb", "zstd", zstd(0x60, 512)),
        ("gzip in gzip", "gzip, gzip", gzip(&gzipped)),
        ("brotli in gzip", "br, gzip", gzip(&brotlied)),
        ("gzip in brotli", "gzip, br", brotli(&gzipped)),
        ("zstd with a window of 2 GiB", "zstd", zstd(0xa8, 512)),
        ("zstd with a window of 3.75 TiB", "zstd", zstd(0xff, 512)),
        ("zstd of 500,000 empty frames", "zstd", [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0].repeat(500_000)),
        ("zstd of 500,000 skipped frames", "zstd", [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0].repeat(500_000)),
        ("zstd that skips 4 GiB", "zstd", [0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff].to_vec()),
        ("gzip of 200,000 empty members", "gzip", gzip(b"").repeat(200_000)),
        ("gzip with a name of 16 MiB", "gzip", named(16 << 20)),
        ("gzip without its end", "gzip", gzip(&spaces[..1 << 20])[..600].to_vec()),
        ("gzip with another sum", "gzip", {
            let mut b = gzip(b"[1]");
            let at = b.len() - 8;
            b[at] ^= 1;
            b
        }),
        ("gzip with another length", "gzip", {
            let mut b = gzip(b"[1]");
            let at = b.len() - 1;
            b[at] ^= 1;
            b
        }),
        ("gzip with something behind it", "gzip", [gzip(b"[1]"), b"[2]".to_vec()].concat()),
        ("brotli with a large window", "br", [&[0x11, 0x3f][..], &brotlied].concat()),
        ("brotli of noise", "br", (0..=255).cycle().take(1 << 16).collect()),
        (
            "twenty codings",
            "gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip",
            (0..20).fold(b"[1]".to_vec(), |body, _| gzip(&body)),
        ),
        ("an unknown coding", "cow", b"[1]".to_vec()),
    ]
}

const EMPTY: [&str; 3] =
    ["zstd of 500,000 empty frames", "zstd of 500,000 skipped frames", "gzip of 200,000 empty members"];

/// Bodies that are read whole, or passed.
pub fn whole() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for (name, coding, body) in bodies(GROWN) {
        // Much that gives nothing is an empty body.
        let ends: &[_] = if EMPTY.contains(&name) { &["200"] } else { &["502"] };
        let by = By::Upstream { endpoint: READ, settings: "", play: play(coding, body.clone()) };
        attempts.push(Attempt { name: format!("upstream: {name}, read"), ends, by });
        let by = By::Upstream { endpoint: PASS, settings: "", play: play(coding, body) };
        // The client judges a body that no step reads.
        attempts.push(Attempt { name: format!("upstream: {name}, passed"), ends: &["200"], by });
    }
    attempts
}

/// Bodies that are read item by item.
pub fn items() -> Vec<Attempt> {
    let attempt = |(name, coding, body): (&str, _, _)| Attempt {
        name: format!("upstream: {name}, in items"),
        // White space between items is not held, and so bounded by nothing but how much a byte may become.
        ends: &["200", "502"],
        by: By::Upstream { endpoint: EACH, settings: "", play: play(coding, body) },
    };
    bodies(SCANNED).into_iter().map(attempt).collect()
}
