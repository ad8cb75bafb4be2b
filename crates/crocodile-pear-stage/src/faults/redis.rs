//! Redis: away, frozen, full, read-only, garbled. Limits and caches work without it.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Ask, Config, Fault, FaultScene, Meanwhile, Staged, UNNOTICED};
use crate::gateway::Gateway;
use crate::redis::{Redis, run};
use crate::relay::{Relay, Way};
use crate::until;

/// How soon a store that is there again is used.
const SOON: Duration = Duration::from_secs(4);

/// A fault that no client notices, with what the log says.
const fn unnoticed(name: &'static str, told: &'static str, set: fn(&str) -> Option<Box<dyn FaultScene>>) -> Fault {
    Fault { name, meanwhile: UNNOTICED, whole: SOON, told, short: false, set }
}

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        short: true,
        ..unnoticed("redis/killed", "the store is unavailable", |letter| {
            limited(letter, "", |own, _| own.redis.kill(), |own, _| own.redis.restart())
        })
    },
    unnoticed("redis/terminated", "the store is unavailable", |letter| {
        limited(letter, "", |own, _| own.redis.terminate(), |own, _| own.redis.restart())
    }),
    unnoticed("redis/frozen", "it does not answer in time", |letter| {
        limited(letter, "", |own, _| own.redis.signal("STOP"), |own, _| own.redis.signal("CONT"))
    }),
    unnoticed("redis/paused", "it does not answer in time", |letter| {
        limited(letter, "", |own, _| own.say(&["CLIENT", "PAUSE", "1000", "ALL"]), |_, _| {})
    }),
    unnoticed("redis/out_of_memory", "out of memory (OOM)", |letter| {
        limited(
            letter,
            "",
            |own, _| own.say(&["CONFIG", "SET", "maxmemory", "1"]),
            |own, _| own.say(&["CONFIG", "SET", "maxmemory", "0"]),
        )
    }),
    unnoticed("redis/read_only", "read-only replica (READONLY)", |letter| {
        limited(
            letter,
            "",
            |own, _| own.say(&["REPLICAOF", "127.0.0.1", "1"]),
            |own, _| own.say(&["REPLICAOF", "NO", "ONE"]),
        )
    }),
    unnoticed("redis/password", "it needs a password (NOAUTH)", |letter| {
        limited(
            letter,
            "",
            |own, _| {
                own.say(&["CONFIG", "SET", "requirepass", "new"]);
                own.redis.run_all(&[&["AUTH", "new"], &["CLIENT", "KILL", "TYPE", "normal"]]);
            },
            |own, _| own.redis.run_all(&[&["AUTH", "new"], &["CONFIG", "SET", "requirepass", ""]]),
        )
    }),
    unnoticed("redis/connections_cut", "", |letter| {
        limited(letter, "", |own, _| own.say(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]), |_, _| {})
    }),
    unnoticed("redis/flushed", "", |letter| limited(letter, "", |own, _| own.say(&["FLUSHALL"]), |_, _| {})),
    unnoticed("redis/slow", "it does not answer in time", |letter| {
        limited(
            letter,
            "",
            |own, _| own.relay.set(Way::Slow(Duration::from_millis(100))),
            |own, _| own.relay.set(Way::Open),
        )
    }),
    unnoticed("redis/silent", "it does not answer in time", |letter| {
        limited(letter, "", |own, _| own.relay.set(Way::Silent), |own, _| own.relay.set(Way::Open))
    }),
    unnoticed("redis/reset", "the store is unavailable", |letter| {
        limited(letter, "", |own, _| own.relay.set(Way::Reset), |own, _| own.relay.set(Way::Open))
    }),
    unnoticed("redis/garbage", "the store is unavailable", |letter| {
        limited(letter, "", |own, _| own.relay.set(Way::Garbage), |own, _| own.relay.set(Way::Open))
    }),
    Fault {
        meanwhile: Meanwhile { statuses: &[503], right: 0, ..UNNOTICED },
        ..unnoticed("redis/killed_and_limits_closed", "the store is unavailable", |letter| {
            limited(letter, ", while_away: closed", |own, _| own.redis.kill(), |own, _| own.redis.restart())
        })
    },
];

/// Redis, and the way to it.
struct Own {
    redis: Redis,
    relay: Relay,
}

impl Own {
    /// Runs a command, however often that takes.
    fn say(&self, words: &[&str]) {
        until("Redis does it", || run(self.redis.port, words).is_some_and(|said| !said.starts_with('-')));
    }
}

/// A limit that gateways share, and a cache.
fn limited(
    letter: &str,
    settings: &str,
    strike: fn(&mut Own, &Gateway),
    mend: fn(&mut Own, &Gateway),
) -> Option<Box<dyn FaultScene>> {
    let redis = Redis::start()?;
    let relay = Relay::to(SocketAddr::from(([127, 0, 0, 1], redis.port)));
    let own = letter.to_owned();
    let config = Config {
        document: format!("store: {{ redis: 'redis://{}'{settings} }}\n", relay.address),
        endpoints: format!(
            "  GET /{letter}/{{n}}:\n    rate_limit: {{ rate: 100000/1s, by: $path.n }}\n    \
             pipeline: [respond: {{ body: '$path.n' }}]\n  GET /{letter}/kept/{{n}}:\n    cache: 60s\n    \
             pipeline: [respond: {{ body: '$path.n' }}]\n"
        ),
        ..Config::default()
    };
    // One of four is from the cache, which gateways share too.
    let ask = move |number: u64| match number % 4 {
        0 => Ask::get(format!("/{own}/kept/{}", number % 20), format!("\"{}\"", number % 20)),
        _ => Ask::get(format!("/{own}/{number}"), format!("\"{number}\"")),
    };
    Some(Box::new(Staged { servers: Own { redis, relay }, config, ask: Box::new(ask), strike, mend }))
}
