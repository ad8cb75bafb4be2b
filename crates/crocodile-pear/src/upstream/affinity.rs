//! Where a client stands among others, by a value of its request.

/// The same number in every process and on every machine: FNV-1a, with its bits mixed as MurmurHash3 does.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
}

fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The place of a hash between 0 and 1, never 0.
pub(super) fn point(hash: u64) -> f64 {
    ((hash >> 11) + 1) as f64 / ((1_u64 << 53) + 1) as f64
}
