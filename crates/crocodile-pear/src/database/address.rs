//! Where a database is: a URL as libpq has it, and the TLS that it asks for.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, duplex};
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, SslNegotiation};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{CancelToken, Client, Config, Connection, Error, NoTls, SimpleQueryMessage};

use super::dial::{Carrier, DatabaseHost, asks_for_tls, race, within};
use super::tls::DatabaseTls;
use super::wire::{ConnectionNaming, RenamedConnection};
use crate::config::files::Files;
use crate::config::problem::Problems;
use crate::config::spec::{Located, Secret};
use crate::net::url::is_here;

/// The address of a database, with its credentials.
#[derive(Clone)]
pub struct DatabaseAddress {
    config: Config,
    tls: DatabaseTls,
    encryption: SslMode,
    role: Role,
    /// The host that answered last is tried first.
    last: Arc<AtomicUsize>,
    /// The settings that TLS was made of: two addresses with the same are the same.
    trust: (bool, Option<Vec<u8>>),
}

impl PartialEq for DatabaseAddress {
    fn eq(&self, other: &Self) -> bool {
        (&self.config, self.encryption, self.role, &self.trust)
            == (&other.config, other.encryption, other.role, &other.trust)
    }
}

/// A connection of the client library, whose statements are renamed.
pub type DatabaseConnection = Connection<RenamedConnection<Carrier>, NoTlsStream>;

/// A connection that was opened.
pub struct Connected {
    /// The client, which sends statements.
    pub client: Client,
    /// The connection that carries them.
    pub connection: DatabaseConnection,
    /// Whether a pooler is in front of the server: the process that answers is not the one that was greeted.
    pub pooled: bool,
    pub(super) naming: ConnectionNaming,
    pub(super) host: usize,
}

const REMEDY: &str = "write `postgres://USER:PASSWORD@HOST:5432/DATABASE`; in the password, `@` is `%40`, `/` is `%2F`";

