//! Under which key an answer is kept.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

/// The key of an answer: its URL, and everything else that distinguishes it (method, version, identity).
/// A clone shares its text.
#[derive(Clone)]
pub struct Key {
    /// The URL, then the rest.
    text: Arc<[u8]>,
    url: u32,
    hash: u64,
}

/// Whether a key says for whom an answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    #[default]
    All,
    /// For one client: then private answers may be kept.
    One,
}

/// Keys come from clients: the hash is keyed, so that nobody can make many keys collide.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Key {
    /// The key of the answer at this URL (`http://HOST/PATH?QUERY`), with the rest that distinguishes it.
    pub fn new(url: &str, rest: &[u8]) -> Self {
        let text: Arc<[u8]> = [url.as_bytes(), rest].concat().into();
        let length = u32::try_from(url.len()).unwrap_or(u32::MAX);
        Key { hash: HASHER.hash_one((length, &*text)), url: length, text }
    }

    /// The URL, by which it is purged.
    pub fn url(&self) -> &str {
        std::str::from_utf8(&self.text[..self.url as usize]).unwrap_or_default()
    }

    /// The bytes that distinguish the key from others of the same URL.
    pub fn rest(&self) -> &[u8] {
        &self.text[self.url as usize..]
    }

    /// Its hash, the same while the process runs.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The names by which a purge of a URL finds it: with its host, and without.
    pub fn names(&self) -> [PurgeName; 2] {
        let url = self.url();
        [PurgeName::of_url(url), PurgeName::of_url(path(url))]
    }

    /// The bytes of its text.
    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.hash == other.hash && self.url == other.url && self.text == other.text
    }
}

impl Eq for Key {}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The rest may name a credential.
        f.debug_tuple("Key").field(&self.url()).finish()
    }
}

/// The path and query of a URL; what has no scheme is its own path.
pub(crate) fn path(url: &str) -> &str {
    let Some((_, after)) = url.split_once("://") else { return url };
    after.find(['/', '?']).map_or("", |at| &after[at..])
}

/// A tag or a URL, as a hash. Two with the same hash are purged together, which does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PurgeName(u64);

impl PurgeName {
    pub fn of_tag(tag: &str) -> Self {
        PurgeName::of(b't', tag)
    }

    /// The name of a URL, or of a path on all hosts.
    pub fn of_url(url: &str) -> Self {
        PurgeName::of(b'u', url)
    }

    pub(crate) fn of_number(number: u64) -> Self {
        PurgeName(number)
    }

    /// FNV-1a, and a last mix: the same in every gateway that shares a store, of whatever version.
    fn of(kind: u8, text: &str) -> Self {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = text.bytes().fold(step(0xcbf2_9ce4_8422_2325, kind), step);
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        PurgeName(mixed ^ (mixed >> 32))
    }

    /// Its number, the same in all gateways.
    pub fn number(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::*;

    #[test]
    fn what_stands_in_the_url_is_not_mistaken_for_the_rest() {
        assert_ne!(Key::new("http://a/b", b"c"), Key::new("http://a/bc", b""));
        assert_eq!(Key::new("http://a/b", b"c"), Key::new("http://a/b", b"c"));
    }

    #[test]
    fn a_path_is_what_follows_the_host() {
        let pairs = [("http://a/b?c", "/b?c"), ("http://a", ""), ("/b", "/b"), ("https://a?b", "?b")];
        for (url, expected) in pairs {
            assert_eq!(path(url), expected);
        }
    }
}
