//! Data that is sent to the store in the background: purges, for certain and in order; answers, as long as it keeps up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crocodile_pear::unstable::cache::{self, Purge, PurgeMode, PurgeStamp};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::connection::AGAIN;
use super::scripts;
use super::shared::{BackgroundCommand, LOG, PURGES, eval, parse};
use crate::shared::purge_log::{self, PurgeLog, count};
use crate::shared::redis::RedisServer;

/// For one command: nobody waits for it.
const TIME: Duration = Duration::from_secs(1);

/// The task that sends the data.
pub(super) struct Outbox {
    pub server: RedisServer,
    pub cache: Arc<cache::Store>,
    pub purge_log: Arc<PurgeLog>,
    pub jobs: mpsc::Receiver<BackgroundCommand>,
    pub waiting: Arc<AtomicUsize>,
}

/// The data cannot be sent now.
struct Failed;

impl Outbox {
    /// Sends what there is, and connects again whenever that fails.
    pub async fn run(mut self) {
        loop {
            let connected = timeout(TIME, self.server.connect(AsyncConnectionConfig::new())).await;
            if let Ok(Ok(mut connection)) = connected {
                let _ = self.send(&mut connection).await;
            }
            self.drop_jobs();
            sleep(AGAIN).await;
        }
    }

    async fn send(&mut self, connection: &mut MultiplexedConnection) -> Result<(), Failed> {
        loop {
            while let Some(first) = self.purge_log.first() {
                self.purge(connection, &first).await?;
                self.purge_log.sent(&first);
            }
            tokio::select! {
                biased;
                () = self.purge_log.work.notified() => {}
                job = self.jobs.recv() => match job {
                    Some(job) => self.perform(connection, job).await?,
                    // The tier is gone: what is left is for the one after it.
                    None => std::future::pending().await,
                },
            }
        }
    }

    async fn purge(
        &self,
        connection: &mut MultiplexedConnection,
        (purge, mode): &(Purge, PurgeMode),
    ) -> Result<(), Failed> {
        let mut command = eval(scripts::PURGE);
        command.arg(2).arg(PURGES).arg(LOG).arg(purge_log::number()).arg(self.purge_log.id);
        command.arg(written(purge, *mode)).arg(if *mode == PurgeMode::Hard { "h" } else { "s" });
        command.arg(purge.name().map_or("*".to_owned(), |name| format!("{:016x}", name.number())));
        if let Purge::Prefix(prefix) = purge {
            command.arg(prefix);
        }
        let said: Vec<String> = query(connection, &command).await?;
        if let [life, number] = &*said
            && let Some(stamp) = parse(life.as_bytes()).zip(parse(number.as_bytes()))
            && !self.purge_log.learn(PurgeStamp { life: stamp.0, number: stamp.1 })
        {
            self.cache.purge_here(&Purge::All, PurgeMode::Soft);
        }
        Ok(())
    }

    async fn perform(&self, connection: &mut MultiplexedConnection, job: BackgroundCommand) -> Result<(), Failed> {
        let done = query::<i64>(connection, &job.command).await;
        self.waiting.fetch_sub(job.size, Ordering::Relaxed);
        if job.keeps {
            let counters = &self.purge_log.counters;
            count(if done.is_ok() { &counters.stored } else { &counters.dropped });
        }
        done.map(drop)
    }

    /// The store is away, and what waits would be old when it is back.
    fn drop_jobs(&mut self) {
        while let Ok(job) = self.jobs.try_recv() {
            self.waiting.fetch_sub(job.size, Ordering::Relaxed);
            if job.keeps {
                count(&self.purge_log.counters.dropped);
            }
        }
    }
}

async fn query<T: redis::FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &redis::Cmd,
) -> Result<T, Failed> {
    match timeout(TIME, command.query_async(connection)).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a command for the shared cache failed");
            Err(Failed)
        }
        Err(_) => Err(Failed),
    }
}

/// A purge as the other gateways read it.
fn written(purge: &Purge, mode: PurgeMode) -> String {
    let (key, value) = match purge {
        Purge::Url(url) => ("url", url.as_str()),
        Purge::Prefix(prefix) => ("prefix", prefix.as_str()),
        Purge::Tag(tag) => ("tag", tag.as_str()),
        Purge::All => ("all", ""),
    };
    let mode = if mode == PurgeMode::Hard { "hard" } else { "soft" };
    serde_json::json!({ key: value, "mode": mode }).to_string()
}

/// A purge of another gateway.
pub(super) fn read(text: &str) -> Option<(Purge, PurgeMode)> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let mode = if value["mode"] == "hard" { PurgeMode::Hard } else { PurgeMode::Soft };
    let of = |key: &str| value.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
    let purge = of("url").map(Purge::Url).or_else(|| of("prefix").map(Purge::Prefix));
    let purge = purge.or_else(|| of("tag").map(Purge::Tag)).or_else(|| of("all").map(|_| Purge::All))?;
    Some((purge, mode))
}

#[cfg(test)]
mod tests {
    use super::super::outbox::*;

    #[test]
    fn another_gateway_reads_what_is_written() {
        let purges = [
            Purge::Url("/a?b=\"c\"".into()),
            Purge::Prefix("http://h/".into()),
            Purge::Tag("item:1".into()),
            Purge::All,
        ];
        for purge in purges {
            for mode in [PurgeMode::Soft, PurgeMode::Hard] {
                assert_eq!(read(&written(&purge, mode)), Some((purge.clone(), mode)));
            }
        }
        assert_eq!(read("{}"), None);
    }
}