impl DatabaseAddress {
    /// Checks the URL. It may hold a password, so nothing of it is quoted.
    pub fn compile(
        url: &Located<Secret>,
        ca: Option<&Located<String>>,
        files: Files<'_>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let (plain, mode, role) = match take_mode(url.value.expose()) {
            Ok(taken) => taken,
            Err((message, remedy)) => return problems.error(url.span, message, remedy),
        };
        let scheme = plain.starts_with("postgres://") || plain.starts_with("postgresql://");
        let config = scheme.then(|| plain.parse::<Config>().ok()).flatten();
        let Some(mut config) = config.filter(|config| !config.get_hosts().is_empty()) else {
            return problems.error(url.span, "this is not the address of a PostgreSQL database", REMEDY);
        };
        // TLS is made here, below what the client library sees.
        config.ssl_mode(SslMode::Disable);
        let (hosts, numbers) = (config.get_hosts().len(), config.get_hostaddrs().len());
        if !matches!(config.get_ports().len(), 0 | 1) && config.get_ports().len() != hosts {
            return problems.error(url.span, "this URL has another number of ports than of hosts", REMEDY);
        }
        if numbers > 0 && numbers != hosts {
            let remedy = "write one `hostaddr` for each host, or none";
            return problems.error(url.span, "this URL has another number of `hostaddr` than of hosts", remedy);
        }
        let remote = |host: &Host| matches!(host, Host::Tcp(host) if !is_here(host));
        if matches!(mode, Mode::Disable | Mode::Prefer) && config.get_hosts().iter().any(remote) {
            let message = match mode {
                Mode::Disable => "what is said to this database crosses the network unencrypted",
                _ => "what is said to this database may cross the network unencrypted: `sslmode` is `prefer`",
            };
            problems.warning(url.span, message, "add `?sslmode=verify-full` to the URL");
        }
        if config.get_ssl_negotiation() == SslNegotiation::Direct && matches!(mode, Mode::Disable | Mode::Prefer) {
            let remedy = "write `sslmode=require` or `sslmode=verify-full` beside it";
            return problems.error(url.span, "`sslnegotiation=direct` needs TLS", remedy);
        }
        if config.get_application_name().is_none() {
            config.application_name("crocodile-pear");
        }
        let authorities = match ca {
            Some(file) => Some(mode.authorities(file, files, problems)?),
            None => None,
        };
        let verified = mode == Mode::VerifyFull || authorities.is_some();
        let tls = if verified { DatabaseTls::verified(authorities.as_deref()) } else { DatabaseTls::unverified() };
        match tls {
            Ok(tls) => Some(DatabaseAddress {
                config,
                tls,
                encryption: mode.ssl(),
                role,
                last: Arc::default(),
                trust: (verified, authorities),
            }),
            Err(reason) => problems.error(ca.map_or(url.span, |ca| ca.span), reason, "name a file with a certificate"),
        }
    }

    /// Connects to a host of the wanted role, the one that answered last first. Each host may take this long, if the URL
    /// says nothing else.
    ///
    /// # Errors
    /// Why the first host cannot be used.
    pub async fn connect(&self, time: Duration) -> Result<Connected, String> {
        let time = self.config.get_connect_timeout().copied().unwrap_or(time);
        let count = self.config.get_hosts().len();
        let last = self.last.load(Relaxed);
        // In turn, or from the one that answered last.
        let balances = self.config.get_load_balance_hosts() == LoadBalanceHosts::Random;
        let first = if balances { self.last.fetch_add(1, Relaxed) % count } else { last % count };
        let rest = (0..count).filter(|host| *host != first);
        let order: Vec<usize> = std::iter::once(first).chain(rest).collect();
        let roles: &[Role] = if self.role == Role::PreferStandby { &[Role::Standby, Role::Any] } else { &[self.role] };
        let mut failed = None;
        for role in roles {
            let mut attempts: Vec<BoxFuture<'_, _>> = Vec::with_capacity(count);
            for host in &order {
                attempts.push(Box::pin(within(time, self.attempt(*host, *role))));
            }
            match race(attempts).await {
                Some(Ok(connected)) => {
                    if !balances && last != connected.host {
                        self.last.store(connected.host, Relaxed);
                    }
                    return Ok(connected);
                }
                Some(Err(reason)) => failed = Some(reason),
                None => {}
            }
        }
        Err(failed.unwrap_or_else(|| "there is no host".to_owned()))
    }

    async fn attempt(&self, host: usize, role: Role) -> Result<Connected, String> {
        let carrier = self.open(host).await.map_err(|error| error.to_string())?;
        let (wire, naming) = RenamedConnection::new(carrier);
        let (client, mut connection) =
            self.config.connect_raw(wire, NoTls).await.map_err(|error| error_text(&error))?;
        let asked = async {
            let process = process(&client.cancel_token()).await;
            if role != Role::Any {
                role.check(&client).await?;
            }
            let asked = client.simple_query("select pg_backend_pid()").await;
            // Servers that are only like PostgreSQL may not know the function.
            let answers = first(&asked.unwrap_or_default(), 0).and_then(|text| text.parse::<i32>().ok());
            Ok::<bool, String>(answers.is_some() && answers != process)
        };
        let pooled = tokio::select! {
            pooled = asked => pooled?,
            _ = &mut connection => return Err("the server closed the connection".to_owned()),
        };
        Ok(Connected { client, connection, pooled, naming, host })
    }

    /// Opens a connection to a host, with TLS if that is wanted.
    async fn open(&self, host: usize) -> std::io::Result<Carrier> {
        let (place, name) = self.place(host);
        let mut socket = place.open().await?;
        if self.encryption == SslMode::Disable || matches!(place, DatabaseHost::Unix(_)) {
            return Ok(Carrier::Plain(socket));
        }
        let direct = self.config.get_ssl_negotiation() == SslNegotiation::Direct;
        if !direct && !asks_for_tls(&mut socket).await? {
            if self.encryption == SslMode::Require {
                return Err(std::io::Error::other("the server does not support TLS"));
            }
            return Ok(Carrier::Plain(socket));
        }
        let stream = self.tls.connect(&name, socket).await;
        let stream = stream.map_err(|error| std::io::Error::other(format!("TLS: {error}")))?;
        Ok(Carrier::Secure(Box::new(stream)))
    }

    /// Asks the host that answered last whether it has TLS: any server answers that, before it looks at anything else.
    pub(super) async fn greet(&self) -> std::io::Result<()> {
        let host = self.last.load(Relaxed) % self.config.get_hosts().len();
        if self.config.get_ssl_negotiation() == SslNegotiation::Direct {
            return self.open(host).await.map(drop);
        }
        asks_for_tls(&mut self.place(host).0.open().await?).await.map(drop)
    }

    /// Where a host is, and its name.
    fn place(&self, host: usize) -> (DatabaseHost, String) {
        let ports = self.config.get_ports();
        let port = ports.get(host).or(ports.first()).copied().unwrap_or(5432);
        match &self.config.get_hosts()[host] {
            Host::Unix(folder) => (DatabaseHost::Unix(folder.join(format!(".s.PGSQL.{port}"))), String::new()),
            Host::Tcp(name) => {
                let number = self.config.get_hostaddrs().get(host).map(ToString::to_string);
                (DatabaseHost::Tcp(number.unwrap_or_else(|| name.clone()), port), name.clone())
            }
        }
    }

    /// Asks a host to stop what a connection to it runs.
    ///
    /// # Errors
    /// The errors of the connection.
    pub(super) async fn cancel(&self, host: usize, token: &CancelToken) -> Result<(), String> {
        let carrier = self.open(host).await.map_err(|error| error.to_string())?;
        token.cancel_query_raw(carrier, NoTls).await.map_err(|error| error_text(&error))
    }
}

