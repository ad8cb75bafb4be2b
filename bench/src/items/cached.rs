//! `get` with the endpoint's cache and a trigger that purges it: what it costs, and that nothing old is given out.

use std::path::Path;
use std::time::{Duration, Instant};

use super::cases::{COMPARED, PATH};
use super::database::Database;
use super::drive;
use crate::client::Connection;
use crate::process::{Process, free_address};
use crate::report::median;
use crate::{Result, load, product};

/// Rows that are changed, one after the other.
const CHANGES: i32 = 300;
/// Reads that follow each change: none of them may be old.
const READS: u32 = 20;
/// A change is seen within this, or the run ends.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Cached {
    /// Requests/s, and microseconds of CPU for one.
    pub own: (f64, f64),
    /// The same for answers that are kept without a database.
    pub hit: (f64, f64),
    /// Milliseconds from the commit to the new row: the median, and the most.
    pub fresh: (f64, f64),
    /// Answers that were old after a new one.
    pub old: u32,
}

pub async fn measure(binary: &Path, database: &Database, connections: u32, seconds: Duration) -> Result<Cached> {
    eprintln!("get with cache and trigger");
    let trigger =
        std::process::Command::new(binary).args(["events", "postgres", "items", "--column", "id"]).output()?;
    database.run(std::str::from_utf8(&trigger.stdout)?).await?;
    let admin = free_address()?;
    let gateway =
        product::start(binary, "cached", |listen| product::cached(listen, admin, &database.url(), connections))?;
    listens(admin).await?;
    let own = kept(&gateway, PATH, seconds).await?;
    let hit = kept(&gateway, "/hit", seconds).await?;
    let mut connection = Connection::open(gateway.address).await?;
    let (mut delays, mut old) = (Vec::new(), 0);
    for id in 1..=CHANGES {
        let value = id % 2 != 0;
        let (request, wanted) =
            (load::get(&format!("/api/items/{id}"), "items"), format!("{{\"id\":{id},\"value\":{value}}}"));
        connection.exchange(&request).await?;
        database.update(id, value).await?;
        let committed = Instant::now();
        while connection.exchange(&request).await?.body != wanted.as_bytes() {
            if committed.elapsed() > PATIENCE {
                return Err(format!("row {id} is old {PATIENCE:?} after its change").into());
            }
        }
        delays.push(committed.elapsed().as_secs_f64() * 1e3);
        for _ in 0..READS {
            old += u32::from(connection.exchange(&request).await?.body != wanted.as_bytes());
        }
    }
    let most = delays.iter().copied().fold(0.0, f64::max);
    Ok(Cached { own, hit, fresh: (median(delays), most), old })
}

/// Requests/s and microseconds of CPU for one, where all answers are kept.
async fn kept(gateway: &Process, path: &'static str, seconds: Duration) -> Result<(f64, f64)> {
    // Every row once.
    drive::gets(gateway.address, path, COMPARED, Duration::from_secs(1)).await?;
    let before = gateway.cpu()?;
    let outcome = drive::gets(gateway.address, path, COMPARED, seconds).await?;
    if let Some(why) = outcome.why {
        return Err(why.into());
    }
    let cpu = (gateway.cpu()? - before).as_secs_f64() * 1e6 / outcome.latencies.len().max(1) as f64;
    Ok((outcome.per_second(), cpu))
}

/// Waits until the gateway hears the trigger.
async fn listens(admin: std::net::SocketAddr) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let answer = Connection::open(admin).await?.exchange(&load::get("/metrics", &admin.to_string())).await?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        if text.lines().any(|line| line.starts_with("crocodile_pear_events_up{") && line.ends_with(" 1")) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err("the gateway does not listen to the trigger".into())
}
