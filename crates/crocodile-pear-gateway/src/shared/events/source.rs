//! A source of events: as it is written, and ready.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::config::files::Files;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{ExpressionSpec, Located, Secret, defaults};
use crocodile_pear::unstable::database;
use crocodile_pear::unstable::net::tls::TlsSpec;
use crocodile_pear::unstable::spec;

use super::postgres::{self, PostgresListener};
use super::reaction::Reaction;
use super::redis::{self, RedisListener};
use crate::shared::purge::ModeSpec;
use crate::shared::redis::RedisServer;

spec! {
    /// A source of messages about changed data. An expression says which cached answers each message purges. Needs
    /// `postgres` or `redis`.
    pub struct EventSourceSpec {
        /// A PostgreSQL database whose `NOTIFY` messages are received: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
        /// `?sslmode=` may be `disable`, `prefer`, `require` or `verify-full`, as for `psql`. A connection pooler in
        /// between must not use transaction pooling.
        pub postgres: Option<Located<Secret>>,
        /// A Redis server whose published messages are received: `redis://HOST:PORT`, with TLS `rediss://HOST:PORT`,
        /// with credentials `rediss://USER:PASSWORD@HOST:PORT`. Its certificate is always checked.
        pub redis: Option<Located<Secret>>,
        /// The channel.
        pub channel: Located<String>,
        /// A jq expression that gives the tags to purge. `.` is the message: its value if it is JSON, otherwise its
        /// text. Each output is a tag, or a map as for `POST /cache/purge` of `admin`, such as `{url: "…"}` or `{all:
        /// true}`. If the expression fails, all answers with tags become stale.
        pub purge: ExpressionSpec,
        /// The effect on purged answers.
        pub mode: ModeSpec = ModeSpec::Soft,
        /// How long answers with tags are still served as before while the connection is lost. By default they become
        /// stale at once.
        pub trust: Duration = Duration::ZERO,
        /// How often to check the connection. A check may take as long as this, so a dead connection is noticed after
        /// twice this time at most.
        pub heartbeat: Located<Duration> = Located::new(Duration::from_secs(2), Default::default()),
        /// A PEM file with the CAs to trust, for `sslmode=require` and `verify-full`, and for `rediss://`. Default: the
        /// public CAs.
        pub ca: Option<Located<String>>,
    }
}

/// The longest name that PostgreSQL has for a channel.
pub(super) const CHANNEL: usize = 63;

/// A source of events, ready.
pub struct EventSource {
    pub(super) identity: SourceIdentity,
    pub(super) reaction: Arc<Reaction>,
}

/// A reload keeps the connection if these have not changed.
#[derive(Clone, PartialEq)]
pub(super) struct SourceIdentity {
    pub(super) address: SourceAddress,
    pub(super) channel: String,
    pub(super) trust: Duration,
    pub(super) heartbeat: Duration,
}

/// Where it connects.
#[derive(Clone, PartialEq)]
pub(super) enum SourceAddress {
    Postgres(Box<database::DatabaseAddress>),
    Redis(Box<RedisServer>),
}

/// Checks the sources.
pub fn compile(written: &[EventSourceSpec], files: Files<'_>, problems: &mut Problems) -> Option<Vec<EventSource>> {
    let mut sources: Vec<EventSource> = Vec::new();
    let mut sound = true;
    for spec in written {
        let Some(source) = spec.compile(files, problems) else {
            sound = false;
            continue;
        };
        if sources.iter().any(|other| other.identity.names() == source.identity.names()) {
            let message = format!("the channel `{}` of {} is there twice", spec.channel, source.identity);
            let remedy = "write one entry, with a comma between the two expressions of `purge`";
            sound = problems.error(spec.channel.span, message, remedy).unwrap_or_default();
            continue;
        }
        sources.push(source);
    }
    sound.then_some(sources)
}

impl EventSourceSpec {
    /// Checks it.
    fn compile(&self, files: Files<'_>, problems: &mut Problems) -> Option<EventSource> {
        let address = self.address(files, problems);
        let channel = self.channel(problems);
        let heartbeat = self.heartbeat(problems);
        let reaction = Reaction::compile(&self.purge, self.mode, problems);
        let identity =
            SourceIdentity { address: address?, channel: channel?, trust: self.trust, heartbeat: heartbeat? };
        Some(EventSource { identity, reaction: Arc::new(reaction?) })
    }

    fn address(&self, files: Files<'_>, problems: &mut Problems) -> Option<SourceAddress> {
        match (&self.postgres, &self.redis) {
            (Some(url), None) => {
                let ca = self.ca.as_ref();
                database::DatabaseAddress::compile(url, ca, files, problems)
                    .map(|address| SourceAddress::Postgres(Box::new(address)))
            }
            (None, Some(url)) => {
                let tls = self.ca.clone().map(|ca| TlsSpec { ca: Some(ca), ..defaults() });
                RedisServer::compile(url, tls.as_ref(), files, problems).map(Box::new).map(SourceAddress::Redis)
            }
            (None, None) => {
                let remedy = "write `postgres: 'postgres://…'` or `redis: 'redis://…'` beside it";
                problems.error(self.channel.span, "the channel has no server", remedy)
            }
            (Some(_), Some(url)) => problems.error(
                url.span,
                "a source is `postgres` or `redis`, not both",
                "make it two entries of the list",
            ),
        }
    }

    fn channel(&self, problems: &mut Problems) -> Option<String> {
        let written = &self.channel;
        if written.value.is_empty() || written.value.contains('\0') {
            return problems.error(written.span, "the channel has no name", "write the name that `NOTIFY` has");
        }
        if self.postgres.is_some() && written.value.len() > CHANNEL {
            let message = format!("PostgreSQL has no channel whose name is longer than {CHANNEL} bytes");
            return problems.error(written.span, message, "");
        }
        Some(written.value.clone())
    }

    fn heartbeat(&self, problems: &mut Problems) -> Option<Duration> {
        match self.heartbeat.value < Duration::from_millis(10) {
            true => problems.error(self.heartbeat.span, "`heartbeat` must be above 0", "write `heartbeat: 2s`"),
            false => Some(self.heartbeat.value),
        }
    }
}

impl fmt::Display for SourceIdentity {
    /// Without a password: for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            SourceAddress::Postgres(database) => database.fmt(f),
            SourceAddress::Redis(server) => server.fmt(f),
        }
    }
}

/// A connection that listens.
pub(super) enum EventListener {
    Postgres(Box<PostgresListener>),
    Redis(Box<RedisListener>),
}

impl SourceIdentity {
    /// The names of the source in logs and metrics.
    pub(super) fn names(&self) -> (String, &str) {
        (self.to_string(), &self.channel)
    }

    /// Connects and listens: every message from here on is given out.
    ///
    /// # Errors
    /// Why that cannot be, without secrets.
    pub(super) async fn listen(&self) -> Result<EventListener, String> {
        Ok(match &self.address {
            SourceAddress::Postgres(address) => {
                EventListener::Postgres(Box::new(postgres::listen(address, &self.channel, self.heartbeat).await?))
            }
            SourceAddress::Redis(server) => {
                EventListener::Redis(Box::new(redis::listen(server, &self.channel, self.heartbeat).await?))
            }
        })
    }
}

impl EventListener {
    /// The next message.
    ///
    /// # Errors
    /// Why there is none any more.
    pub(super) async fn next(&mut self) -> Result<Vec<u8>, String> {
        match self {
            EventListener::Postgres(listener) => listener.next().await,
            EventListener::Redis(listener) => listener.next().await,
        }
    }
}
