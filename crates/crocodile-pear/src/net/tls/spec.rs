//! TLS to an upstream, as it is written.

use crate::config::files::Files;
use crate::config::problem::Problems;
use crate::config::spec::Located;
use crate::spec;

/// The configuration of TLS to an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsSettings {
    /// The authorities to trust, as PEM, instead of the public ones.
    pub ca: Option<Vec<u8>>,
    /// The client certificate with its chain, as PEM.
    pub certificate: Option<Vec<u8>>,
    /// The key of that certificate, as PEM.
    pub key: Option<Vec<u8>>,
    /// The name for SNI and for the check of the certificate. Default: the host of the URL.
    pub server_name: Option<String>,
    /// The versions to offer; all, if empty.
    pub versions: Vec<TlsVersion>,
}

spec! {
    /// TLS to an upstream. Paths are relative to the configuration file.
    pub struct TlsSpec {
        /// A PEM file with the CAs to trust. Default: the CAs that Mozilla trusts.
        pub ca: Option<Located<String>>,
        /// A PEM file with the client certificate and its chain.
        pub certificate: Option<Located<String>>,
        /// A PEM file with the key of that certificate.
        pub key: Option<Located<String>>,
        /// The name for SNI and for the check of the certificate. Default: the host of the URL.
        pub server_name: Option<Located<String>>,
        /// The versions to offer. Default: 1.2 and 1.3.
        pub versions: Vec<TlsVersion> = Vec::new(),
    }
}

crate::choice! {
    /// A version of TLS.
    pub enum TlsVersion {
        /// RFC 5246.
        Tls12 = "1.2",
        /// RFC 8446.
        Tls13 = "1.3",
    }
}

impl TlsSpec {
    /// Reads its files. `fit` finds out whether they can be used.
    pub(super) fn settle(
        &self,
        files: Files<'_>,
        fit: impl FnOnce(&TlsSettings) -> Result<(), TlsFault>,
        problems: &mut Problems,
    ) -> Option<TlsSettings> {
        let mut sound = true;
        let mut read = |written: &Option<Located<String>>| match files(written.as_ref()?) {
            Ok(bytes) => Some(bytes),
            Err(reason) => {
                sound = false;
                let written = written.as_ref()?;
                problems.error(written.span, format!("cannot read `{written}`: {reason}"), "")
            }
        };
        let settings = TlsSettings {
            ca: read(&self.ca),
            certificate: read(&self.certificate),
            key: read(&self.key),
            server_name: self.server_name.as_ref().map(|name| name.value.clone()),
            versions: self.versions.clone(),
        };
        if !sound {
            return None;
        }
        let Err(fault) = fit(&settings) else { return Some(settings) };
        let written = match fault.field {
            TlsField::Ca => &self.ca,
            TlsField::Certificate => &self.certificate,
            TlsField::Key => &self.key,
            TlsField::Name => &self.server_name,
        };
        problems.error(written.as_ref().map(|written| written.span).unwrap_or_default(), fault.message, "")
    }
}

/// The field of the settings that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsField {
    Ca,
    Certificate,
    Key,
    Name,
}

/// A fault in the settings.
#[derive(Debug)]
pub struct TlsFault {
    pub field: TlsField,
    pub message: String,
}

impl TlsField {
    pub(super) fn fault(self, message: &str) -> TlsFault {
        TlsFault { field: self, message: message.to_owned() }
    }
}
