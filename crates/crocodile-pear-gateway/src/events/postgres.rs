//! `LISTEN` on a PostgreSQL database.

use std::collections::VecDeque;
use std::error::Error as _;
use std::fmt;
use std::future::poll_fn;
use std::time::Duration;

use crocodile_pear::problem::Problems;
use crocodile_pear::spec::{Located, Secret};
use crocodile_pear::upstream::Files;
use futures_util::future::BoxFuture;
use tokio::time::{sleep, timeout};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, Socket};

use super::tls::{Encrypted, Tls};

/// For a connection, its handshakes and `LISTEN`.
const ATTEMPT: Duration = Duration::from_secs(5);

/// A database to listen to.
#[derive(Clone)]
pub struct Database {
    config: Config,
    tls: Tls,
    /// What TLS was made of: two with the same are the same.
    trust: (bool, Option<Vec<u8>>),
}

impl PartialEq for Database {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config && self.trust == other.trust
    }
}

const REMEDY: &str = "write `postgres://USER:PASSWORD@HOST:5432/DATABASE`; in the password, `@` is `%40`, `/` is `%2F`";

impl Database {
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
            return problems.error(url.span, "this is no address of a PostgreSQL database", REMEDY);
        };
        config.ssl_mode(mode.ssl());
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
            Ok(tls) => Some(Database { config, tls, trust: (verified, authorities) }),
            Err(reason) => problems.error(ca.map_or(url.span, |ca| ca.span), reason, "name a file with a certificate"),
        }
    }

    /// # Errors
    /// Why it cannot be listened to, without secrets.
    pub async fn listen(&self, channel: &str, heartbeat: Duration) -> Result<Listener, String> {
        match timeout(ATTEMPT, self.connect(channel, heartbeat)).await {
            Ok(Ok(listener)) => Ok(listener),
            Ok(Err(error)) => Err(told(&error)),
            Err(_) => Err(format!("it did not answer within {ATTEMPT:?}")),
        }
    }

    async fn connect(&self, channel: &str, heartbeat: Duration) -> Result<Listener, Error> {
        let (client, mut connection) = self.config.connect(self.tls.clone()).await?;
        let mut early = VecDeque::new();
        let listen = format!("LISTEN {}", quote(channel));
        tokio::select! {
            done = client.batch_execute(&listen) => done?,
            ended = hold(&mut connection, &mut early) => return Err(ended),
        }
        Ok(Listener { connection, early, check: Box::pin(check(client, heartbeat)) })
    }
}

impl fmt::Display for Database {
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

/// A connection that listens.
pub struct Listener {
    connection: Connection<Socket, Encrypted>,
    /// What came before `LISTEN` was answered.
    early: VecDeque<Vec<u8>>,
    /// Ends when the server does not answer.
    check: BoxFuture<'static, String>,
}

impl Listener {
    /// # Errors
    /// Why the connection has ended.
    pub async fn next(&mut self) -> Result<Vec<u8>, String> {
        loop {
            if let Some(payload) = self.early.pop_front() {
                return Ok(payload);
            }
            let message = poll_fn(|cx| self.connection.poll_message(cx));
            match read_first(message, &mut self.check).await? {
                Some(Ok(AsyncMessage::Notification(notification))) => return Ok(notification.payload().into()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(told(&error)),
                None => return Err("the server closed the connection".to_owned()),
            }
        }
    }
}

/// What comes next, or why the check has failed. What has come is read before the check looks at the clock: on a thread that could
/// not run for as long as a heartbeat, the answer is there, and its time is over.
async fn read_first<T>(message: impl Future<Output = T>, check: &mut BoxFuture<'static, String>) -> Result<T, String> {
    tokio::select! {
        biased;
        message = message => Ok(message),
        failed = check => Err(failed),
    }
}

/// Reads until the connection ends, and keeps what it says.
async fn hold(connection: &mut Connection<Socket, Encrypted>, early: &mut VecDeque<Vec<u8>>) -> Error {
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => early.push_back(notification.payload().into()),
            Some(Ok(_)) => {}
            Some(Err(error)) => return error,
            // What was asked on it fails, and says so.
            None => std::future::pending().await,
        }
    }
}

