//! Tokens, good and forged, and the keys that sign them.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaEncoding, RsaKeyPair,
};
use ring::{hmac, rsa};
use serde_json::{Value, json};

/// Base64 as tokens have it.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Seconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// An RSA key of the vectors: `issuer` or `stranger`.
pub struct Rsa {
    pair: RsaKeyPair,
    jwk: Value,
}

impl Rsa {
    pub fn of(name: &str) -> Self {
        let keys: Value = serde_json::from_str(include_str!("../vectors/jws/rsa.json")).unwrap();
        let key = keys[name].clone();
        let number = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
        let parts = rsa::KeyPairComponents {
            public_key: rsa::PublicKeyComponents { n: number("n"), e: number("e") },
            d: number("d"),
            p: number("p"),
            q: number("q"),
            dP: number("dp"),
            dQ: number("dq"),
            qInv: number("qi"),
        };
        let pair = RsaKeyPair::from_components(&parts).unwrap();
        let jwk = json!({ "kty": "RSA", "n": key["n"], "e": key["e"] });
        Rsa { pair, jwk }
    }

    pub fn sign(&self, text: &str) -> Vec<u8> {
        self.sign_with(&RSA_PKCS1_SHA256, text)
    }

    pub fn sign_pss(&self, text: &str) -> Vec<u8> {
        self.sign_with(&RSA_PSS_SHA256, text)
    }

    fn sign_with(&self, how: &'static dyn RsaEncoding, text: &str) -> Vec<u8> {
        let mut signature = vec![0; self.pair.public().modulus_len()];
        self.pair.sign(how, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
        signature
    }

    /// The public key, as a JWK without further fields.
    pub fn jwk(&self) -> Value {
        self.jwk.clone()
    }

    /// The public key in DER: modulus and exponent.
    pub fn der(&self) -> Vec<u8> {
        self.pair.public().as_ref().to_vec()
    }
}

/// A key on P-256.
pub struct Ec(EcdsaKeyPair);

impl Ec {
    pub fn new() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        Ec(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap())
    }

    pub fn sign(&self, text: &str) -> Vec<u8> {
        self.0.sign(&SystemRandom::new(), text.as_bytes()).unwrap().as_ref().to_vec()
    }

    pub fn jwk(&self) -> Value {
        let point = self.0.public_key().as_ref();
        json!({ "kty": "EC", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..]) })
    }
}

/// A key of Ed25519.
pub struct Ed(Ed25519KeyPair);

impl Ed {
    pub fn new() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    pub fn sign(&self, text: &str) -> Vec<u8> {
        self.0.sign(text.as_bytes()).as_ref().to_vec()
    }

    pub fn jwk(&self) -> Value {
        json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(self.0.public_key()) })
    }
}

/// HMAC with SHA-256.
pub fn sign_hmac(secret: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes()).as_ref().to_vec()
}

/// A JWK with more fields.
pub fn with(mut jwk: Value, fields: &Value) -> Value {
    jwk.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    jwk
}

/// A token of these texts, signed.
pub fn token(header: &str, claims: &str, sign: impl Fn(&str) -> Vec<u8>) -> String {
    let signed = format!("{}.{}", encode(header), encode(claims));
    let signature = encode(sign(&signed));
    format!("{signed}.{signature}")
}

/// Claims that are good for an hour.
pub fn claims() -> Value {
    json!({ "iss": "https://id.example", "aud": "shop", "sub": "ada", "exp": now() + 3600, "scope": "orders:read" })
}
