//! The PostgreSQL of the experiment: its schema, its rows, and whether they are right afterwards.

use std::time::Duration;

use crocodile_pear_demo::postgres::{Failure, Postgres};
use tokio_postgres::{Client, NoTls};

use crate::Result;
use crate::process;

/// The schema of the source; `create` and `delete` leave these rows alone.
const SCHEMA: &str = "create table items (id integer generated always as identity primary key, value boolean not null);
insert into items (value) select n % 2 = 0 from generate_series(1, 1000) n;";

/// Rows that are there from the beginning on.
pub const ROWS: u32 = 1_000;

/// Rows of the list.
const PAGE: u32 = 20;

pub struct Database {
    server: Postgres,
    client: Client,
}

/// The contents of the table, and the number of writes.
pub struct State {
    rows: i64,
    sum: i64,
    created: i64,
}

impl Database {
    /// Everything as it comes, besides what the clients need: every commit is on the disk before it is told.
    pub async fn start() -> Result<Self> {
        let settings = ["max_connections=120", "shared_buffers=128MB", "log_min_messages=fatal"];
        let server = Postgres::start(&settings).map_err(|failure| match failure {
            Failure::Missing => "there is no PostgreSQL; install it with: apt install postgresql".to_owned(),
            Failure::Failed(why) => format!("PostgreSQL does not start: {why}"),
        })?;
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(SCHEMA).await?;
        client.batch_execute("vacuum analyze items").await?;
        Ok(Self { server, client })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    pub fn id(&self) -> u32 {
        self.server.id()
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    pub fn folder(&self) -> &std::path::Path {
        self.server.folder()
    }

    pub async fn run(&self, sql: &str) -> Result<()> {
        Ok(self.client.batch_execute(sql).await?)
    }

    pub async fn update(&self, id: i32, value: bool) -> Result<()> {
        self.client.execute("update items set value = $2 where id = $1", &[&id, &value]).await?;
        Ok(())
    }

    /// CPU of all its processes.
    pub fn cpu(&self) -> Result<Duration> {
        process::cpu(self.server.id())
    }

    /// The answer of the list, to the byte.
    pub fn page(&self) -> Vec<u8> {
        let row = |id: u32| format!("{{\"id\":{id},\"value\":{}}}", id.is_multiple_of(2));
        format!("[{}]", (1..=PAGE).map(row).collect::<Vec<_>>().join(",")).into_bytes()
    }

    pub async fn state(&self) -> Result<State> {
        let sql = format!(
            "select count(*), sum(id) filter (where value and id <= {ROWS}), (select last_value from items_id_seq) from items"
        );
        let row = self.client.query_one(&sql, &[]).await?;
        Ok(State { rows: row.get(0), sum: row.get(1), created: row.get(2) })
    }

    /// In so many rounds a row was made and taken away again; those of the beginning are as they were. A round that failed has made a
    /// row or not, and may have left it there.
    pub async fn check(&self, before: &State, rounds: u64, failed: u64) -> Result<()> {
        let now = self.state().await?;
        let (left, created) = (now.rows - before.rows, now.created - before.created);
        let (rounds, failed) = (i64::try_from(rounds)?, i64::try_from(failed)?);
        let kept = (0..=failed).contains(&left) && now.sum == before.sum;
        match kept && (rounds - failed..=rounds).contains(&created) {
            true => Ok(()),
            false => Err(format!(
                "the table is wrong: {} rows of {}, {created} created in {rounds} rounds of which {failed} failed, sum {} of {}",
                now.rows, before.rows, now.sum, before.sum
            )
            .into()),
        }
    }

    /// The facts that one must know to judge the figures.
    pub async fn notes(&self) -> Result<Vec<String>> {
        let row = self
            .client
            .query_one("select version(), current_setting('fsync'), current_setting('synchronous_commit')", &[])
            .await?;
        let (version, fsync, commit): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let version = version.split(" on ").next().unwrap_or_default();
        Ok(vec![format!(
            "{version}, fsync {fsync}, synchronous_commit {commit}; {ROWS} rows beside those that come and go."
        )])
    }
}
