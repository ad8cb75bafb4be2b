#![doc = include_str!("../README.md")]

pub mod answer;
mod chunk;
mod error;
pub mod fields;
mod framing;
mod headers;
mod line;
pub mod list;
pub mod media_type;
mod name;
pub mod request;
mod target;
pub mod trailers;
mod unread;
pub mod write;

pub use error::{IncompleteBody, MalformedMessage};
pub use framing::{BodyDecoder, DecodedChunk, Framing, Reuse};
pub use headers::Headers;
pub use name::NameSet;
pub use unread::AnswerFields;

/// Where the head in `bytes` ends, if it does; the bytes before `seen` were looked at before. `seen` is at most their
/// number.
#[inline]
pub fn head_end(bytes: &[u8], seen: usize) -> Option<usize> {
    // The empty line may have begun in the two bytes before.
    let from = seen.saturating_sub(2);
    memchr::memchr_iter(b'\n', &bytes[from..]).find_map(|at| {
        let next = from + at + 1;
        match &bytes[next..] {
            [b'\n', ..] => Some(next + 1),
            [b'\r', b'\n', ..] => Some(next + 2),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::head_end;

    #[test]
    fn the_end_of_a_head_is_found_wherever_the_reads_were_split() {
        let head = b"HTTP/1.1 200 OK\r\na: b\r\n\r\nrest";
        for seen in 0..24 {
            assert_eq!(head_end(head, seen), Some(25), "seen {seen}");
        }
        assert_eq!(head_end(&head[..24], 0), None);
    }
}
