//! Redis: away, frozen, full, read-only. Limits and caches work without it.

use std::time::Duration;

use super::{Ask, Config, Fault, Meanwhile, Scenery};
use crate::gateway::Gateway;
use crate::redis::Redis;

/// Nobody notices.
const UNNOTICED: Meanwhile = Meanwhile { statuses: &[], within: Duration::from_millis(500), right: 100 };

/// The faults of Redis.
pub(super) const FAULTS: &[Fault] = &[Fault {
    name: "redis/killed",
    meanwhile: UNNOTICED,
    whole: Duration::from_secs(3),
    told: "the store is unavailable",
    short: true,
    set: |letter| Limited::set(letter, Redis::kill, Redis::restart),
}];

/// A limit that gateways share.
struct Limited {
    letter: String,
    redis: Redis,
    strike: fn(&mut Redis),
    mend: fn(&mut Redis),
}

impl Limited {
    fn set(letter: &str, strike: fn(&mut Redis), mend: fn(&mut Redis)) -> Option<Box<dyn Scenery>> {
        Some(Box::new(Limited { letter: letter.to_owned(), redis: Redis::start()?, strike, mend }))
    }
}

impl Scenery for Limited {
    fn config(&self) -> Config {
        let (letter, port) = (&self.letter, self.redis.port);
        Config {
            document: format!("store: {{ redis: 'redis://127.0.0.1:{port}' }}\n"),
            endpoints: format!(
                "  GET /{letter}/{{n}}:\n    rate_limit: {{ rate: 100000/1s, by: $path.n }}\n    \
                 pipeline: [respond: {{ body: '$path.n' }}]\n"
            ),
            ..Config::default()
        }
    }

    fn ask(&self, number: u64) -> Ask {
        Ask::get(format!("/{}/{number}", self.letter), format!("\"{number}\""))
    }

    fn strike(&mut self, _: &Gateway) {
        (self.strike)(&mut self.redis);
    }

    fn mend(&mut self, _: &Gateway) {
        (self.mend)(&mut self.redis);
    }
}
