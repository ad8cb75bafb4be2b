//! A verifier of servers' certificates: a judge says which ones are trusted, and the handshake's signature is checked in
//! every case.

use std::fmt::Debug;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// Says which certificates are trusted.
pub trait Judge: Debug + Send + Sync {
    /// # Errors
    /// Why this one is not.
    fn judge(&self, shown: &Shown<'_>) -> Result<(), Error>;
}

/// The certificates that a server has shown.
pub struct Shown<'a> {
    pub own: &'a CertificateDer<'a>,
    /// The certificates that lead from it to an authority.
    pub intermediates: &'a [CertificateDer<'a>],
    /// The name that was dialled.
    pub name: &'a ServerName<'a>,
    /// The OCSP response that came with it.
    pub ocsp: &'a [u8],
    pub now: UnixTime,
}

/// Verifies certificates as its judge says.
#[derive(Debug)]
pub struct Verifier<J> {
    /// The judge of what is trusted.
    pub judge: J,
    provider: Arc<CryptoProvider>,
}

impl<J> Verifier<J> {
    /// A verifier with the algorithms of `provider`.
    pub fn new(judge: J, provider: Arc<CryptoProvider>) -> Self {
        Verifier { judge, provider }
    }
}

impl<J: Judge> ServerCertVerifier for Verifier<J> {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge.judge(&Shown { own, intermediates, name, ocsp, now }).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, own, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, own, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
