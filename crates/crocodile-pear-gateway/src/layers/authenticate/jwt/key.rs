//! Keys that verify signatures (RFC 7517, RFC 7518). A key serves the algorithms of its own kind alone: a public RSA key
//! is never the secret of an HMAC.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crocodile_pear::problem::Problems;
use crocodile_pear::spec::{Decode, Definitions, Json, Node, NodeKind};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use ring::{digest, hmac};
use serde_json::Value;

use super::pem;

crocodile_pear::choice! {
    /// How a token is signed (RFC 7518, 3.1).
    pub enum Algorithm {
        /// RSA with SHA-256.
        Rs256 = "RS256",
        /// RSA with SHA-384.
        Rs384 = "RS384",
        /// RSA with SHA-512.
        Rs512 = "RS512",
        /// RSA-PSS with SHA-256.
        Ps256 = "PS256",
        /// RSA-PSS with SHA-384.
        Ps384 = "PS384",
        /// RSA-PSS with SHA-512.
        Ps512 = "PS512",
        /// ECDSA on P-256.
        Es256 = "ES256",
        /// ECDSA on P-384.
        Es384 = "ES384",
        /// Ed25519.
        EdDsa = "EdDSA",
        /// A secret that is shared with the issuer, with SHA-256.
        Hs256 = "HS256",
        /// The same with SHA-384.
        Hs384 = "HS384",
        /// The same with SHA-512.
        Hs512 = "HS512",
    }
}

/// An algorithm that is accepted, as written.
#[derive(Clone, Copy, Debug)]
pub struct Accepted(pub Algorithm);

/// Algorithms that issuers use and the gateway does not, with what to do.
const UNSUPPORTED: [(&str, &str); 3] = [
    ("ES512", "have the issuer sign with `ES256` or `ES384`: P-521 is not supported"),
    ("ES256K", "have the issuer sign with `ES256`: secp256k1 is not supported"),
    ("none", "name what the issuer signs with: a token without a signature proves nothing"),
];

impl Decode for Accepted {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        if let NodeKind::Scalar { text, .. } = &node.kind
            && let Some((name, remedy)) = UNSUPPORTED.iter().find(|(name, _)| name == text)
        {
            return problems.error(node.span, format!("the algorithm `{name}` is not supported"), *remedy);
        }
        Algorithm::decode(node, problems).map(Accepted)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        Algorithm::schema(definitions)
    }
}

impl Algorithm {
    /// The algorithm of this name, in exactly this case.
    pub fn named(name: &str) -> Option<Self> {
        Self::CHOICES.iter().find(|(_, field)| field.name == name).map(|(algorithm, _)| *algorithm)
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }

    fn hmac(self) -> Option<hmac::Algorithm> {
        Some(match self {
            Algorithm::Hs256 => hmac::HMAC_SHA256,
            Algorithm::Hs384 => hmac::HMAC_SHA384,
            Algorithm::Hs512 => hmac::HMAC_SHA512,
            _ => return None,
        })
    }
}

/// A key.
pub struct Key {
    kid: Option<String>,
    /// The only algorithm that it is for, where that is said.
    only: Option<Algorithm>,
    material: Material,
}

/// What a key is made of.
pub enum Material {
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// A point on P-256, uncompressed.
    P256(Vec<u8>),
    /// A point on P-384.
    P384(Vec<u8>),
    /// A public key of Ed25519.
    Ed25519(Vec<u8>),
    /// A shared secret.
    Secret(Vec<u8>),
}

impl Key {
    /// A key without a name, for all algorithms of its kind.
    pub fn bare(material: Material) -> Self {
        Key { kid: None, only: None, material }
    }

