//! A database, as it is written.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use serde_json::json;

use crate::choice;
use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, Field, Json, Located, Node, Secret, Timeout, defaults, only};
use crate::resilience::breaker::BreakerSpec;
use crate::spec;

/// The default number of connections, which a small server bears beside its other clients.
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(16).expect("more than none");

spec! {
    /// A PostgreSQL database for `sql`. Short form: the URL.
    pub struct DatabaseSpec {
        /// The URL: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. `?sslmode=` may be `disable`, `prefer`, `require`
        /// or `verify-full`, as for `psql`. Several hosts are tried in order: `HOST1:PORT1,HOST2:PORT2`. With
        /// `?target_session_attrs=read-write`, the gateway uses the one that accepts writes; the other words are
        /// `read-only`, `primary`, `standby` and `prefer-standby`, as for `psql`.
        pub url: Located<Secret>,
        /// The replicas, each a URL like `url`, at most 16. `sql` with `read_only: true` runs on the replicas in
        /// turn, or on the server of `url` if no replica can be reached. A replica may not have the latest writes
        /// yet.
        pub replicas: Vec<Located<Secret>> = Vec::new(),
        /// A PEM file with the CAs to trust, for `sslmode=require` and `verify-full`. Default: the public CAs.
        pub ca: Option<Located<String>>,
        /// The maximum number of connections, over all threads. They are opened when they are needed, and kept. Each
        /// replica has its own connections, up to the same number; so have statements with `read_only` that run on
        /// the server of `url`.
        pub connections: NonZeroUsize = CONNECTIONS,
        /// How long a statement waits for a free connection. After that it fails with 503.
        pub wait: Duration = Duration::from_secs(3),
        /// The maximum number of statements that wait for a connection. Further statements fail with 503 at once.
        pub waiting: usize = 4096,
        /// How statements are sent.
        pub statements: Statements = Statements::Auto,
        /// Timeout to connect to one host, with all handshakes. If there are several hosts and one does not answer
        /// within 250 ms, the next one is tried at the same time; the one that answered last is tried first. If
        /// connecting takes more than 100 ms, the statement also takes a connection that becomes free.
        pub connect: Duration = Duration::from_secs(3),
        /// Timeout of a statement until its answer begins, including the wait for a connection. Also the maximum
        /// pause of the server between two rows, while the client waits. After a timeout the gateway asks the server
        /// to cancel the statement, and it fails with 504.
        pub timeout: Timeout = Timeout::After(Duration::from_secs(30)),
        /// Circuit breaker: when a failing database gets no statements for a while. On by default, with `open: 1s` and
        /// `probes: 1`; `off` switches it off.
        pub breaker: DatabaseBreaker = DatabaseBreaker::usual(),
    }
    short(short)
}

choice! {
    /// How statements are sent.
    pub enum Statements {
        /// `unnamed` if a pooler is in front of the database, which the gateway finds out; `named` if not.
        Auto = "auto",
        /// Prepared once a connection, which is fastest.
        Named = "named",
        /// Prepared where they run, each time; also through a connection pooler in transaction mode, such as PgBouncer.
        Unnamed = "unnamed",
    }
}

/// The circuit breaker of a database.
#[derive(Clone, Debug)]
pub enum DatabaseBreaker {
    /// There is none.
    Off,
    /// With these rules.
    On(BreakerSpec),
}

impl DatabaseBreaker {
    /// The rules where none are written: a database that is there again is asked soon.
    fn usual() -> Self {
        DatabaseBreaker::On(BreakerSpec { open: Duration::from_secs(1), probes: NonZeroU32::MIN, ..defaults() })
    }

    /// The rules, if there is a breaker.
    pub fn rules(&self) -> Option<&BreakerSpec> {
        match self {
            DatabaseBreaker::Off => None,
            DatabaseBreaker::On(rules) => Some(rules),
        }
    }
}

impl Decode for DatabaseBreaker {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_text().as_ref().map(Located::as_str) {
            Some("off" | "false") => Some(DatabaseBreaker::Off),
            Some("on" | "true") => Some(DatabaseBreaker::usual()),
            Some(_) => {
                node.wrong("`on`, `off` or a map", "write `breaker: off`, or `breaker: { failures: 5 }`", problems)
            }
            None => BreakerSpec::decode(node, problems).map(DatabaseBreaker::On),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        json!({"anyOf": [{"enum": ["on", "off", true, false]}, BreakerSpec::schema(definitions)]})
    }

    fn fields() -> Vec<Field> {
        BreakerSpec::fields()
    }
}

fn short(url: Located<String>, problems: &mut Problems) -> Option<DatabaseSpec> {
    only([("url", url)], problems)
}
