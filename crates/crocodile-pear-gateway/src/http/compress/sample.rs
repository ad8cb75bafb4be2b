//! Whether bytes are too dense to be compressed, by the look of a few.

/// So many bytes tell; of fewer, even noise looks uneven.
pub const SAMPLE: usize = 16 << 10;

/// Bits a byte from which the rest is not worth the work. Noise has 7.99 in a sample of this size, deflated text 7.97,
/// base64 6.0.
const DENSE: f64 = 7.9;

/// Whether a sample has nearly as much in it as bytes can have. Fewer bytes than a sample never do.
pub fn is_dense(bytes: &[u8]) -> bool {
    bytes.len() >= SAMPLE && entropy(&bytes[..SAMPLE]) > DENSE
}

/// Shannon's, of single bytes, in bits.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let total = bytes.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / total);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::sample::*;

    #[test]
    fn noise_is_dense_and_text_is_not() {
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .take(SAMPLE)
        .collect();
        assert!(is_dense(&noise), "{}", entropy(&noise));
        assert!(!is_dense(&noise[1..]), "too few to tell");
        let digits: Vec<u8> = noise.iter().map(|byte| b"0123456789abcdef"[usize::from(byte >> 4)]).collect();
        assert!(!is_dense(&digits));
    }
}
