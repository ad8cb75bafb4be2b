//! Public keys in PEM: `-----BEGIN PUBLIC KEY-----`, as `openssl pkey -pubout` writes them.

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::alg_id;
use rustls::pki_types::pem::PemObject;

use super::key::{Material, VerificationKey};

/// Whether a file looks like PEM.
pub fn is(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"-----BEGIN ")
}

/// Reads all public keys of a file.
pub fn keys(bytes: &[u8]) -> Result<Vec<VerificationKey>, String> {
    const FORM: &str = "it has no `-----BEGIN PUBLIC KEY-----`; make one with `openssl pkey -in KEY -pubout`";
    let read: Result<Vec<_>, _> = SubjectPublicKeyInfoDer::pem_slice_iter(bytes).collect();
    let read = read.map_err(|_| "it is not PEM".to_owned())?;
    if read.is_empty() {
        return Err(FORM.to_owned());
    }
    Ok(read.iter().filter_map(|key| key_of(key)).collect())
}

/// Reads a `SubjectPublicKeyInfo` (RFC 5280, 4.1): the kind of key and its bits.
fn key_of(der: &[u8]) -> Option<VerificationKey> {
    let (info, []) = element(der, SEQUENCE)? else { return None };
    let (algorithm, rest) = element(info, SEQUENCE)?;
    let (bits, []) = element(rest, BIT_STRING)? else { return None };
    // The last byte has no unused bits.
    let key = bits.strip_prefix(&[0])?;
    let material = match algorithm {
        kind if kind == alg_id::RSA_ENCRYPTION.as_ref() => {
            let (numbers, []) = element(key, SEQUENCE)? else { return None };
            let (n, rest) = element(numbers, INTEGER)?;
            let (e, []) = element(rest, INTEGER)? else { return None };
            Material::rsa(n, e)?
        }
        kind if kind == alg_id::ECDSA_P256.as_ref() => Material::P256(key.to_vec()),
        kind if kind == alg_id::ECDSA_P384.as_ref() => Material::P384(key.to_vec()),
        kind if kind == alg_id::ED25519.as_ref() => Material::Ed25519(key.to_vec()),
        _ => return None,
    };
    Some(VerificationKey::bare(material))
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;

/// Reads the first DER element, which must have this tag. Returns its content and the rest.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [found, length, rest @ ..] = der else { return None };
    if *found != tag {
        return None;
    }
    let (length, rest) = match *length {
        short @ 0..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x82 => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}
