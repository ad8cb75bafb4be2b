//! Names of purges, as numbers.

/// A tag or a URL, as a hash. Two with the same hash are purged together, which does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u64);

impl Name {
    pub fn of_tag(tag: &str) -> Self {
        Name::of(b't', tag)
    }

    /// The name of a URL, or of a path on all hosts.
    pub fn of_url(url: &str) -> Self {
        Name::of(b'u', url)
    }

    pub(crate) fn of_number(number: u64) -> Self {
        Name(number)
    }

    /// FNV-1a, and a last mix: the same in every gateway that shares a store, of whatever version.
    fn of(kind: u8, text: &str) -> Self {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = text.bytes().fold(step(0xcbf2_9ce4_8422_2325, kind), step);
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        Name(mixed ^ (mixed >> 32))
    }

    /// Its number, the same in all gateways.
    pub fn number(self) -> u64 {
        self.0
    }
}