/// The process of the server that has greeted, as a request to cancel names it.
async fn process(token: &CancelToken) -> Option<i32> {
    let (mut ours, theirs) = duplex(64);
    token.cancel_query_raw(theirs, NoTls).await.ok()?;
    // The length, the number of this request, the process, its key.
    let mut request = [0; 12];
    ours.read_exact(&mut request).await.ok()?;
    Some(i32::from_be_bytes(request[8..].try_into().ok()?))
}

/// A column of the first row.
fn first(said: &[SimpleQueryMessage], column: usize) -> Option<&str> {
    said.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(column),
        _ => None,
    })
}

/// Which server is wanted: `target_session_attrs`, as libpq has it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

impl Role {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "any" => Role::Any,
            "read-write" => Role::ReadWrite,
            "read-only" => Role::ReadOnly,
            "primary" => Role::Primary,
            "standby" => Role::Standby,
            "prefer-standby" => Role::PreferStandby,
            _ => return None,
        })
    }

    async fn check(self, client: &Client) -> Result<(), String> {
        const STATE: &str =
            "select pg_is_in_recovery() or current_setting('transaction_read_only') = 'on', pg_is_in_recovery()";
        let said = client.simple_query(STATE).await.map_err(|error| error_text(&error))?;
        let (only_reads, standby) = (first(&said, 0) == Some("t"), first(&said, 1) == Some("t"));
        match self {
            Role::ReadWrite if only_reads => Err("the server does not accept writes".to_owned()),
            Role::ReadOnly if !only_reads => Err("the server accepts writes".to_owned()),
            Role::Primary if standby => Err("the server is a standby".to_owned()),
            Role::Standby if !standby => Err("the server is no standby".to_owned()),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for DatabaseAddress {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = self.config.get_ports();
        f.write_str("postgres://")?;
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            let comma = if at > 0 { "," } else { "" };
            match host {
                Host::Tcp(host) => write!(f, "{comma}{host}:{port}")?,
                Host::Unix(path) => write!(f, "{comma}{}:{port}", path.display())?,
            }
        }
        write!(f, "/{}", self.config.get_dbname().or(self.config.get_user()).unwrap_or_default())
    }
}

/// An error with its cause. It may name the database, never the credentials.
pub fn error_text(error: &Error) -> String {
    if let Some(error) = error.as_db_error() {
        return format!("{}: {}", error.severity(), error.message());
    }
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// How libpq calls it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyFull,
}

