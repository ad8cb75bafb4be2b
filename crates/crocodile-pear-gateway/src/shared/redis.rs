//! A Redis server: its URL, the TLS to it, connections.

use std::fmt;
use std::io;

use crocodile_pear::unstable::config::files::Files;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Located, Secret, defaults};
use crocodile_pear::unstable::net::tls::{TlsClient, TlsSpec};
use crocodile_pear::unstable::net::url::is_here;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, RedisConnectionInfo, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A server, with what is needed to connect to it.
#[derive(Clone)]
pub struct RedisServer {
    host: String,
    port: u16,
    settings: RedisConnectionInfo,
    /// The TLS client; `None` for a connection in the clear.
    tls: Option<TlsClient>,
}

impl PartialEq for RedisServer {
    fn eq(&self, other: &Self) -> bool {
        let whole = |server: &Self| {
            let settings = &server.settings;
            let credentials = [settings.username(), settings.password()].map(|text| text.map(str::to_owned));
            (server.host.clone(), server.port, settings.db(), credentials)
        };
        whole(self) == whole(other) && self.tls == other.tls
    }
}

/// A connection's stream of bytes.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

impl RedisServer {
    /// Checks the URL and the settings of TLS. The URL may hold a password, so nothing of it is quoted.
    pub fn compile(
        url: &Located<Secret>,
        tls: Option<&TlsSpec>,
        files: Files<'_>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let text = url.value.expose();
        let (secured, rest) = match (text.strip_prefix("redis://"), text.strip_prefix("rediss://")) {
            (Some(rest), _) => (false, Some(rest)),
            (None, rest) => (true, rest),
        };
        if text.contains('#') {
            // `#insecure`, as other clients have it.
            let remedy = "leave out `#`; a certificate of your own CA is checked with `ca`";
            return problems.error(url.span, "the certificate of a Redis server is always checked", remedy);
        }
        let client = rest.and_then(|rest| Client::open(format!("redis://{rest}")).ok());
        let Some((ConnectionAddr::Tcp(host, port), settings)) = client.map(|client| {
            let info = client.get_connection_info();
            (info.addr().clone(), info.redis_settings().clone())
        }) else {
            let remedy = "write `redis://127.0.0.1:6379`, or `rediss://HOST:6379` for TLS";
            return problems.error(url.span, "this is not the address of a Redis server", remedy);
        };
        let tls = match (secured, tls) {
            (true, tls) => Some(tls.cloned().unwrap_or_else(defaults).client(&host, files, problems)?),
            (false, None) => None,
            (false, Some(_)) => {
                return problems.error(url.span, "TLS to Redis needs `rediss://`", "write `rediss://HOST:6379`");
            }
        };
        if tls.is_none() && settings.password().is_some() && !is_here(&host) {
            let remedy = "write `rediss://…`, for TLS";
            problems.warning(url.span, "the password of this Redis server crosses the network unencrypted", remedy);
        }
        Some(RedisServer { host, port, settings, tls })
    }

    /// User and password.
    pub fn credentials(&self) -> (Option<&str>, Option<&str>) {
        (self.settings.username(), self.settings.password())
    }

    /// Opens a connection, with TLS where that is written.
    ///
    /// # Errors
    /// The errors of the socket and of TLS.
    pub async fn open(&self) -> io::Result<Box<dyn ByteStream>> {
        let socket = TcpStream::connect((self.host.as_str(), self.port)).await?;
        socket.set_nodelay(true)?;
        Ok(match &self.tls {
            Some(tls) => Box::new(tls.connect(socket).await?),
            None => Box::new(socket),
        })
    }

    /// A connection for many commands at once, greeted and authenticated. It ends when it is dropped.
    ///
    /// # Errors
    /// The errors of [`RedisServer::open`], and those of the server.
    pub async fn connect(&self, config: AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
        let stream = self.open().await?;
        let (connection, driver) = MultiplexedConnection::new_with_config(&self.settings, stream, config).await?;
        tokio::spawn(driver);
        Ok(connection)
    }
}

impl fmt::Display for RedisServer {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}
