//! PostgreSQL: away, frozen, full, changed; with other hosts, a replica, a pooler in front of it.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Ask, Config, Fault, FaultScene, Meanwhile};
use crate::bouncer::Bouncer;
use crate::database::{Database, Session};
use crate::gateway::Gateway;
use crate::relay::{Relay, Way};

const SECOND: Duration = Duration::from_secs(1);

/// Reads and writes fail at once.
const AWAY: Meanwhile = Meanwhile { statuses: &[503], within: SECOND, right: 0 };

/// They fail after `wait` or `timeout` of `SHORT`.
const SILENT: Meanwhile = Meanwhile { statuses: &[503, 504], within: Duration::from_secs(2), right: 0 };

/// Only some are right, such as all reads.
const fn some(statuses: &'static [u16], right: u32) -> Meanwhile {
    Meanwhile { statuses, within: Duration::from_secs(2), right }
}

/// Times that a fault of the table is not waited for longer than.
const SHORT: &str = ", wait: 500ms, timeout: 1s, connect: 500ms";

const fn fault(
    name: &'static str,
    meanwhile: Meanwhile,
    told: &'static str,
    set: fn(&str) -> Option<Box<dyn FaultScene>>,
) -> Fault {
    Fault { name, meanwhile, whole: Duration::from_secs(7), told, short: false, set }
}

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        short: true,
        ..fault("postgresql/killed", AWAY, "cannot connect to the database", |letter| {
            One::set(letter, "", |one| one.database.kill(), |one| one.database.restart())
        })
    },
    fault("postgresql/stopped", AWAY, "cannot connect to the database", |letter| {
        One::set(letter, "", |one| one.database.stop(), |one| one.database.restart())
    }),
    Fault {
        short: true,
        ..fault("postgresql/frozen", SILENT, "circuit breaker opened", |letter| {
            One::set(letter, SHORT, |one| one.database.signal("STOP"), |one| one.database.signal("CONT"))
        })
    },
    fault("postgresql/sessions_ended", some(&[503], 80), "", |letter| {
        One::set(letter, "", |one| one.run(END_SESSIONS), |_| {})
    }),
    fault("postgresql/process_crashed", AWAY, "", |letter| One::set(letter, "", One::crash, |_| {})),
    fault("postgresql/connections_used_up", some(&[503], 50), "", |letter| {
        One::set(letter, "", One::use_up, |one| one.sessions.clear())
    }),
    fault("postgresql/read_only", some(&[503], 45), "the database cannot serve", |letter| {
        One::set(
            letter,
            "",
            |one| one.alter("default_transaction_read_only = on"),
            |one| one.alter("default_transaction_read_only = off"),
        )
    }),
    fault("postgresql/table_locked", some(&[503, 504], 0), "", |letter| {
        let lock = |one: &mut One| {
            one.session.run("begin; lock table written in access exclusive mode").unwrap();
        };
        One::set(letter, SHORT, lock, |one| one.run("rollback"))
    }),
    fault("postgresql/table_gone", some(&[500], 45), "a statement failed", |letter| {
        One::set(
            letter,
            "",
            |one| one.run("alter table written rename to gone"),
            |one| one.run("alter table gone rename to written"),
        )
    }),
    fault("postgresql/column_of_another_type", some(&[500, 503], 45), "", |letter| {
        One::set(
            letter,
            "",
            |one| one.run("alter table written alter n type int"),
            |one| one.run("alter table written alter n type bigint"),
        )
    }),
    fault("postgresql/right_taken_away", some(&[500], 45), "a statement failed", |letter| {
        One::set(
            letter,
            "",
            |one| one.run(REFUSE),
            |one| one.run("drop trigger refuse on written; drop function refuse"),
        )
    }),
    fault("postgresql/way_silent", SILENT, "circuit breaker opened", |letter| {
        One::by_relay(letter, SHORT, |one| one.relay.set(Way::Silent), |one| one.relay.set(Way::Open))
    }),
    fault("postgresql/way_reset", AWAY, "cannot connect to the database", |letter| {
        One::by_relay(letter, SHORT, |one| one.relay.set(Way::Reset), |one| one.relay.set(Way::Open))
    }),
    fault("postgresql/way_slow", some(&[], 100), "", |letter| {
        One::by_relay(
            letter,
            "",
            |one| one.relay.set(Way::Slow(Duration::from_millis(10))),
            |one| one.relay.set(Way::Open),
        )
    }),
    fault("postgresql/way_garbled", some(&[502, 503], 0), "cannot connect to the database", |letter| {
        One::by_relay(letter, SHORT, |one| one.relay.set(Way::Garbage), |one| one.relay.set(Way::Open))
    }),
    fault("postgresql/first_host_silent", some(&[503, 504], 20), "", |letter| {
        One::first_host(letter, |one| one.relay.set(Way::Silent))
    }),
    fault("postgresql/first_host_reset", some(&[503], 80), "", |letter| {
        One::first_host(letter, |one| one.relay.set(Way::Reset))
    }),
    Fault {
        short: true,
        ..fault("postgresql/replica_silent", some(&[], 100), "the database server does not answer", |letter| {
            One::replica(letter, |one| one.relay.set(Way::Silent))
        })
    },
    fault("postgresql/replica_reset", some(&[], 100), "", |letter| {
        One::replica(letter, |one| one.relay.set(Way::Reset))
    }),
    fault("postgresql/replica_garbled", some(&[502], 95), "", |letter| {
        One::replica(letter, |one| one.relay.set(Way::Garbage))
    }),
    fault("postgresql/pooler_killed", AWAY, "cannot connect to the database", |letter| {
        One::pooled(letter, |one| one.pooler().kill(), |one| one.pooler().restart())
    }),
    fault("postgresql/pooler_frozen", SILENT, "circuit breaker opened", |letter| {
        One::pooled(letter, |one| one.pooler().signal("STOP"), |one| one.pooler().signal("CONT"))
    }),
    // PgBouncer itself waits for 15 s until it tries a server again (`server_login_retry`).
    Fault {
        whole: Duration::from_secs(20),
        ..fault("postgresql/killed_behind_a_pooler", some(&[500, 503, 504], 0), "", |letter| {
            One::pooled(letter, |one| one.database.kill(), |one| one.database.restart())
        })
    },
];

