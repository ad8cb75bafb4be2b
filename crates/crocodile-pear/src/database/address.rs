//! Where a database is: a URL as libpq has it, and the TLS that it asks for.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, SslNegotiation};
use tokio_postgres::{CancelToken, Client, Config, Connection, Error, Socket};

use super::tls::{Encrypted, Tls};
use crate::problem::Problems;
use crate::spec::{Located, Secret};
use crate::upstream::{Files, is_here};

/// The address of a database, with its credentials.
#[derive(Clone)]
pub struct Address {
    config: Config,
    tls: Tls,
    /// What TLS was made of: two with the same are the same.
    trust: (bool, Option<Vec<u8>>),
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config && self.trust == other.trust
    }
}

const REMEDY: &str = "write `postgres://USER:PASSWORD@HOST:5432/DATABASE`; in the password, `@` is `%40`, `/` is `%2F`";

impl Address {
    /// Checks the URL. It may hold a password, so nothing of it is quoted.
    pub fn compile(
        url: &Located<Secret>,
        ca: Option<&Located<String>>,
        files: Files<'_>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let (plain, mode) = match take_mode(url.value.expose()) {
            Ok(taken) => taken,
            Err((message, remedy)) => return problems.error(url.span, message, remedy),
        };
        let scheme = plain.starts_with("postgres://") || plain.starts_with("postgresql://");
        let config = scheme.then(|| plain.parse::<Config>().ok()).flatten();
        let Some(mut config) = config.filter(|config| !config.get_hosts().is_empty()) else {
            return problems.error(url.span, "this is not the address of a PostgreSQL database", REMEDY);
        };
        config.ssl_mode(mode.ssl());
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
        let tls = if verified { Tls::verified(authorities.as_deref()) } else { Ok(Tls::unverified()) };
        match tls {
            Ok(tls) => Some(Address { config, tls, trust: (verified, authorities) }),
            Err(reason) => problems.error(ca.map_or(url.span, |ca| ca.span), reason, "name a file with a certificate"),
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// Those of the connection, of TLS and of the server.
    pub async fn connect(&self) -> Result<(Client, Connection<Socket, Encrypted>), Error> {
        self.config.connect(self.tls.clone()).await
    }

    /// Asks the server to stop what a connection runs.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn cancel(&self, token: &CancelToken) -> Result<(), Error> {
        token.cancel_query(self.tls.clone()).await
    }

    /// How long connecting to one host may take.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        if self.config.get_connect_timeout().is_none() {
            self.config.connect_timeout(time);
        }
        self
    }
}

impl fmt::Display for Address {
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
pub fn told(error: &Error) -> String {
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

/// The URL without `sslmode`, and that.
fn take_mode(url: &str) -> Result<(String, Mode), Wrong> {
    let host = url.find('@').map_or(0, |at| at + 1);
    let Some(at) = url[host..].find('?').map(|at| host + at) else { return Ok((url.to_owned(), Mode::Prefer)) };
    let (mut mode, mut kept) = (Mode::Prefer, Vec::new());
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
    Ok((format!("{}{rest}", &url[..at]), mode))
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
            ("postgres://u@h/d?sslmode=on", Err("there is no such `sslmode`")),
            ("postgres://u@h/d?sslmode=allow", Err("`sslmode=allow` is not supported")),
            ("postgres://u@h/d?sslrootcert=a.pem", Err("`sslrootcert` cannot be in the URL")),
            ("postgres://u@h/d?sslcert=a.pem", Err("certificates of clients of PostgreSQL are not supported")),
            ("postgres://u@h/d?sslcrl=a.pem", Err("a parameter of TLS in this URL is not supported")),
            ("postgres://u@h/d?channel_binding=require", Err("`channel_binding=require` is not supported")),
        ] {
            let taken = take_mode(url).map_err(|(message, _)| message);
            assert_eq!(taken.as_ref().map(|(url, mode)| (url.as_str(), *mode)).map_err(|error| *error), wanted);
        }
    }

    #[test]
    fn a_database_is_shown_without_its_password() {
        let url = Located::new(Secret::from("postgres://me:hunter2@db:1/shop".to_owned()), Default::default());
        let database = Address::compile(&url, None, &|_| unreachable!(), &mut Problems::default());
        assert_eq!(database.expect("it can be read").to_string(), "postgres://db:1/shop");
    }
}