impl Mode {
    fn ssl(self) -> SslMode {
        match self {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// The authorities in a file, for certificates that are looked at.
    fn authorities(self, file: &Located<String>, files: Files<'_>, problems: &mut Problems) -> Option<Vec<u8>> {
        if matches!(self, Mode::Disable | Mode::Prefer) {
            let remedy = "add `?sslmode=verify-full` to the URL";
            return problems.error(file.span, "the certificate of this database is not checked", remedy);
        }
        match files(file) {
            Ok(pem) => Some(pem),
            Err(reason) => {
                let remedy = "name a file that is there; its path is relative to the configuration";
                problems.error(file.span, format!("cannot read `{file}`: {reason}"), remedy)
            }
        }
    }
}

type Wrong = (&'static str, &'static str);

/// The URL without `sslmode` and `target_session_attrs`, and these.
fn take_mode(url: &str) -> Result<(String, Mode, Role), Wrong> {
    let host = url.find('@').map_or(0, |at| at + 1);
    let Some(at) = url[host..].find('?').map(|at| host + at) else {
        return Ok((url.to_owned(), Mode::Prefer, Role::Any));
    };
    let (mut mode, mut role, mut kept) = (Mode::Prefer, Role::Any, Vec::new());
    for parameter in url[at + 1..].split('&') {
        match parameter.split_once('=') {
            Some(("sslmode", word)) => {
                mode = match word {
                    "disable" => Mode::Disable,
                    "prefer" => Mode::Prefer,
                    "require" => Mode::Require,
                    "verify-full" => Mode::VerifyFull,
                    "verify-ca" => {
                        return Err(("`sslmode=verify-ca` is not supported", "write `sslmode=verify-full`"));
                    }
                    "allow" => return Err(("`sslmode=allow` is not supported", "write `sslmode=prefer`")),
                    _ => {
                        let remedy = "write `disable`, `prefer`, `require` or `verify-full`";
                        return Err(("there is no such `sslmode`", remedy));
                    }
                }
            }
            Some(("target_session_attrs", word)) => {
                let remedy = "write `any`, `read-write`, `read-only`, `primary`, `standby` or `prefer-standby`";
                role = Role::parse(word).ok_or(("there is no such `target_session_attrs`", remedy))?;
            }
            Some(("sslrootcert", _)) => {
                return Err(("`sslrootcert` cannot be in the URL", "write `ca: FILE` beside `postgres`"));
            }
            Some(("sslcert" | "sslkey" | "sslpassword", _)) => {
                let remedy = "leave out `sslcert` and `sslkey`, and have the server ask for a password";
                return Err(("certificates of clients of PostgreSQL are not supported", remedy));
            }
            Some((word, _)) if word.starts_with("ssl") && word != "sslnegotiation" => {
                let remedy = "of the words of TLS, `sslmode` and `sslnegotiation` can be in the URL";
                return Err(("a parameter of TLS in this URL is not supported", remedy));
            }
            Some(("channel_binding", "require")) => {
                let remedy = "leave out `channel_binding`, and write `sslmode=verify-full`";
                return Err(("`channel_binding=require` is not supported", remedy));
            }
            _ => kept.push(parameter),
        }
    }
    let rest = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    Ok((format!("{}{rest}", &url[..at]), mode, role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_tls_is_taken_out_of_the_url() {
        for (url, wanted) in [
            ("postgres://u@h/d", Ok(("postgres://u@h/d", Mode::Prefer))),
            ("postgres://u@h/d?sslmode=require", Ok(("postgres://u@h/d", Mode::Require))),
            ("postgres://u@h/d?options=a&sslmode=disable", Ok(("postgres://u@h/d?options=a", Mode::Disable))),
            ("postgres://u:a?b@h/d?sslmode=verify-full", Ok(("postgres://u:a?b@h/d", Mode::VerifyFull))),
            ("postgres://u@h/d?target_session_attrs=standby", Ok(("postgres://u@h/d", Mode::Prefer))),
            ("postgres://u@h/d?target_session_attrs=first", Err("there is no such `target_session_attrs`")),
            ("postgres://u@h/d?sslmode=on", Err("there is no such `sslmode`")),
            ("postgres://u@h/d?sslmode=allow", Err("`sslmode=allow` is not supported")),
            ("postgres://u@h/d?sslrootcert=a.pem", Err("`sslrootcert` cannot be in the URL")),
            ("postgres://u@h/d?sslcert=a.pem", Err("certificates of clients of PostgreSQL are not supported")),
            ("postgres://u@h/d?sslcrl=a.pem", Err("a parameter of TLS in this URL is not supported")),
            ("postgres://u@h/d?channel_binding=require", Err("`channel_binding=require` is not supported")),
        ] {
            let taken = take_mode(url).map_err(|(message, _)| message);
            assert_eq!(taken.as_ref().map(|(url, mode, _)| (url.as_str(), *mode)).map_err(|error| *error), wanted);
        }
    }

    #[test]
    fn a_database_is_shown_without_its_password() {
        let url = Located::new(Secret::from("postgres://me:hunter2@db:1/shop".to_owned()), Default::default());
        let database = DatabaseAddress::compile(&url, None, &|_| unreachable!(), &mut Problems::default());
        assert_eq!(database.expect("it can be read").to_string(), "postgres://db:1/shop");
    }
}
