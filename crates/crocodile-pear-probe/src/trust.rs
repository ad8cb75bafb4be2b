//! The certificates that a probe trusts: those that the gateway would. The certificate and its fault are noted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crocodile_pear::unstable::net::tls::{Judge, Shown, TlsVersion, Verifier, pem, refusal};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, SupportedProtocolVersion};

use crate::certificate::Certificate;
use crate::trouble::UsageError;
use crate::way::Http;

/// The handling of a certificate that is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// The connection ends.
    Strictly,
    /// The fault is noted, and the connection goes on.
    Not,
}

/// Whether a TLS session is taken up again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    Kept,
    Never,
}

/// The files that TLS is told of.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsFiles {
    /// A PEM file with the CAs to trust [default: the CAs that Mozilla trusts].
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// A PEM file with the client certificate and its chain.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// A PEM file with the key of that certificate.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
}

/// TLS to the server that is probed.
pub struct ProbeTls {
    provider: Arc<CryptoProvider>,
    verifier: Arc<Verifier<Witness>>,
    /// The certificate for a server that asks for one.
    identity: Option<ClientIdentity>,
    /// The name that the certificate must be for.
    pub name: ServerName<'static>,
    pub(crate) verify: Verify,
}

impl ProbeTls {
    /// Reads the files.
    ///
    /// # Errors
    /// The fault of the files, or of the name of the host.
    pub fn new(host: &str, files: &TlsFiles, verify: Verify) -> Result<Self, UsageError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| UsageError::new(format!("`{host}` is not the name of a server")))?;
        let roots = match &files.ca {
            Some(file) => {
                let roots = contents(file).and_then(|ca| pem::roots(&pem::certificates(&ca)?));
                roots.map_err(|reason| wrong("--ca", file, reason))?
            }
            None => pem::public_roots(),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
        let inner = inner.map_err(|error| UsageError::new(error.to_string()))?;
        let witness = Witness { inner, verify, seen: Mutex::default() };
        let verifier = Arc::new(Verifier::new(witness, provider.clone()));
        let trust = ProbeTls { provider, verifier, identity: identity(files)?, name, verify };
        trust.client(&[&rustls::version::TLS13]).map_err(|_| UsageError::new("--key is not that of --certificate"))?;
        Ok(trust)
    }

    /// Offers one version of TLS and one of HTTP.
    pub(crate) fn config(&self, tls: TlsVersion, http: Http, sessions: Sessions) -> Arc<ClientConfig> {
        let version = match tls {
            TlsVersion::Tls12 => &rustls::version::TLS12,
            TlsVersion::Tls13 => &rustls::version::TLS13,
        };
        let mut config = self.client(&[version]).expect("the identity was tried at the start");
        config.alpn_protocols = vec![http.alpn().to_vec()];
        if sessions == Sessions::Never {
            config.resumption = Resumption::disabled();
        }
        config.into()
    }

    /// Offers both versions of TLS, and HTTP/1.1.
    ///
    /// # Errors
    /// If the key is not that of the certificate.
    pub fn any(&self) -> Result<ClientConfig, rustls::Error> {
        let mut config = self.client(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        config.alpn_protocols = vec![Http::One.alpn().to_vec()];
        Ok(config)
    }

    fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> Result<ClientConfig, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(self.provider.clone()).with_protocol_versions(versions)?;
        let builder = builder.dangerous().with_custom_certificate_verifier(self.verifier.clone());
        match &self.identity {
            Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()),
            None => Ok(builder.with_no_client_auth()),
        }
    }

    /// The certificate that was shown, if it can be read.
    pub(crate) fn certificate(&self) -> Option<Certificate> {
        Certificate::read(self.verifier.judge.seen().leaf.as_deref()?)
    }

    /// The fault of the certificate.
    pub(crate) fn fault(&self) -> Option<String> {
        self.verifier.judge.seen().fault.clone()
    }
}

type ClientIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(files: &TlsFiles) -> Result<Option<ClientIdentity>, UsageError> {
    let (Some(certificate), Some(key)) = (&files.certificate, &files.key) else { return Ok(None) };
    let chain = contents(certificate).and_then(|read| pem::certificates(&read));
    let chain = chain.map_err(|reason| wrong("--certificate", certificate, reason))?;
    let read = contents(key).and_then(|read| pem::private_key(&read));
    let key = read.map_err(|reason| wrong("--key", key, reason))?;
    Ok(Some((chain, key)))
}

fn wrong(option: &str, file: &Path, reason: &str) -> UsageError {
    UsageError::new(format!("{option} {}: {reason}", file.display()))
}

fn contents(file: &Path) -> Result<Vec<u8>, &'static str> {
    std::fs::read(file).map_err(|_| "the file cannot be read")
}

/// The gateway's verifier, with a memory.
#[derive(Debug)]
struct Witness {
    inner: Arc<WebPkiServerVerifier>,
    verify: Verify,
    seen: Mutex<SeenCertificate>,
}

#[derive(Debug, Default)]
struct SeenCertificate {
    leaf: Option<Vec<u8>>,
    fault: Option<String>,
}

impl Witness {
    fn seen(&self) -> std::sync::MutexGuard<'_, SeenCertificate> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Judge for Witness {
    fn judge(&self, shown: &Shown<'_>) -> Result<(), rustls::Error> {
        let Shown { own, intermediates, name, ocsp, now } = *shown;
        let verdict = self.inner.verify_server_cert(own, intermediates, name, ocsp, now);
        let fault = verdict.as_ref().err().and_then(|error| refusal(&io::Error::other(error.clone())));
        *self.seen() =
            SeenCertificate { leaf: Some(own.to_vec()), fault: fault.map(|fault| fault.detail().to_owned()) };
        match self.verify {
            Verify::Strictly => verdict.map(|_| ()),
            Verify::Not => Ok(()),
        }
    }
}
