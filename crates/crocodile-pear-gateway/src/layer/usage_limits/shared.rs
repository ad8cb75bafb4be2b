//! The same algorithm inside the store, for limits shared by several gateways: one call per request for all limits,
//! using the store's clock. The periods of quotas are by the gateway's clock.

use ring::digest;

use super::allowance::{Allowance, Clock};
use super::table::Left;
use crate::layer::limit_key::LimitKey;
use crate::shared::redis_tier::{Away, Store};

/// Times are in microseconds. They count from a day in 2023, so that numbers with a fraction stay exact. All limits are
/// checked before any of them is changed.
///
/// For each key: what one unit takes, the room, the units, and the milliseconds until its period ends, or 0 if it has none.
const TAKE: &str = "
local time = redis.call('TIME')
local clock = (time[1] - 1700000000) * 1000000 + time[2]
local aheads, answer, good = {}, {}, true
for i, key in ipairs(KEYS) do
  local unit, room, units = tonumber(ARGV[4 * i - 3]), tonumber(ARGV[4 * i - 2]), tonumber(ARGV[4 * i - 1])
  local now = tonumber(ARGV[4 * i]) > 0 and 0 or clock
  aheads[i] = math.max(0, (tonumber(redis.call('GET', key)) or 0) - now)
  local fits = aheads[i] + unit * math.max(units, 1) <= room + 0.5
  answer[2 * i - 1] = fits and 1 or 0
  good = good and fits
end
for i, key in ipairs(KEYS) do
  local unit, units, period = tonumber(ARGV[4 * i - 3]), tonumber(ARGV[4 * i - 1]), tonumber(ARGV[4 * i])
  if good and units > 0 then
    aheads[i] = aheads[i] + unit * units
    local now, life = clock, math.ceil(aheads[i] / 1000) + 1
    if period > 0 then now, life = 0, period end
    redis.call('SET', key, string.format('%.17g', now + aheads[i]), 'PX', life)
  end
  answer[2 * i] = math.ceil(aheads[i])
end
return answer
";

/// Takes units also beyond the limit; gives how far ahead the key was, and is. Arguments as above.
const CHARGE: &str = "
local time = redis.call('TIME')
local now = (time[1] - 1700000000) * 1000000 + time[2]
local unit, units, period = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
if period > 0 then now = 0 end
local before = math.max(0, (tonumber(redis.call('GET', KEYS[1])) or 0) - now)
local after = math.min(before + unit * units, 1000000000000000)
local life = math.ceil(after / 1000) + 1
if period > 0 then life = period end
redis.call('SET', KEYS[1], string.format('%.17g', now + after), 'PX', life)
return {math.ceil(before), math.ceil(after)}
";

/// The amount that is taken of one limit.
pub struct LimitUsage<'a> {
    /// Identifies the limit in all gateways.
    pub identity: &'a str,
    pub key: &'a LimitKey,
    pub allowance: Allowance,
    pub units: u64,
}

impl LimitUsage<'_> {
    /// The name of its key in the store. A key may contain a credential, so only its hash is sent.
    fn name(&self) -> String {
        let period = match self.allowance.clock {
            Clock::Steady(_) => String::new(),
            Clock::Period(period) => format!("\n{}", period.now().number),
        };
        let text = format!("{}\n{:?}{period}", self.identity, self.key);
        let hash = digest::digest(&digest::SHA256, text.as_bytes());
        let digits: String = hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("crocodile-pear:rate:{digits}")
    }

    fn arguments(&self) -> [String; 4] {
        let pace = self.allowance.pace;
        let units = self.units.to_string();
        match self.allowance.clock {
            Clock::Steady(_) => [microseconds(pace.interval), microseconds(pace.room), units, "0".to_owned()],
            Clock::Period(period) => {
                let left = period.now().left * 1000;
                [pace.interval.to_string(), pace.room.to_string(), units, left.to_string()]
            }
        }
    }

    /// A distance in the store, on the clock of its keys.
    fn ahead(&self, told: i64) -> u64 {
        let told = u64::try_from(told).unwrap_or(0);
        match self.allowance.clock {
            Clock::Steady(_) => told.saturating_mul(1000),
            Clock::Period(_) => told,
        }
    }
}

/// Takes the units of all these limits, or of none.
///
/// # Errors
/// If the store is away.
pub async fn take(store: &Store, usages: &[LimitUsage<'_>]) -> Result<Vec<Result<Left, Left>>, Away> {
    let keys: Vec<String> = usages.iter().map(LimitUsage::name).collect();
    let arguments: Vec<String> = usages.iter().flat_map(LimitUsage::arguments).collect();
    let answer = store.run(TAKE, &keys, &arguments).await?;
    if answer.len() != 2 * usages.len() {
        return Err(Away);
    }
    let state = |(usage, answer): (&LimitUsage<'_>, &[i64])| {
        let left = usage.allowance.pace.left(usage.ahead(answer[1]));
        if answer[0] == 1 { Ok(left) } else { Err(left) }
    };
    Ok(usages.iter().zip(answer.chunks(2)).map(state).collect())
}

/// Takes units also beyond the limit. Gives the number of those beyond.
///
/// # Errors
/// If the store is away.
pub async fn charge(store: &Store, usage: &LimitUsage<'_>) -> Result<u64, Away> {
    let answer = store.run(CHARGE, &[usage.name()], &usage.arguments()).await?;
    let [before, after] = answer[..] else { return Err(Away) };
    let pace = usage.allowance.pace;
    Ok(pace.units(usage.ahead(after).saturating_sub(pace.room.max(usage.ahead(before)))))
}

fn microseconds(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}
