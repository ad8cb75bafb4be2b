//! Keys that verify signatures (RFC 7517, RFC 7518). A key only works with algorithms of its own kind: a public RSA key
//! can never be used as an HMAC secret.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Node, NodeKind};
use ring::hmac;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

crocodile_pear::unstable::choice! {
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

/// An algorithm that the configuration accepts, as written.
#[derive(Clone, Copy, Debug)]
pub struct AcceptedAlgorithm(pub Algorithm);

/// Algorithms that issuers use but the gateway does not support, with a remedy.
const UNSUPPORTED: [(&str, &str); 3] = [
    ("ES512", "have the issuer sign with `ES256` or `ES384`: P-521 is not supported"),
    ("ES256K", "have the issuer sign with `ES256`: secp256k1 is not supported"),
    ("none", "name what the issuer signs with: a token without a signature proves nothing"),
];

impl Decode for AcceptedAlgorithm {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        if let NodeKind::Scalar { text, .. } = &node.kind
            && let Some((name, remedy)) = UNSUPPORTED.iter().find(|(name, _)| name == text)
        {
            return problems.error(node.span, format!("the algorithm `{name}` is not supported"), *remedy);
        }
        Algorithm::decode(node, problems).map(AcceptedAlgorithm)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        Algorithm::schema(definitions)
    }
}

impl Algorithm {
    /// The algorithm with this name; the case must match.
    pub fn named(name: &str) -> Option<Self> {
        Self::CHOICES.iter().find(|algorithm| algorithm.word() == name).copied()
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

pub struct VerificationKey {
    /// The key's id.
    pub kid: Option<String>,
    /// The only algorithm that it may be used with, if its JWK says so.
    only: Option<Algorithm>,
    material: Material,
}

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

impl VerificationKey {
    /// A key without an id, for all algorithms of its kind.
    pub fn bare(material: Material) -> Self {
        VerificationKey { kid: None, only: None, material }
    }

    /// Reads a JWK. `None` for keys that are not for signatures, and for unknown kinds.
    pub fn read(jwk: &Value) -> Option<Self> {
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
        let key = VerificationKey { kid: text("kid").map(str::to_owned), only, material };
        only.is_none_or(|only| key.serves(only)).then_some(key)
    }

    /// Whether the key can be used with this algorithm.
    pub fn serves(&self, algorithm: Algorithm) -> bool {
        let kind = match &self.material {
            Material::Rsa(..) => algorithm.rsa().is_some(),
            Material::P256(_) => algorithm == Algorithm::Es256,
            Material::P384(_) => algorithm == Algorithm::Es384,
            Material::Ed25519(_) => algorithm == Algorithm::EdDsa,
            // Shorter secrets can be guessed (RFC 7518, 3.2).
            Material::Secret(secret) => {
                algorithm.hmac().is_some_and(|hmac| secret.len() >= hmac.digest_algorithm().output_len())
            }
        };
        kind && self.only.is_none_or(|only| only == algorithm)
    }

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
    /// `None` for a key that is too short or too long.
    pub fn rsa(n: &[u8], e: &[u8]) -> Option<Self> {
        let bare = |number: &[u8]| number.iter().position(|byte| *byte != 0).map(|at| number[at..].to_vec());
        let (n, e) = (bare(n)?, bare(e)?);
        (256..=1024).contains(&n.len()).then_some(Material::Rsa(n, e))
    }
}
