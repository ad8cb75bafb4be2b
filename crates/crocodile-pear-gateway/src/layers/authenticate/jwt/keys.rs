//! The keys of an issuer, from a file or a URL.

use std::sync::atomic::{AtomicU64, Ordering};

use ring::digest;
use serde_json::Value;

use super::key::{Algorithm, VerificationKey};
use super::pem;

/// The keys of an issuer.
pub struct KeySet {
    keys: Vec<VerificationKey>,
    /// A number that differs between sets.
    pub generation: u64,
    /// The hash of the bytes that it was read from.
    source: [u8; 32],
}

/// The most keys in a set.
const MOST: usize = 256;

/// How many keys are tried for a token without a `kid`.
const TRIED: usize = 16;

impl KeySet {
    /// Reads a JWK set, a single JWK, or public keys in PEM. The error says what is wrong and quotes nothing.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let keys = match pem::is(bytes) {
            true => pem::keys(bytes)?,
            false => json(bytes)?,
        };
        if keys.is_empty() {
            let known = "RSA from 2048 bits on, P-256, P-384, Ed25519 and shared secrets";
            return Err(format!("it has no key that can verify signatures; known are {known}"));
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut source = [0; 32];
        source.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
        Ok(KeySet { keys, generation: NEXT.fetch_add(1, Ordering::Relaxed), source })
    }

    /// Whether both were read from the same bytes.
    pub fn same(&self, other: &KeySet) -> bool {
        self.source == other.source
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys that may have signed a token: those with its `kid`, or those without an id.
    pub fn fitting<'a>(
        &'a self,
        kid: Option<&'a str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &'a VerificationKey> {
        let named = kid.filter(|kid| self.keys.iter().any(|key| key.kid.as_deref() == Some(*kid)));
        let fits = move |key: &&VerificationKey| match (named, kid) {
            (Some(kid), _) => key.kid.as_deref() == Some(kid),
            (None, Some(_)) => key.kid.is_none(),
            (None, None) => true,
        };
        self.keys.iter().filter(fits).filter(move |key| key.serves(algorithm)).take(TRIED)
    }
}

fn json(bytes: &[u8]) -> Result<Vec<VerificationKey>, String> {
    let set: Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("it is neither JSON nor PEM (line {}, column {})", error.line(), error.column()))?;
    if set.get("kty").is_some() {
        return Ok(VerificationKey::read(&set).into_iter().collect());
    }
    let Some(keys) = set.get("keys").and_then(Value::as_array) else {
        return Err("it has no list `keys`, as a JWK set has (RFC 7517)".to_owned());
    };
    if keys.len() > MOST {
        return Err(format!("it has more than {MOST} keys"));
    }
    Ok(keys.iter().filter_map(VerificationKey::read).collect())
}
