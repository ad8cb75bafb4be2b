//! A database, as it is written.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::problem::Problems;
use crate::spec;
use crate::spec::{Located, Secret, Timeout, only};
use crate::upstream::BreakerSpec;

/// As many as a small server bears beside its other clients.
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(16).expect("more than none");

spec! {
    /// A PostgreSQL database for `sql`. Written short as its URL.
    pub struct DatabaseSpec {
        /// Where it is: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. `?sslmode=` may be `disable`, `prefer`, `require` or
        /// `verify-full`, as for `psql`. Several hosts are tried in order, `HOST1:PORT1,HOST2:PORT2`; with
        /// `?target_session_attrs=read-write`, the one that takes changes is used.
        pub url: Located<Secret>,
        /// Replicas, each as a URL like `url`, at most 16. `sql` with `read_only: true` runs on one of them, in turn; on the one
        /// of `url`, where none of them can be reached. What a replica answers may be older than what was just written.
        pub replicas: Vec<Located<Secret>> = Vec::new(),
        /// A file with the authorities to trust, as PEM, for `sslmode=require` and `verify-full`, instead of the public ones.
        pub ca: Option<Located<String>>,
        /// The most connections, over all threads. They are opened as they are needed, and kept. Each replica has as many of its
        /// own, and so have statements with `read_only` that run on the one of `url`.
        pub connections: NonZeroUsize = CONNECTIONS,
        /// How long a statement waits for a connection that is free. Then it fails with 503.
        pub wait: Duration = Duration::from_secs(3),
        /// The most statements that wait for a connection. A further one fails with 503 at once.
        pub waiting: usize = 4096,
        /// How long connecting may take, with all handshakes.
        pub connect: Duration = Duration::from_secs(3),
        /// How long a statement may take until its answer begins, with the wait for a connection; and how long the server may be
        /// silent between two rows while the client waits. Then the server is asked to stop it, and it fails with 504.
        pub timeout: Timeout = Timeout::After(Duration::from_secs(30)),
        /// Circuit breaker: when a database that fails is asked nothing for a while. Off by default.
        pub breaker: Option<BreakerSpec>,
    }
    short(short)
}

fn short(url: Located<String>, problems: &mut Problems) -> Option<DatabaseSpec> {
    only([("url", url)], problems)
}
