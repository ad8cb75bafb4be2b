//! Vectors of bytes: those of the machine, chosen at run time, or arrays in a build without `simd`.

#[cfg(not(feature = "simd"))]
mod plain;

#[cfg(feature = "simd")]
pub use fearless_simd::prelude::*;
#[cfg(feature = "simd")]
pub use fearless_simd::{Level, Simd, dispatch, u8x64};

#[cfg(not(feature = "simd"))]
pub(crate) use plain::dispatch;
#[cfg(not(feature = "simd"))]
pub use plain::{Level, Simd, u8x64};