    /// Reads a JWK. Nothing for one that is not for signatures, and for kinds that are not known.
    fn read(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        if jwk.get("use").is_some_and(|usage| usage != "sig") {
            return None;
        }
        let verifies =
            |usages: &Value| usages.as_array().is_some_and(|usages| usages.iter().any(|usage| usage == "verify"));
        if jwk.get("key_ops").is_some_and(|usages| !verifies(usages)) {
            return None;
        }
        let only = match jwk.get("alg") {
            None => None,
            Some(name) => Some(Algorithm::named(name.as_str()?)?),
        };
        let number = |name: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok()?;
            Some(bytes).filter(|bytes| !bytes.is_empty())
        };
        let point = |size: usize| {
            let (x, y) = (number("x")?, number("y")?);
            (x.len() == size && y.len() == size).then(|| [&[4][..], &x, &y].concat())
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::rsa(&number("n")?, &number("e")?)?,
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(number("x").filter(|x| x.len() == 32)?),
            ("oct", _) => Material::Secret(number("k")?),
            _ => return None,
        };
        let key = Key { kid: text("kid").map(str::to_owned), only, material };
        only.is_none_or(|only| key.serves(only)).then_some(key)
    }

    fn serves(&self, algorithm: Algorithm) -> bool {
        let kind = match &self.material {
            Material::Rsa(..) => algorithm.rsa().is_some(),
            Material::P256(_) => algorithm == Algorithm::Es256,
            Material::P384(_) => algorithm == Algorithm::Es384,
            Material::Ed25519(_) => algorithm == Algorithm::EdDsa,
            // A shorter secret can be guessed (RFC 7518, 3.2).
            Material::Secret(secret) => {
                algorithm.hmac().is_some_and(|hmac| secret.len() >= hmac.digest_algorithm().output_len())
            }
        };
        kind && self.only.is_none_or(|only| only == algorithm)
    }

    /// Whether it made this signature.
    pub fn verifies(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        let plain = |kind: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(kind, key).verify(signed, signature).is_ok()
        };
        match &self.material {
            Material::Rsa(n, e) => algorithm
                .rsa()
                .is_some_and(|rsa| RsaPublicKeyComponents { n, e }.verify(rsa, signed, signature).is_ok()),
            Material::P256(point) => plain(&signature::ECDSA_P256_SHA256_FIXED, point),
            Material::P384(point) => plain(&signature::ECDSA_P384_SHA384_FIXED, point),
            Material::Ed25519(key) => plain(&signature::ED25519, key),
            Material::Secret(secret) => algorithm
                .hmac()
                .is_some_and(|hmac| hmac::verify(&hmac::Key::new(hmac, secret), signed, signature).is_ok()),
        }
    }
}

impl Material {
    /// Nothing for a key that is too short or too long to be used.
    pub fn rsa(n: &[u8], e: &[u8]) -> Option<Self> {
        let bare = |number: &[u8]| number.iter().position(|byte| *byte != 0).map(|at| number[at..].to_vec());
        let (n, e) = (bare(n)?, bare(e)?);
        (256..=1024).contains(&n.len()).then_some(Material::Rsa(n, e))
    }
}

/// The keys of an issuer.
pub struct KeySet {
    keys: Vec<Key>,
    /// Other sets have other numbers.
    pub generation: u64,
    /// What it was read from.
    source: [u8; 32],
}

/// More keys than that are no key set.
const MOST: usize = 256;

/// So many keys are tried for a token that names none.
const TRIED: usize = 16;

impl KeySet {
    /// Reads a JWK set, a single JWK, or public keys in PEM. The error says what is wrong, and quotes nothing of it.
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

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys that may have signed a token: those of its `kid`, or those without a name.
    pub fn fitting<'a>(&'a self, kid: Option<&'a str>, algorithm: Algorithm) -> impl Iterator<Item = &'a Key> {
        let named = kid.filter(|kid| self.keys.iter().any(|key| key.kid.as_deref() == Some(*kid)));
        let fits = move |key: &&Key| match (named, kid) {
            (Some(kid), _) => key.kid.as_deref() == Some(kid),
            (None, Some(_)) => key.kid.is_none(),
            (None, None) => true,
        };
        self.keys.iter().filter(fits).filter(move |key| key.serves(algorithm)).take(TRIED)
    }
}

fn json(bytes: &[u8]) -> Result<Vec<Key>, String> {
    let set: Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("it is neither JSON nor PEM (line {}, column {})", error.line(), error.column()))?;
    if set.get("kty").is_some() {
        return Ok(Key::read(&set).into_iter().collect());
    }
    let Some(keys) = set.get("keys").and_then(Value::as_array) else {
        return Err("it has no list `keys`, as a JWK set has (RFC 7517)".to_owned());
    };
    if keys.len() > MOST {
        return Err(format!("it has more than {MOST} keys"));
    }
    Ok(keys.iter().filter_map(Key::read).collect())
}
