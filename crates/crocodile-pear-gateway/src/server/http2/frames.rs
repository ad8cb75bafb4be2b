//! Parses the heads of frames as bytes pass (RFC 9113, 4.1): what each frame is, and how much of it has passed.

/// The first bytes of a client of HTTP/2 (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame's head.
const HEAD: usize = 9;

pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// The flag of the last frame of a stream.
pub const END_STREAM: u8 = 0x1;
/// The flag of the last frame of a header block.
pub const END_HEADERS: u8 = 0x4;

/// A frame of which a part has just passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePart {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    /// The length of the whole payload.
    pub length: usize,
    /// The part of the payload in these bytes.
    pub passed: usize,
    /// Whether the frame begins in these bytes.
    pub begins: bool,
    /// Whether the frame ends in these bytes.
    pub ends: bool,
}

impl FramePart {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub fn ends_request(&self) -> bool {
        match self.kind {
            kind::DATA | kind::HEADERS => self.has(END_STREAM),
            kind => kind == kind::RST_STREAM,
        }
    }
}

/// Follows the frames of one direction. It stores at most the head of one frame.
#[derive(Debug, Default)]
pub struct Scanner {
    head: [u8; HEAD],
    /// How many bytes of the head are known.
    known: usize,
    /// How many bytes of the payload are still to come.
    left: usize,
    /// How many bytes of the preface are still to come.
    preface: usize,
}

impl Scanner {
    /// Follows a direction that begins with a preface of this length.
    pub fn behind(preface: usize) -> Self {
        Scanner { preface, ..Scanner::default() }
    }

    /// Calls `see` for each frame in `bytes`.
    pub fn scan(&mut self, bytes: &[u8], mut see: impl FnMut(FramePart)) {
        let mut rest = &bytes[self.preface.min(bytes.len())..];
        self.preface -= self.preface.min(bytes.len());
        while !rest.is_empty() {
            let begins = self.known < HEAD;
            if begins {
                let take = (HEAD - self.known).min(rest.len());
                self.head[self.known..self.known + take].copy_from_slice(&rest[..take]);
                self.known += take;
                rest = &rest[take..];
                if self.known < HEAD {
                    return;
                }
                let [a, b, c, ..] = self.head;
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            }
            let passed = self.left.min(rest.len());
            rest = &rest[passed..];
            self.left -= passed;
            let [a, b, c, kind, flags, d, e, f, g] = self.head;
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            let stream = u32::from_be_bytes([d, e, f, g]) & 0x7fff_ffff;
            let ends = self.left == 0;
            if ends {
                self.known = 0;
            }
            see(FramePart { kind, flags, stream, length, passed, begins, ends });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_seen_however_they_were_split() {
        let wire = [
            b"PRI".as_slice(),
            &[0, 0, 2, 0, 0, 0, 0, 0, 3, b'a', b'b'],
            &[0, 0, 0, 4, 1, 0, 0, 0, 0],
            &[0, 0, 1, 1, 5, 0x80, 0, 1, 1, b'z'],
        ]
        .concat();
        for step in 1..=wire.len() {
            let mut scanner = Scanner::behind(3);
            let (mut began, mut ended, mut payload) = (Vec::new(), Vec::new(), 0);
            for piece in wire.chunks(step) {
                scanner.scan(piece, |frame| {
                    payload += frame.passed;
                    if frame.begins {
                        began.push((frame.kind, frame.stream, frame.length));
                    }
                    if frame.ends {
                        ended.push((frame.kind, frame.flags));
                    }
                });
            }
            assert_eq!(began, [(0, 3, 2), (4, 0, 0), (1, 257, 1)], "in pieces of {step}");
            assert_eq!((ended, payload), (vec![(0, 0), (4, 1), (1, 5)], 3), "in pieces of {step}");
        }
    }
}
