//! The cryptography of TLS: the program's own default, or else what was built in.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The message if there is none.
const NONE: &str = "TLS needs cryptography: build crocodile-pear with its feature `ring` or `aws-lc-rs`, or install a default provider of rustls";

/// The message if it lacks a version.
pub const TOO_FEW: &str = "the default provider of rustls has no suites for these versions of TLS";

/// The default provider of the program, if it has installed one; otherwise `ring`, otherwise `aws-lc-rs`.
///
/// # Errors
/// There is none.
pub fn provider() -> Result<Arc<CryptoProvider>, &'static str> {
    CryptoProvider::get_default().cloned().or_else(built_in).ok_or(NONE)
}

#[cfg(feature = "ring")]
fn built_in() -> Option<Arc<CryptoProvider>> {
    Some(Arc::new(rustls::crypto::ring::default_provider()))
}

#[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
fn built_in() -> Option<Arc<CryptoProvider>> {
    Some(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

#[cfg(not(any(feature = "aws-lc-rs", feature = "ring")))]
fn built_in() -> Option<Arc<CryptoProvider>> {
    None
}
