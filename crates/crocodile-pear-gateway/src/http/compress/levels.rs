//! How hard codings try.

/// How hard each coding tries.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    /// Of gzip and deflate.
    pub gzip: u32,
    /// Of br.
    pub br: u32,
    /// Of zstd.
    pub zstd: u32,
}

/// What makes small bodies small.
pub const SMALL: Levels = Levels { gzip: 6, br: 3, zstd: 3 };

/// For bodies that are larger, or of unknown length: speed before size.
pub const LARGE: Levels = Levels { gzip: 1, br: 1, zstd: 1 };
