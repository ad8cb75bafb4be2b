//! Which server belongs to a client: by a value of its request, or by a cookie.

use http::header::{HeaderMap, HeaderValue, SET_COOKIE};
use serde_json::json;

use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, Json, Node};

/// The value by which a server is chosen.
#[derive(Clone, Copy)]
pub(crate) struct Affinity {
    /// The hash of a value, or the mark of a server.
    pub(crate) value: u64,
    pub(crate) bound: Option<LoadBound>,
}

/// The load that a server may have, in percent of the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBound(u32);

impl Decode for LoadBound {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        const WANTED: &str = "a share of the average load, from 101% to 1000%";
        let text = node.expect_text(WANTED, problems)?.value;
        let percent = text.strip_suffix('%').and_then(|percent| percent.parse().ok());
        match percent.filter(|percent| (101..=1000).contains(percent)) {
            Some(percent) => Some(LoadBound(percent)),
            None => node.wrong(WANTED, "write it as `125%`", problems),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        definitions.or_variable(json!({"type": "string", "pattern": "^[0-9]+%$", "examples": ["125%"]}))
    }
}

impl LoadBound {
    /// Whether a server with this load and weight may have one more call, of so many calls and weights in all
    /// (consistent hashing with bounded loads, Mirrokni et al., 2016).
    pub(crate) fn has_room(self, (load, weight): (u64, u32), (loads, weights): (u64, u64)) -> bool {
        let share = (loads + 1) * u64::from(weight) * u64::from(self.0);
        load < share.div_ceil(weights.max(1) * 100)
    }
}

/// The same number in every process and on every machine: FNV-1a, with its bits mixed as MurmurHash3 does.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
}

fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The place of a hash between 0 and 1, never 0.
pub(crate) fn point(hash: u64) -> f64 {
    ((hash >> 11) + 1) as f64 / ((1_u64 << 53) + 1) as f64
}

/// How well a server fits a value: the value belongs to the server with the highest score (weighted rendezvous hashing).
pub(crate) fn score(value: u64, mark: u64, weight: u32) -> f64 {
    -f64::from(weight) / point(mix(value ^ mark)).ln()
}

/// The mark in a cookie.
pub(crate) fn read_mark(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.len() == 16)?;
    u64::from_str_radix(text, 16).ok()
}

/// Tells the client its server, unless it knows.
pub(crate) fn set_cookie(name: &str, mark: u64, known: Option<u64>, headers: &mut HeaderMap) {
    if known == Some(mark) {
        return;
    }
    if let Ok(value) = HeaderValue::from_str(&format!("{name}={mark:016x}; Path=/; HttpOnly; SameSite=Lax")) {
        headers.append(SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::affinity::*;

    fn owner(value: u64, servers: &[(u64, u32)]) -> u64 {
        let best = |one: &&(u64, u32), other: &&(u64, u32)| {
            score(value, one.0, one.1).total_cmp(&score(value, other.0, other.1))
        };
        servers.iter().max_by(best).expect("a server").0
    }

    #[test]
    fn only_the_share_of_a_server_that_leaves_moves() {
        let servers: Vec<(u64, u32)> = (0..5).map(|at| (hash(format!("10.0.0.{at}:80").as_bytes()), 1)).collect();
        let left = &servers[1..];
        let mut moved = 0;
        for client in 0..100_000_u32 {
            let value = hash(client.to_string().as_bytes());
            let before = owner(value, &servers);
            if owner(value, left) != before {
                assert_eq!(before, servers[0].0);
                moved += 1;
            }
        }
        assert!((19_000..21_000).contains(&moved), "{moved}");
    }

    #[test]
    fn weights_are_kept() {
        let servers = [(hash(b"a"), 3), (hash(b"b"), 1)];
        let seen =
            (0..100_000_u32).filter(|client| owner(hash(&client.to_be_bytes()), &servers) == servers[0].0).count();
        assert!((74_000..76_000).contains(&seen), "{seen}");
    }
}
