//! The same algorithm inside the store, for limits shared by several gateways: one call per request for all limits,
//! using the store's clock.

use ring::digest;

use super::table::{Left, Pace};
use crate::counted::Key;
use crate::store::{Away, Store};

/// Times are in microseconds. They count from a day in 2023, so that numbers with a fraction stay exact. All limits are
/// checked before any of them is changed.
const SCRIPT: &str = "
local time = redis.call('TIME')
local now = (time[1] - 1700000000) * 1000000 + time[2]
local aheads, answer, good = {}, {}, true
for i, key in ipairs(KEYS) do
  local interval, room = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  aheads[i] = math.max(0, (tonumber(redis.call('GET', key)) or 0) - now)
  local fits = aheads[i] + interval <= room + 0.5
  answer[2 * i - 1] = fits and 1 or 0
  good = good and fits
end
for i, key in ipairs(KEYS) do
  if good then
    aheads[i] = aheads[i] + tonumber(ARGV[2 * i - 1])
    redis.call('SET', key, string.format('%.17g', now + aheads[i]), 'PX', math.ceil(aheads[i] / 1000) + 1)
  end
  answer[2 * i] = math.ceil(aheads[i])
end
return answer
";

/// The name of a key in the store. A key may contain a credential, so only its hash is sent.
pub fn name(identity: &str, key: &Key) -> String {
    let hash = digest::digest(&digest::SHA256, format!("{identity}\n{key:?}").as_bytes());
    let digits: String = hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("crocodile-pear:rate:{digits}")
}

/// Counts a request for all of these limits, or for none.
///
/// # Errors
/// If the store is away.
pub async fn take(store: &Store, limits: &[(String, Pace)]) -> Result<Vec<Result<Left, Left>>, Away> {
    let (keys, paces): (Vec<String>, Vec<Pace>) = limits.iter().cloned().unzip();
    let arguments: Vec<String> = paces.iter().flat_map(|pace| [pace.interval, pace.room].map(microseconds)).collect();
    let answer = store.run(SCRIPT, &keys, &arguments).await?;
    if answer.len() != 2 * limits.len() {
        return Err(Away);
    }
    let state = |(pace, answer): (&Pace, &[i64])| {
        let left = pace.left(u64::try_from(answer[1]).unwrap_or(0).saturating_mul(1000));
        if answer[0] == 1 { Ok(left) } else { Err(left) }
    };
    Ok(paces.iter().zip(answer.chunks(2)).map(state).collect())
}

fn microseconds(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}
