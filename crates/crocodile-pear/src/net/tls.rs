//! TLS to upstreams: trusted authorities, the client certificate, and what a failed handshake means.

pub mod pem;
mod provider;
mod sessions;
mod spec;
mod trust;
mod verifier;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::Resumption;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, ClientConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub use self::provider::{TOO_FEW, provider};
use self::sessions::Sessions;
use self::spec::{TlsFault, TlsField};
pub use self::spec::{TlsSettings, TlsSpec, TlsVersion};
use self::trust::{CertificateTrust, UnknownIssuer};
pub use self::verifier::{Judge, Shown, Verifier};
use super::connect_error::ConnectFault;
use super::protocol::Offer;
use crate::config::files::Files;
use crate::config::problem::Problems;
use crate::error::{Error, Kind};
use crate::runtime::calendar::Day;
use crate::runtime::socket::Socket;

/// Tickets kept for session resumption: each is used once, and a burst of new connections needs several.
const TICKETS: usize = 32;
/// Encrypted bytes that wait for the socket: two records, so that the next is encrypted while one is sent.
const OUTGOING: usize = 32 * 1024;

impl TlsSpec {
    pub(crate) fn compile(&self, host: &str, files: Files<'_>, problems: &mut Problems) -> Option<TlsSettings> {
        self.settle(files, |settings| Tls::new(settings, host, &[]).map(drop), problems)
    }

    /// TLS to a server that speaks no HTTP.
    pub fn client(&self, host: &str, files: Files<'_>, problems: &mut Problems) -> Option<TlsClient> {
        let settings = self.compile(host, files, problems)?;
        // `compile` has tried it.
        let Tls { connector, name, sessions, .. } = Tls::new(&settings, host, &[]).ok()?;
        Some(TlsClient { connector, name, sessions, settings })
    }
}

/// TLS to a server that speaks no HTTP: its certificate is checked as that of an upstream.
#[derive(Clone)]
pub struct TlsClient {
    connector: TlsConnector,
    name: ServerName<'static>,
    sessions: Arc<Sessions>,
    settings: TlsSettings,
}

impl PartialEq for TlsClient {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.settings) == (&other.name, &other.settings)
    }
}

impl TlsClient {
    /// Makes the handshake.
    ///
    /// # Errors
    /// The errors of the socket, and the reason why the server is not trusted.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        let stream = self.connector.connect(self.name.clone(), stream).await?;
        self.sessions.note(stream.get_ref().1);
        Ok(stream)
    }
}

/// TLS to one upstream, ready; sessions are kept for all of its connections.
pub(crate) struct Tls {
    connector: TlsConnector,
    /// For connections that must use HTTP/1.1, whatever the server offers.
    http1: TlsConnector,
    name: ServerName<'static>,
    sessions: Arc<Sessions>,
}

/// A TLS connection; it sends `close_notify` when it is dropped.
pub(crate) struct TlsConnection {
    stream: TlsStream<Socket>,
    broken: bool,
}

impl TlsConnection {
    /// The socket under it.
    pub(crate) fn socket(&self) -> &Socket {
        self.stream.get_ref().0
    }

    /// The version of HTTP that was chosen, if one was.
    pub(crate) fn chosen(&self) -> Option<&[u8]> {
        self.stream.get_ref().1.alpn_protocol()
    }

    /// Ends the stream without a `close_notify`, so that the peer does not take it for complete.
    pub(crate) fn break_off(&mut self) {
        self.broken = true;
    }
}

