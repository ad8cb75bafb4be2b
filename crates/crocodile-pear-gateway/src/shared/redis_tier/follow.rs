//! The purges of the other gateways, from the log that they share. Each has a number: one that is missing is noticed, and counts as a
//! purge of everything.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::cache::{self, Purge, PurgeMode, PurgeStamp};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::connection::AGAIN;
use super::shared::{LOG, PURGES, eval, parse};
use super::{outbox, scripts};
use crate::shared::purge_log::{self, Heard, PurgeLog};
use crate::shared::redis::RedisServer;

/// So long the store waits for a purge before it says that there was none.
const BLOCK: Duration = Duration::from_millis(1000);

/// Without a word for so long, it is out of reach.
const SILENCE: Duration = Duration::from_millis(1500);

/// The task that listens to the store.
pub(super) struct Follower {
    pub server: RedisServer,
    pub cache: Arc<cache::Store>,
    pub purge_log: Arc<PurgeLog>,
}

/// While this lives, the store is out of reach.
struct Suspended(Arc<cache::Store>);

impl Suspended {
    fn new(cache: &Arc<cache::Store>) -> Self {
        cache.suspend();
        Suspended(cache.clone())
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        self.0.resume();
    }
}

/// A line of the stream: its place, and its fields.
type Line = (String, HashMap<String, String>);

/// The new lines, by stream.
type StreamReply = Option<Vec<(String, Vec<Line>)>>;

impl Follower {
    /// Listens, and connects again whenever that fails.
    pub async fn run(self) {
        let mut suspended = Some(Suspended::new(&self.cache));
        loop {
            let error = match self.listen(&mut suspended).await {
                Ok(never) => match never {},
                Err(error) => error,
            };
            if suspended.is_none() {
                tracing::warn!(%error, "cannot receive the purges of other gateways; answers with tags count as stale");
                suspended = Some(Suspended::new(&self.cache));
            }
            sleep(AGAIN).await;
        }
    }

    async fn listen(&self, suspended: &mut Option<Suspended>) -> redis::RedisResult<std::convert::Infallible> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(SILENCE));
        let connected = timeout(SILENCE, self.server.connect(config)).await;
        let mut connection = connected.unwrap_or_else(|late| Err(std::io::Error::from(late).into()))?;
        let mut hello = self.greet(&mut connection).await?;
        loop {
            // Everything up to what the greeting said has been heard: nothing was missed.
            if self.purge_log.heard().stamp == hello.stamp && suspended.take().is_some() {
                tracing::debug!("purges of other gateways are heard");
            }
            let mut read = redis::cmd("XREAD");
            read.arg("COUNT").arg(100).arg("BLOCK").arg(BLOCK.as_millis() as u64);
            read.arg("STREAMS").arg(LOG).arg(&self.purge_log.heard().place);
            let reply: StreamReply = read.query_async(&mut connection).await?;
            let lines: Vec<Line> = reply.into_iter().flatten().flat_map(|(_, lines)| lines).collect();
            if lines.is_empty() {
                hello = self.greet(&mut connection).await?;
            }
            lines.into_iter().for_each(|line| self.hear(line));
        }
    }

    /// Asks where the store is. What this gateway has not heard, and cannot hear any more, is purged.
    async fn greet(&self, connection: &mut MultiplexedConnection) -> redis::RedisResult<Heard> {
        let mut command = eval(scripts::HELLO);
        command.arg(2).arg(PURGES).arg(LOG).arg(purge_log::number());
        let (life, number, place): (String, String, String) = command.query_async(connection).await?;
        let stamp = parse(life.as_bytes()).zip(parse(number.as_bytes()));
        let (life, number) = stamp.ok_or_else(|| std::io::Error::other("the store has other data under our names"))?;
        let now = Heard { stamp: PurgeStamp { life, number }, place };
        self.purge_log.learn(now.stamp);
        let heard = self.purge_log.heard();
        // Where the log was lost, or its numbers began anew, nobody will tell what it said.
        let lost = heard.stamp.number != number && order(&now.place) <= order(&heard.place);
        if heard.stamp.life != now.stamp.life || lost {
            self.begin(now.clone(), heard);
        }
        Ok(now)
    }

    /// Begins to listen from here on.
    fn begin(&self, now: Heard, heard: Heard) {
        if heard != Heard::default() || self.cache.counters().insertions > 0 {
            tracing::info!("purges of other gateways may have been missed; everything cached is validated again");
            self.cache.purge_here(&Purge::All, PurgeMode::Soft);
        }
        self.purge_log.set_heard(now);
    }

    fn hear(&self, (place, fields): Line) {
        let number = |name: &str| fields.get(name).and_then(|text| parse(text.as_bytes()));
        let stamp = PurgeStamp { life: number("life").unwrap_or(0), number: number("number").unwrap_or(0) };
        let before = self.purge_log.heard().stamp;
        let follows = before.life == stamp.life && before.number + 1 == stamp.number;
        let purge = fields.get("what").and_then(|what| outbox::read(what));
        match purge {
            _ if !follows => self.cache.purge_here(&Purge::All, PurgeMode::Soft),
            _ if number("by") == Some(self.purge_log.id) => {}
            Some((purge, mode)) => self.cache.purge_here(&purge, mode),
            // Of a later version of the gateway.
            None => self.cache.purge_here(&Purge::All, PurgeMode::Soft),
        }
        // After the purge: what is fetched from here on is newer.
        self.purge_log.learn(stamp);
        self.purge_log.set_heard(Heard { stamp, place });
    }
}

/// A place in the log, to be compared.
fn order(place: &str) -> Option<(u64, u64)> {
    let (time, number) = place.split_once('-')?;
    Some((time.parse().ok()?, number.parse().ok()?))
}