const END_SESSIONS: &str = "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'";

const REFUSE: &str =
    "create function refuse() returns trigger language plpgsql as 'begin raise insufficient_privilege; end';
     create trigger refuse before insert on written for each row execute function refuse()";

/// A server with a table, and a gateway that reads and writes.
struct One {
    config: Config,
    letter: String,
    relay: Relay,
    session: Session,
    sessions: Vec<Session>,
    pooler: Option<Bouncer>,
    database: Database,
    strike: fn(&mut One),
    mend: fn(&mut One),
}

/// An entry of `databases`, which leads to the database.
type Entry<'a> = &'a dyn Fn(&Database, &Relay, Option<&Bouncer>) -> String;

/// The two acts of a fault: it breaks, and it heals.
type Blows = (fn(&mut One), fn(&mut One));

impl One {
    fn make(letter: &str, pooled: bool, entry: Entry<'_>, (strike, mend): Blows) -> Option<One> {
        let database = Database::start()?;
        let pooler = match pooled {
            true => Some(Bouncer::start(&database, "transaction")?),
            false => None,
        };
        let session = database.connect();
        session.run("create table written (n bigint not null)").unwrap();
        let relay = Relay::to(SocketAddr::from(([127, 0, 0, 1], database.port)));
        let config = Config {
            databases: format!("  {letter}: {{ {} }}\n", entry(&database, &relay, pooler.as_ref())),
            endpoints: endpoints(letter),
            ..Config::default()
        };
        let letter = letter.to_owned();
        Some(One { config, letter, relay, session, sessions: Vec::new(), pooler, database, strike, mend })
    }

    fn set(
        letter: &str,
        settings: &'static str,
        strike: fn(&mut One),
        mend: fn(&mut One),
    ) -> Option<Box<dyn FaultScene>> {
        let entry =
            |database: &Database, _: &Relay, _: Option<&Bouncer>| format!("url: '{}'{settings}", database.url());
        Some(Box::new(One::make(letter, false, &entry, (strike, mend))?))
    }

    /// By a way that can be broken.
    fn by_relay(
        letter: &str,
        settings: &'static str,
        strike: fn(&mut One),
        mend: fn(&mut One),
    ) -> Option<Box<dyn FaultScene>> {
        let entry = |database: &Database, relay: &Relay, _: Option<&Bouncer>| {
            format!("url: '{}'{settings}", database.by(relay))
        };
        Some(Box::new(One::make(letter, false, &entry, (strike, mend))?))
    }

    /// Two hosts, which lead to the same server.
    fn first_host(letter: &str, strike: fn(&mut One)) -> Option<Box<dyn FaultScene>> {
        let entry = |database: &Database, relay: &Relay, _: Option<&Bouncer>| {
            let own = format!("127.0.0.1:{}", database.port);
            format!("url: '{}'{SHORT}", database.url().replace(&own, &format!("{},{own}", relay.address)))
        };
        Some(Box::new(One::make(letter, false, &entry, (strike, |one| one.relay.set(Way::Open)))?))
    }

