//! Signatures, against the vectors of Wycheproof.

use serde_json::Value;

use super::jws::{Jws, Verified};
use super::key::{Algorithm, KeySet};

/// Whether a token is let in by the algorithm that the key is for.
fn accepted(key: &Value, token: &str) -> bool {
    let Ok(keys) = KeySet::parse(key.to_string().as_bytes()) else { return false };
    Jws::read(token.as_bytes()).is_ok_and(|jws| matches!(jws.verify(&keys), Verified::Yes(_)))
}

/// Vectors that are to be taken otherwise than they say: whether they are valid, and why.
const OTHERWISE: [(u64, bool, &str); 8] = [
    (346, false, "the key is for PS256, the token says PS384"),
    (347, false, "P-521, and a key for `ES521`, which is no algorithm"),
    (350, false, "as 346"),
    (351, false, "as 347"),
    (367, true, "the same token as 357, which is valid"),
    (370, true, "as 367"),
    (372, false, "a `?` in base64 (RFC 7515, 2, and RFC 4648, 3.3)"),
    (373, false, "as 372"),
];

#[test]
fn signatures_are_valid_where_wycheproof_says_so() {
    let vectors = include_str!("../../../../tests/vectors/jws/signatures.json");
    let groups: Vec<Value> = serde_json::from_str(vectors).expect("JSON");
    let (mut good, mut bad, mut wrong) = (0, 0, Vec::new());
    for group in &groups {
        for test in group["tests"].as_array().expect("a list") {
            let id = test["id"].as_u64().expect("a number");
            let otherwise = OTHERWISE.iter().find(|(other, ..)| *other == id).map(|(_, valid, _)| *valid);
            let valid = otherwise.unwrap_or(test["result"] == "valid");
            if accepted(&group["key"], test["jws"].as_str().expect("a text")) != valid {
                wrong.push(format!("{id} {}", test["comment"]));
            }
            if valid { good += 1 } else { bad += 1 }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!((good, bad), (42, 359));
}

#[test]
fn an_algorithm_has_its_name_in_exactly_this_case() {
    for name in ["none", "None", "NONE", "nOnE", "", "rs256", "RS256 ", "RS1", "HS1", "ES256K", "ES512", "dir"] {
        assert_eq!(Algorithm::named(name), None, "{name}");
    }
    assert_eq!(Algorithm::named("EdDSA"), Some(Algorithm::EdDsa));
}
