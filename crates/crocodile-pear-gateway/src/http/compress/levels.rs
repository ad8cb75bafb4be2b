//! How hard codings try.

/// How hard each coding tries.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    /// The level of gzip and deflate.
    pub gzip: u32,
    pub br: u32,
    pub zstd: u32,
}

/// The levels for small bodies.
pub const SMALL: Levels = Levels { gzip: 6, br: 3, zstd: 3 };

/// For bodies that are larger, or of unknown length: speed before size.
pub const LARGE: Levels = Levels { gzip: 1, br: 1, zstd: 1 };