    /// The server, and the same once more as its replica. Only reads.
    fn replica(letter: &str, strike: fn(&mut One)) -> Option<Box<dyn FaultScene>> {
        let entry = |database: &Database, relay: &Relay, _: Option<&Bouncer>| {
            format!("url: '{}', replicas: ['{}']", database.url(), database.by(relay))
        };
        let mut one = One::make(letter, false, &entry, (strike, |one| one.relay.set(Way::Open)))?;
        let reads = one.config.endpoints.split("  POST").next().unwrap_or_default();
        one.config.endpoints = reads.replace("one: true", "one: true, read_only: true");
        Some(Box::new(Reads(one)))
    }

    fn pooled(letter: &str, strike: fn(&mut One), mend: fn(&mut One)) -> Option<Box<dyn FaultScene>> {
        let entry = |_: &Database, _: &Relay, pooler: Option<&Bouncer>| {
            format!("url: '{}'{SHORT}", pooler.map(Bouncer::url).unwrap_or_default())
        };
        Some(Box::new(One::make(letter, true, &entry, (strike, mend))?))
    }

    fn pooler(&mut self) -> &mut Bouncer {
        self.pooler.as_mut().expect("it was started")
    }

    fn run(&mut self, sql: &str) {
        self.session.run(sql).unwrap();
    }

    /// Sets what holds for all sessions; the server cannot do that within a transaction.
    fn alter(&mut self, setting: &str) {
        for sql in [
            "set default_transaction_read_only = off",
            &format!("alter system set {setting}"),
            "select pg_reload_conf()",
        ] {
            self.run(sql);
        }
    }

    /// Takes all connections that are left.
    fn use_up(&mut self) {
        while let Some(session) = self.database.try_connect() {
            self.sessions.push(session);
        }
    }

    /// Kills the process of a session: the server ends all others, and looks at what it has written.
    fn crash(&mut self) {
        let process = self.session.one("select pg_backend_pid()").unwrap();
        let killed = std::process::Command::new("sh").args(["-c", &format!("kill -s KILL {process}")]).status();
        assert!(killed.unwrap().success());
    }
}

/// Endpoints that read a row, and that write one.
pub(super) fn endpoints(letter: &str) -> String {
    format!(
        "  GET /{letter}/{{n}}:
    pipeline:
      - sql: {{ to: {letter}, query: 'select $1::bigint as n', values: ['$path.n | tonumber'], one: true }}
  POST /{letter}/{{n}}:
    pipeline:
      - sql: {{ to: {letter}, query: 'insert into written (n) values ($1) returning n', values: ['$path.n | tonumber'], one: true }}
"
    )
}

/// A read and a write in turn.
pub(super) fn ask(letter: &str, number: u64) -> Ask {
    let (target, wanted) = (format!("/{letter}/{number}"), format!("{{\"n\":{number}}}"));
    if number.is_multiple_of(2) { Ask::get(target, wanted) } else { Ask::post(target, wanted) }
}

/// Each write that was answered is there, and none is there twice.
pub(super) fn check(database: &Database, right: &[u64]) -> Result<(), String> {
    let session = database.connect();
    let twice = session.one("select count(*) from (select n from written group by n having count(*) > 1) as twice");
    if twice.as_deref() != Some("0") {
        return Err(format!("{twice:?} writes were done twice"));
    }
    let told: Vec<String> = right.iter().filter(|number| !number.is_multiple_of(2)).map(u64::to_string).collect();
    if told.is_empty() {
        return Ok(());
    }
    let lost = format!(
        "select count(*) from unnest(array[{}]::bigint[]) as told (n) where not exists (select from written where written.n = told.n)",
        told.join(",")
    );
    match session.one(&lost).as_deref() {
        Some("0") => Ok(()),
        lost => Err(format!("{lost:?} of {} writes that were answered are lost", told.len())),
    }
}

impl FaultScene for One {
    fn config(&self) -> Config {
        self.config.clone()
    }

    fn ask(&self, number: u64) -> Ask {
        ask(&self.letter, number)
    }

    fn strike(&mut self, _: &Gateway) {
        (self.strike)(self);
    }

    fn mend(&mut self, _: &Gateway) {
        (self.mend)(self);
    }

    fn check(&mut self, right: &[u64]) -> Result<(), String> {
        check(&self.database, right)
    }
}

/// The same without writes.
struct Reads(One);

impl FaultScene for Reads {
    fn config(&self) -> Config {
        self.0.config.clone()
    }

    fn ask(&self, number: u64) -> Ask {
        ask(&self.0.letter, number * 2)
    }

    fn strike(&mut self, _: &Gateway) {
        (self.0.strike)(&mut self.0);
    }

    fn mend(&mut self, _: &Gateway) {
        (self.0.mend)(&mut self.0);
    }
}
