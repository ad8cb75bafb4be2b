//! PostgreSQL: away, frozen, full, replaced.

use std::time::Duration;

use super::{Ask, Config, Fault, Meanwhile, Scenery};
use crate::database::Database;
use crate::gateway::Gateway;

const SECOND: Duration = Duration::from_secs(1);

/// The faults of PostgreSQL.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "postgresql/killed",
        meanwhile: Meanwhile { statuses: &[503], within: SECOND, right: 0 },
        whole: Duration::from_secs(7),
        told: "cannot connect to the database",
        short: true,
        set: |letter| One::set(letter, "", Database::kill, Database::restart),
    },
    Fault {
        name: "postgresql/stopped",
        meanwhile: Meanwhile { statuses: &[503], within: SECOND, right: 0 },
        whole: Duration::from_secs(7),
        told: "cannot connect to the database",
        short: false,
        set: |letter| One::set(letter, "", Database::stop, Database::restart),
    },
];

/// One server with a table, and a gateway that reads and writes.
struct One {
    letter: String,
    settings: &'static str,
    database: Database,
    strike: fn(&mut Database),
    mend: fn(&mut Database),
}

impl One {
    fn set(
        letter: &str,
        settings: &'static str,
        strike: fn(&mut Database),
        mend: fn(&mut Database),
    ) -> Option<Box<dyn Scenery>> {
        let database = Database::start()?;
        database.connect().run("create table written (n bigint not null)").unwrap();
        Some(Box::new(One { letter: letter.to_owned(), settings, database, strike, mend }))
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

impl Scenery for One {
    fn config(&self) -> Config {
        let (letter, url, settings) = (&self.letter, self.database.url(), self.settings);
        Config {
            databases: format!("  {letter}: {{ url: '{url}'{settings} }}\n"),
            endpoints: endpoints(letter),
            ..Config::default()
        }
    }

    fn ask(&self, number: u64) -> Ask {
        ask(&self.letter, number)
    }

    fn strike(&mut self, _: &Gateway) {
        (self.strike)(&mut self.database);
    }

    fn mend(&mut self, _: &Gateway) {
        (self.mend)(&mut self.database);
    }

    fn check(&mut self, right: &[u64]) -> Result<(), String> {
        check(&self.database, right)
    }
}
