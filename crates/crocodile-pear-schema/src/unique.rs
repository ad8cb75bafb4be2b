//! `uniqueItems`: whether all items of a list differ, in time that grows with the size of the list alone.
//!
//! Two values that are equal have the same hash. Two that differ have the same one only by chance: the hash is keyed, and
//! says where each list and object begins and ends.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use hashbrown::HashTable;
use serde_json::Number;
use serde_json::Value as Json;

static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

pub fn all_differ(items: &[Json]) -> bool {
    let mut seen: HashTable<(u64, &Json)> = HashTable::with_capacity(items.len());
    items.iter().all(|item| {
        let hash = hash(item);
        let known = |(other, value): &(u64, &Json)| *other == hash && equal(value, item);
        if seen.find(hash, known).is_some() {
            return false;
        }
        seen.insert_unique(hash, (hash, item), |(hash, _)| *hash);
        true
    })
}

fn hash(value: &Json) -> u64 {
    let mut hasher = KEY.build_hasher();
    write(value, &mut hasher);
    hasher.finish()
}

fn write(value: &Json, hasher: &mut impl Hasher) {
    match value {
        Json::Null => hasher.write_u8(0),
        Json::Bool(value) => (1_u8, value).hash(hasher),
        Json::Number(number) => (2_u8, exact(number)).hash(hasher),
        Json::String(text) => (3_u8, text).hash(hasher),
        Json::Array(items) => {
            (4_u8, items.len()).hash(hasher);
            items.iter().for_each(|item| write(item, hasher));
        }
        Json::Object(fields) => {
            // In any order. Each field has a hash of its own, so that sums say nothing.
            let sum = fields.iter().map(|(name, value)| {
                let mut own = KEY.build_hasher();
                name.hash(&mut own);
                write(value, &mut own);
                own.finish()
            });
            let sum = sum.fold(0_u64, u64::wrapping_add);
            (5_u8, fields.len(), sum).hash(hasher);
        }
    }
}

/// A number, the same for all spellings of it: as a whole number, or as the bits of one that is none.
#[derive(PartialEq, Eq, Hash)]
enum Exact {
    Whole(i128),
    Bits(u64),
}

fn exact(number: &Number) -> Exact {
    /// Below it, all whole numbers of 64 bits with a fraction are exact in 128 bits.
    const MOST: f64 = 1e38;
    if let Some(whole) = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)) {
        return Exact::Whole(whole);
    }
    let float = number.as_f64().unwrap_or(f64::NAN);
    if float.fract() == 0.0 && float.abs() < MOST { Exact::Whole(float as i128) } else { Exact::Bits(float.to_bits()) }
}

/// Whether two values are equal in JSON Schema (4.2.2): by their mathematical value, objects in any order.
fn equal(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) => exact(one) == exact(other),
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            let same = |(name, value): (&String, &Json)| other.get(name).is_some_and(|other| equal(value, other));
            one.len() == other.len() && one.iter().all(same)
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_are_equal_are_found_however_they_are_written() {
        for (items, wanted) in [
            (json!([]), true),
            (json!([1, 2, "1", "2", null, false, 0, [], {}, "", [[]], [[], []], [null]]), true),
            (json!([1, 1.0]), false),
            (json!([0, -0.0]), false),
            (json!([1e2, 100]), false),
            (json!([9_007_199_254_740_993_u64, 9_007_199_254_740_992_u64]), true),
            (json!([u64::MAX, u64::MAX - 1, i64::MIN, i64::MIN + 1]), true),
            (json!([1e300, 1e300]), false),
            (json!([{ "a": 1, "b": 2 }, { "b": 2.0, "a": 1 }]), false),
            (json!([{ "a": 1, "b": 2 }, { "a": 2, "b": 1 }]), true),
            (json!([[{ "a": [1] }], [{ "a": [1.0] }]]), false),
            (json!([{ "a": null }, {}]), true),
        ] {
            assert_eq!(all_differ(items.as_array().expect("a list")), wanted, "{items}");
        }
    }

    /// Lists that a hash without their ends takes for one another: each would be compared with each.
    #[test]
    fn no_list_is_made_to_look_alike() {
        fn lists(pairs: usize) -> Vec<Vec<Json>> {
            let Some(rest) = pairs.checked_sub(1) else { return vec![vec![]] };
            let pairs = (0..pairs).flat_map(|within| {
                let behind = lists(rest - within);
                lists(within).into_iter().flat_map(move |inner| {
                    behind.clone().into_iter().map(move |behind| {
                        std::iter::once(Json::Array(inner.clone())).chain(behind).collect::<Vec<Json>>()
                    })
                })
            });
            pairs.collect()
        }
        let lists: Vec<Json> = lists(9).into_iter().map(Json::Array).collect();
        assert_eq!(lists.len(), 4862);
        let mut hashes: Vec<u64> = lists.iter().map(hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), lists.len());
        assert!(all_differ(&lists));
    }
}
