//! Sixty-four bytes as an array. The compiler makes of the loops what every machine of its target can do.

use std::marker::PhantomData;
use std::ops::{BitOr, Sub};

/// Stands for the vectors of a machine.
pub trait Simd: Copy {}

/// The vectors that all machines have.
#[derive(Clone, Copy)]
pub struct Level;

impl Level {
    /// The only one.
    pub fn new() -> Self {
        Level
    }
}

impl Simd for Level {}

/// Sixty-four bytes.
#[allow(non_camel_case_types, reason = "the name of the vector that it stands for")]
#[derive(Clone, Copy)]
pub struct u8x64<S>([u8; 64], PhantomData<S>);

/// A truth for each byte.
#[derive(Clone, Copy)]
pub struct Mask([bool; 64]);

impl<S: Simd> u8x64<S> {
    #[inline(always)]
    pub fn load_array_ref(_: S, bytes: &[u8; 64]) -> Self {
        u8x64(*bytes, PhantomData)
    }

    #[inline(always)]
    pub fn simd_eq(self, byte: u8) -> Mask {
        Mask(self.0.map(|own| own == byte))
    }

    #[inline(always)]
    pub fn simd_le(self, most: u8) -> Mask {
        Mask(self.0.map(|own| own <= most))
    }
}

impl<S> BitOr<u8> for u8x64<S> {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, bits: u8) -> Self {
        u8x64(self.0.map(|own| own | bits), PhantomData)
    }
}

impl<S> Sub<u8> for u8x64<S> {
    type Output = Self;

    #[inline(always)]
    fn sub(self, less: u8) -> Self {
        u8x64(self.0.map(|own| own.wrapping_sub(less)), PhantomData)
    }
}

impl Mask {
    /// A bit for each byte, the first the lowest.
    #[inline(always)]
    pub fn to_bitmask(self) -> u64 {
        self.0.iter().enumerate().fold(0, |bits, (at, truth)| bits | u64::from(*truth) << at)
    }
}

/// Runs an expression with the vectors that there are.
macro_rules! dispatch {
    ($level:expr, $simd:ident => $run:expr) => {{
        let $simd = $level;
        $run
    }};
}

pub(crate) use dispatch;
