//! Rate limits.

use std::time::Duration;

use super::keys::{Item, ObjectKeys};
use crate::duration;
use crate::jq;
use crate::yaml::{Map, Yaml};

/// The limits of `qos/ratelimit/router` or `qos/ratelimit/service`.
pub fn router(item: &Item<'_>, parameters: &[(String, String)]) -> Vec<Yaml> {
    let Some(keys) = item.map() else { return Vec::new() };
    let every = keys.duration("every").unwrap_or(Duration::from_secs(1));
    let mut limits = Vec::new();
    let total = rate(&keys, "max_rate", "maxRate", "capacity", every);
    let own = rate(&keys, "client_max_rate", "clientMaxRate", "client_capacity", every);
    let by = client(&keys, parameters);
    keys.end();
    // Two limits of the same rate need names.
    let same = total.as_ref().is_some_and(|total| own.as_ref().is_some_and(|own| own.get("rate") == total.get("rate")));
    limits.extend(total.map(Yaml::from));
    if let Some(mut own) = own {
        if same {
            own.set("name", Yaml::text("client"));
        }
        match by {
            Some(by) => drop(own.set("by", Yaml::text(by))),
            None => return limits,
        }
        limits.push(own.into());
    }
    limits
}

/// The limit of `qos/ratelimit/proxy`.
pub fn backend(item: &Item<'_>) -> Option<Yaml> {
    let keys = item.map()?;
    let every = keys.duration("every").unwrap_or(Duration::from_secs(1));
    let limit = rate(&keys, "max_rate", "maxRate", "capacity", every);
    keys.end();
    limit.map(Yaml::from)
}

/// By what clients are told apart.
fn client(keys: &ObjectKeys<'_>, parameters: &[(String, String)]) -> Option<String> {
    let strategy = keys.take("strategy");
    let key = keys.take("key");
    let name = strategy.as_ref().and_then(super::keys::Item::text).unwrap_or_else(|| "ip".to_owned());
    let value = key.as_ref().and_then(super::keys::Item::text);
    match (name.as_str(), value) {
        ("ip", None) => Some("$client.address".to_owned()),
        ("ip", Some(header)) => Some(format!("$headers{} // $client.address", jq::field(&header.to_ascii_lowercase()))),
        // KrakenD counts all requests without the field as one client.
        ("header", Some(header)) => Some(format!("$headers{} // \"\"", jq::field(&header.to_ascii_lowercase()))),
        ("param", Some(name)) => {
            let ours = parameters.iter().find(|(known, _)| *known == name).map(|(_, ours)| ours.clone());
            if ours.is_none() {
                key.as_ref()?.report(format!("the endpoint has no parameter `{name}`"), "");
            }
            Some(format!("$path{}", jq::field(&ours?)))
        }
        (other, _) => {
            let message = format!("the strategy `{other}` is not imported, and so the limit per client is not");
            strategy.as_ref()?.report(message, "write `by` of `rate_limit`");
            None
        }
    }
}

/// A rate with its burst.
fn rate(keys: &ObjectKeys<'_>, name: &str, old: &str, capacity: &str, every: Duration) -> Option<Map> {
    let rate = keys.take_old(name, old);
    let capacity = keys.number(capacity);
    let item = rate?;
    let number = item.number()?;
    if number <= 0.0 {
        item.ignore("zero is no limit");
        return None;
    }
    let (count, time) = whole(number, every);
    let mut limit = Map::default();
    limit.set("rate", Yaml::plain(format!("{count}/{}", duration::write(time))));
    let burst = capacity.filter(|capacity| *capacity >= 1.0).unwrap_or(number.max(1.0)).floor();
    if (burst - count as f64).abs() > 0.5 {
        limit.set("burst", Yaml::plain(burst));
    }
    Some(limit)
}

/// A rate with a whole number of requests.
fn whole(number: f64, every: Duration) -> (u64, Duration) {
    if number.fract() == 0.0 {
        return (number as u64, every);
    }
    let per_second = number / every.as_secs_f64();
    if per_second < 1.0 {
        return (1, Duration::from_millis((1000.0 / per_second).round() as u64));
    }
    ((number * 1000.0).round() as u64, every * 1000)
}
