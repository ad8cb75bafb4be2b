//! The cryptography of the listeners.

use rustls::crypto::CryptoProvider;

/// The cryptography of all listeners.
pub fn provider() -> &'static CryptoProvider {
    static PROVIDER: std::sync::LazyLock<CryptoProvider> =
        std::sync::LazyLock::new(rustls::crypto::ring::default_provider);
    &PROVIDER
}
