//! Parses a signed token in its compact form (RFC 7515, 7.1). Anything ambiguous is refused.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::key::Algorithm;
use super::keys::KeySet;
use crate::config::unique_json;

/// A parsed token. Nothing is verified yet.
pub struct Jws<'a> {
    /// The signed bytes: the first two parts as received.
    signed: &'a [u8],
    /// The algorithm named in the header.
    pub algorithm: Algorithm,
    /// The key named in the header.
    pub kid: Option<String>,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// Why a token is refused, in words for the client.
pub type TokenRejection = &'static str;

/// The result of verifying a token with a set of keys.
pub enum Verified {
    /// The signature is valid. This is the payload.
    Yes(Vec<u8>),
    /// No key matches the token's header.
    NoKey,
    /// The signature is not valid.
    No,
}

/// Header fields in which a token brings or chooses its own key, which a forger could use.
const OWN_KEYS: [&str; 4] = ["jwk", "jku", "x5u", "x5c"];

impl<'a> Jws<'a> {
    /// Parses a token.
    pub fn read(token: &'a [u8]) -> Result<Self, TokenRejection> {
        const FORM: TokenRejection = "the token is not a signed JWT";
        let mut parts = token.split(|byte| *byte == b'.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(FORM);
        };
        let decode = |part: &[u8]| URL_SAFE_NO_PAD.decode(part).map_err(|_| FORM);
        let fields = unique_json::object(&decode(header)?).ok_or(FORM)?;
        if OWN_KEYS.iter().any(|field| fields.contains_key(*field)) {
            return Err("the token brings its own key");
        }
        // All extensions in `crit` must be understood (RFC 7515, 4.1.11), and none are supported here.
        if fields.contains_key("crit") {
            return Err("the token needs an extension that is not known");
        }
        let algorithm = algorithm(&fields).ok_or("the token's algorithm is not accepted")?;
        let kid = match fields.get("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err(FORM),
        };
        let signed = &token[..header.len() + 1 + payload.len()];
        Ok(Jws { signed, algorithm, kid, payload: decode(payload)?, signature: decode(signature)? })
    }

    /// Finds the key and verifies the signature.
    pub fn verify(self, keys: &KeySet) -> Verified {
        let mut tried = false;
        for key in keys.fitting(self.kid.as_deref(), self.algorithm) {
            tried = true;
            if key.verifies(self.algorithm, self.signed, &self.signature) {
                return Verified::Yes(self.payload);
            }
        }
        if tried { Verified::No } else { Verified::NoKey }
    }
}

fn algorithm(fields: &Map<String, Value>) -> Option<Algorithm> {
    Algorithm::named(fields.get("alg")?.as_str()?)
}
