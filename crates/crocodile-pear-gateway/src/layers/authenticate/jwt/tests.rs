//! Tests signatures against the vectors of Wycheproof, and measures a check.

use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPairComponents, PublicKeyComponents};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};

use super::super::remembered::{Remembered, hash, now};
use super::ClaimRules;
use super::jws::{Jws, Verified};
use super::key::Algorithm;
use super::keys::KeySet;

/// Whether the token is accepted with this key and the key's algorithm.
fn accepted(key: &Value, token: &str) -> bool {
    let Ok(keys) = KeySet::parse(key.to_string().as_bytes()) else { return false };
    Jws::read(token.as_bytes()).is_ok_and(|jws| matches!(jws.verify(&keys), Verified::Yes(_)))
}

/// Vectors whose stated result does not apply here: whether they are valid, and why.
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

/// An RSA key pair for the vectors, and its public key.
fn rsa() -> (RsaKeyPair, KeySet) {
    let vectors = include_str!("../../../../tests/vectors/jws/rsa.json");
    let key = serde_json::from_str::<Value>(vectors).expect("JSON")["issuer"].clone();
    let number = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().expect("a text")).expect("base64");
    let parts = KeyPairComponents {
        public_key: PublicKeyComponents { n: number("n"), e: number("e") },
        d: number("d"),
        p: number("p"),
        q: number("q"),
        dP: number("dp"),
        dQ: number("dq"),
        qInv: number("qi"),
    };
    let jwk = json!({ "kty": "RSA", "n": key["n"], "e": key["e"] });
    let set = KeySet::parse(jwk.to_string().as_bytes()).expect("a key");
    (RsaKeyPair::from_components(&parts).expect("a pair"), set)
}

fn ec() -> (EcdsaKeyPair, KeySet) {
    let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let key = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("random numbers");
    let pair = EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).expect("a pair");
    let point = pair.public_key().as_ref();
    let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
    let jwk = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y });
    (pair, KeySet::parse(jwk.to_string().as_bytes()).expect("a key"))
}

fn token(algorithm: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let claims = json!({
        "iss": "https://id.example", "aud": "shop", "sub": "00u1a2b3c4d5e6f7g8h9", "exp": now() + 3600, "iat": now(),
        "jti": "AT.x1y2z3-4a5b6c", "scope": "openid profile orders:read orders:write", "email": "ada@example.org",
    });
    let header = json!({ "alg": algorithm, "typ": "JWT" });
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// The best of several rounds, in microseconds. On a busy machine, the others measure the machine.
fn cost(check: impl Fn()) -> f64 {
    const TIMES: u32 = 50;
    let round = |_| {
        let began = Instant::now();
        (0..TIMES).for_each(|_| check());
        began.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
    };
    (0..10).map(round).fold(f64::MAX, f64::min)
}

#[test]
fn a_token_is_checked_in_microseconds() {
    let rules = || ClaimRules {
        issuer: "https://id.example".to_owned(),
        audiences: Some(vec!["shop".to_owned()]),
        algorithms: vec![Algorithm::Rs256, Algorithm::Es256],
        leeway: 5.0,
    };
    let check = |token: &str, keys: &KeySet| {
        let Ok(Verified::Yes(payload)) = Jws::read(token.as_bytes()).map(|jws| jws.verify(keys)) else {
            panic!("refused")
        };
        assert!(rules().admit(payload, now()).is_ok());
    };
    let (pair, keys) = rsa();
    let signed = token("RS256", |text| {
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature).expect("signed");
        signature
    });
    let rs256 = cost(|| check(&signed, &keys));
    let (pair, keys) = ec();
    let other = token("ES256", |text| pair.sign(&SystemRandom::new(), text).expect("signed").as_ref().to_vec());
    let es256 = cost(|| check(&other, &keys));
    let known = Remembered::default();
    known.keep(hash(signed.as_bytes()), u64::MAX, ());
    let remembered = cost(|| assert!(known.find(&hash(signed.as_bytes()), now()).is_some()));
    println!("RS256 {rs256:.1} us, ES256 {es256:.1} us, remembered {remembered:.2} us");
    // Only meaningful in an optimised build.
    assert!(cfg!(debug_assertions) || (rs256 <= 60.0 && es256 <= 120.0));
}