impl Drop for TlsConnection {
    /// RFC 8446, 6.1: `close_notify` shows that no attacker has cut the connection. Not behind half a message, and without
    /// waiting: the socket takes it at once or not at all.
    fn drop(&mut self) {
        let (socket, session) = self.stream.get_mut();
        if self.broken || session.wants_write() {
            return;
        }
        session.send_close_notify();
        let mut goodbye = Vec::with_capacity(64);
        if session.write_tls(&mut goodbye).is_ok() {
            let _ = socket.try_write(&goodbye);
        }
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Tls {
    /// # Errors
    /// The first part of the settings that cannot be used.
    pub(crate) fn new(settings: &TlsSettings, host: &str, offers: &[&[u8]]) -> Result<Self, TlsFault> {
        let name = settings.server_name.as_deref().unwrap_or(host);
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let name =
            ServerName::try_from(bare.to_owned()).map_err(|_| TlsField::Name.fault("this is not a server name"))?;
        let mut config = config(settings)?;
        config.alpn_protocols = offers.iter().map(|name| name.to_vec()).collect();
        let sessions = Arc::new(Sessions::new(TICKETS));
        config.resumption = Resumption::store(sessions.clone());
        let connector: TlsConnector = Arc::new(config.clone()).into();
        let http1 = match offers {
            [_, _, ..] => {
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                Arc::new(config).into()
            }
            _ => connector.clone(),
        };
        Ok(Tls { connector, http1, name, sessions })
    }

    /// Makes the handshake.
    ///
    /// # Errors
    /// `Unreachable`, with the side that is at fault.
    pub(crate) async fn connect(&self, stream: Socket, offer: Offer) -> Result<Box<TlsConnection>, ConnectFault> {
        let connector = match offer {
            Offer::All => &self.connector,
            Offer::Http1 => &self.http1,
        };
        let connecting = connector.connect_with(self.name.clone(), stream, |session| {
            session.set_buffer_limit(Some(OUTGOING));
        });
        let stream = connecting.await.map_err(|error| {
            let told = refusal(&error).unwrap_or_else(|| failure("the upstream ended the TLS handshake"));
            // Names and dates are for operators only.
            ConnectFault::new(told.kind(), told.detail().to_owned(), format!("TLS: {error}")).caused_by(error)
        })?;
        self.sessions.note(stream.get_ref().1);
        Ok(Box::new(TlsConnection { stream, broken: false }))
    }
}

fn config(settings: &TlsSettings) -> Result<ClientConfig, TlsFault> {
    let versions: Vec<_> = match &settings.versions[..] {
        [] => rustls::ALL_VERSIONS.to_vec(),
        versions => versions.iter().map(|version| version.supported()).collect(),
    };
    let provider = provider().map_err(|why| TlsField::Name.fault(why))?;
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(|_| TlsField::Name.fault(TOO_FEW))?;
    let (roots, named) = match &settings.ca {
        // As authorities, and as they are.
        Some(file) => {
            let named = pem::certificates(file).map_err(|why| TlsField::Ca.fault(why))?;
            (pem::roots(&named).map_err(|why| TlsField::Ca.fault(why))?, named)
        }
        None => (pem::public_roots(), Vec::new()),
    };
    let trust = CertificateTrust::new(roots, named, provider.clone())
        .ok_or_else(|| TlsField::Ca.fault("there is no authority in this file"))?;
    // It refuses what rustls refuses but for certificates that are named themselves.
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Verifier::new(trust, provider)));
    match (&settings.certificate, &settings.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(_), None) => Err(TlsField::Certificate.fault("the certificate has no `key`")),
        (None, Some(_)) => Err(TlsField::Key.fault("the key has no `certificate`")),
        (Some(certificate), Some(key)) => {
            let chain = pem::certificates(certificate).map_err(|why| TlsField::Certificate.fault(why))?;
            let key = pem::private_key(key).map_err(|why| TlsField::Key.fault(why))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => TlsField::Key.fault("the key is not that of the certificate"),
                rustls::Error::InvalidCertificate(_) => TlsField::Certificate.fault("the certificate cannot be read"),
                _ => TlsField::Key.fault("the key is of no kind that can be used"),
            })
        }
    }
}

impl TlsVersion {
    fn supported(self) -> &'static rustls::SupportedProtocolVersion {
        match self {
            TlsVersion::Tls12 => &rustls::version::TLS12,
            TlsVersion::Tls13 => &rustls::version::TLS13,
        }
    }
}

/// Why TLS failed, if it was TLS; for the client, without names and addresses.
pub fn refusal(error: &io::Error) -> Option<Error> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidCertificate(fault) => failure(format!("the upstream's certificate {}", distrust(fault))),
        rustls::Error::AlertReceived(alert) => failure(objection(*alert)),
        rustls::Error::InvalidMessage(_) => failure("the upstream does not speak TLS"),
        rustls::Error::PeerIncompatible(_) => {
            failure("the upstream supports no TLS version or cipher suite of the gateway")
        }
        rustls::Error::NoCertificatesPresented => failure("the upstream presented no certificate"),
        _ => failure("the upstream violates the TLS protocol"),
    })
}

fn distrust(fault: &CertificateError) -> String {
    match fault {
        CertificateError::Expired => "has expired".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => format!("expired on {}", day(*not_after)),
        CertificateError::NotValidYet => "is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => format!("is not valid before {}", day(*not_before)),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "is not valid for this host name".to_owned()
        }
        CertificateError::UnknownIssuer => "is signed by an unknown authority".to_owned(),
        CertificateError::Revoked => "has been revoked".to_owned(),
        CertificateError::BadSignature => "has an invalid signature".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not for TLS servers".to_owned()
        }
        CertificateError::BadEncoding => "cannot be read".to_owned(),
        CertificateError::Other(other) => {
            let unknown = other.0.downcast_ref().map(UnknownIssuer::detail);
            unknown.unwrap_or("is the certificate of an authority, not of a server").to_owned()
        }
        _ => "is not acceptable".to_owned(),
    }
}

fn objection(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired => "the upstream requires a client certificate",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => "the upstream rejected the client certificate",
        AlertDescription::ProtocolVersion => "the upstream supports none of the configured TLS versions",
        AlertDescription::UnrecognisedName => "the upstream does not know the server name",
        AlertDescription::NoApplicationProtocol => "the upstream supports none of the offered HTTP versions",
        _ => "the upstream refused the TLS handshake",
    }
}

fn failure(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Kind::Unreachable, detail)
}

/// The day of a moment.
fn day(time: UnixTime) -> Day {
    Day::of_seconds(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::tls::*;

    #[test]
    fn the_part_that_cannot_be_used_is_named() {
        let part =
            |settings: TlsSettings| Tls::new(&settings, "localhost", &[b"http/1.1"]).err().map(|fault| fault.field);
        let text = || Some(b"no PEM".to_vec());
        assert_eq!(part(TlsSettings::default()), None);
        assert_eq!(part(TlsSettings { ca: text(), ..TlsSettings::default() }), Some(TlsField::Ca));
        assert_eq!(part(TlsSettings { certificate: text(), ..TlsSettings::default() }), Some(TlsField::Certificate));
        assert_eq!(part(TlsSettings { key: text(), ..TlsSettings::default() }), Some(TlsField::Key));
        let name = Some("a b".to_owned());
        assert_eq!(part(TlsSettings { server_name: name, ..TlsSettings::default() }), Some(TlsField::Name));
    }
}
