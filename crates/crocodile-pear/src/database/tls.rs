//! TLS to a database, as its client asks for it.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::net::tls::{Judge, Shown, TOO_FEW, Verifier, pem, provider};
use crate::runtime::socket::Socket;

/// Makes TLS of connections.
#[derive(Clone)]
pub struct DatabaseTls(TlsConnector);

impl DatabaseTls {
    /// Encrypts, and takes any certificate: what libpq does for `prefer`, and for `require` without an authority.
    ///
    /// # Errors
    /// There is no cryptography.
    pub fn unverified() -> Result<Self, String> {
        let provider = provider()?;
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|_| TOO_FEW)?;
        let anyone = Arc::new(Verifier::new(Anyone, provider));
        let config = builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth();
        Ok(DatabaseTls::from_config(config))
    }

    fn from_config(mut config: ClientConfig) -> Self {
        // Connections are kept for long, and a whole handshake looks at the certificate.
        config.resumption = Resumption::disabled();
        // A server that begins with TLS at once (`sslnegotiation=direct`) insists on it.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        DatabaseTls(Arc::new(config).into())
    }

    /// Takes certificates of these authorities, as PEM, for the name of the host; by default of the public ones.
    ///
    /// # Errors
    /// A description of what is wrong with them.
    pub fn verified(authorities: Option<&[u8]>) -> Result<Self, String> {
        let roots = match authorities {
            None => pem::public_roots(),
            Some(file) => pem::roots(&pem::certificates(file)?)?,
        };
        let builder = ClientConfig::builder_with_provider(provider()?).with_safe_default_protocol_versions();
        let builder = builder.map_err(|_| TOO_FEW)?;
        Ok(DatabaseTls::from_config(builder.with_root_certificates(roots).with_no_client_auth()))
    }
}

impl DatabaseTls {
    /// Makes a handshake with this host.
    ///
    /// # Errors
    /// The errors of TLS and of the connection.
    pub async fn connect(&self, host: &str, socket: Socket) -> io::Result<TlsStream<Socket>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, socket).await
    }
}

/// Takes every certificate.
#[derive(Debug)]
struct Anyone;

impl Judge for Anyone {
    fn judge(&self, _: &Shown<'_>) -> Result<(), rustls::Error> {
        Ok(())
    }
}