/// Asks the server from time to time: a connection that died in silence looks like one on which nothing happens.
async fn check(client: Client, every: Duration) -> String {
    loop {
        sleep(every).await;
        match timeout(every, client.simple_query("select 1")).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return told(&error),
            Err(_) => return format!("it did not answer within {every:?}"),
        }
    }
}

/// An error with its cause: what a database says of itself, never what it was asked with.
fn told(error: &Error) -> String {
    if let Some(error) = error.as_db_error() {
        return format!("{}: {}", error.severity(), error.message());
    }
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// An identifier in SQL.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
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
            return problems.error(file.span, "the certificate of this database is not looked at", remedy);
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
                    "allow" | "prefer" => Mode::Prefer,
                    "require" => Mode::Require,
                    "verify-full" => Mode::VerifyFull,
                    "verify-ca" => {
                        return Err(("`sslmode=verify-ca` is not supported", "write `sslmode=verify-full`"));
                    }
                    _ => {
                        let remedy = "write `disable`, `prefer`, `require` or `verify-full`";
                        return Err(("there is no such `sslmode`", remedy));
                    }
                }
            }
            Some(("sslrootcert", _)) => {
                return Err(("`sslrootcert` does not stand in the URL", "write `ca: FILE` beside `postgres`"));
            }
            _ => kept.push(parameter),
        }
    }
    let rest = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    Ok((format!("{}{rest}", &url[..at]), mode))
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_mode_of_tls_is_taken_out_of_the_url() {
        for (url, wanted) in [
            ("postgres://u@h/d", Ok(("postgres://u@h/d", Mode::Prefer))),
            ("postgres://u@h/d?sslmode=require", Ok(("postgres://u@h/d", Mode::Require))),
            ("postgres://u@h/d?options=a&sslmode=disable", Ok(("postgres://u@h/d?options=a", Mode::Disable))),
            ("postgres://u:a?b@h/d?sslmode=verify-full", Ok(("postgres://u:a?b@h/d", Mode::VerifyFull))),
            ("postgres://u@h/d?sslmode=on", Err("there is no such `sslmode`")),
            ("postgres://u@h/d?sslrootcert=a.pem", Err("`sslrootcert` does not stand in the URL")),
        ] {
            let taken = take_mode(url).map_err(|(message, _)| message);
            assert_eq!(taken.as_ref().map(|(url, mode)| (url.as_str(), *mode)).map_err(|error| *error), wanted);
        }
    }

    #[test]
    fn a_database_is_shown_without_its_password() {
        let url = Located::new(Secret::from("postgres://me:hunter2@db:1/shop".to_owned()), Default::default());
        let database = Database::compile(&url, None, &|_| unreachable!(), &mut Problems::default());
        assert_eq!(database.expect("it can be read").to_string(), "postgres://db:1/shop");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_waits_to_be_read_is_no_silence() {
        for _ in 0..50 {
            let (answer, answered) = tokio::sync::oneshot::channel::<()>();
            let heartbeat = Duration::from_secs(2);
            let mut check: BoxFuture<'static, String> = Box::pin(async move {
                match timeout(heartbeat, answered).await {
                    Ok(_) => std::future::pending().await,
                    Err(_) => "silent".to_owned(),
                }
            });
            // The query is under way.
            assert!((&mut check).now_or_never().is_none());
            // The thread rests for longer than the heartbeat. Then there is the answer, and a notification behind it.
            tokio::time::advance(heartbeat * 2).await;
            let mut answer = Some(answer);
            let read = poll_fn(|cx| {
                if let Some(answer) = answer.take() {
                    let _ = answer.send(());
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready("notification")
            });
            assert_eq!(read_first(read, &mut check).await, Ok("notification"));
        }
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quote(r#"a"; drop table b; --"#), r#""a""; drop table b; --""#);
    }
}
