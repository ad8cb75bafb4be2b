//! `pgbench` with the same statements over the same number of connections: what this machine can do without a server in between.

use std::process::{Command, Stdio};
use std::time::Duration;

use crocodile_pear_demo::postgres;

use super::database::{Database, ROWS};
use super::drive::CALLS;
use crate::Result;

const FIVE: &str = "\
insert into items (value) values (true) returning id \\gset
select id, value from items order by id limit 20;
select id, value from items where id = :id;
update items set value = false where id = :id returning id, value;
delete from items where id = :id returning id, value;
";

pub fn find() -> Result<std::path::PathBuf> {
    let beside = postgres::programs().map(|folder| folder.join("pgbench")).filter(|program| program.exists());
    Ok(beside.ok_or("not installed; it comes with: apt install postgresql")?)
}

/// Statements in a second, of the five in turn.
pub async fn five(database: &Database, connections: u32, seconds: Duration) -> Result<f64> {
    Ok(run(database, FIVE, connections, seconds).await? * f64::from(CALLS))
}

/// Statements in a second: one row of those that are there.
pub async fn get(database: &Database, connections: u32, seconds: Duration) -> Result<f64> {
    let script = format!("\\set id random(1, {ROWS})\nselect id, value from items where id = :id;\n");
    run(database, &script, connections, seconds).await
}

async fn run(database: &Database, script: &str, connections: u32, seconds: Duration) -> Result<f64> {
    let file = database.folder().join("script.sql");
    std::fs::write(&file, script)?;
    let cores = std::thread::available_parallelism()?;
    let mut command = Command::new(find()?);
    command.args(["-n", "-M", "prepared", "-h", "127.0.0.1", "-U", "postgres"]);
    command.args(["-p", &database.port().to_string(), "-c", &connections.to_string(), "-j", &cores.to_string()]);
    command.args(["-T", &seconds.as_secs().to_string()]).arg("-f").arg(file).arg("postgres").stdin(Stdio::null());
    // Beside the connection of the bench, which must go on.
    let (told, heard) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || drop(told.send(command.output())));
    let told = heard.await??;
    let text = String::from_utf8_lossy(&told.stdout);
    let figure = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    Ok(figure.ok_or_else(|| format!("pgbench: {}", String::from_utf8_lossy(&told.stderr)))?)
}
