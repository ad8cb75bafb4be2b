//! The methods whose answers a cache keeps.

use http::Method;
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE,
};
use sha2::{Digest, Sha256};

/// The fields of a request that a cache answers itself.
pub const CONDITIONS: [HeaderName; 2] = [IF_NONE_MATCH, IF_MODIFIED_SINCE];

crate::choice! {
    /// A method whose answers may be kept.
    pub enum CachedMethod {
        /// Answers to it are kept.
        Get = "GET",
        /// HEAD is answered from an entry of GET.
        Head = "HEAD",
        /// For an API that asks with it and changes nothing: its body is a part of the key.
        Post = "POST",
        /// A safe method with a body, which is a part of the key.
        Query = "QUERY",
    }
}

#[derive(Clone, Debug)]
pub struct Methods(Vec<CachedMethod>);

/// How a cache serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheService {
    /// The method is handled as RFC 9111 describes: answered from the cache, or it invalidates an entry.
    Usual,
    /// The method is handled like GET, with its body in the key.
    WithBody,
    /// Not at all.
    None,
}

impl Default for Methods {
    fn default() -> Self {
        Methods(vec![CachedMethod::Get, CachedMethod::Head])
    }
}

impl Methods {
    pub fn new(methods: Vec<CachedMethod>) -> Self {
        Methods(methods)
    }

    /// How a request of this method is served, with these header fields.
    pub fn serve(&self, method: &Method, headers: &HeaderMap) -> CacheService {
        let has = self.0.iter().any(|kept| kept.word() == method.as_str());
        match method.as_str() {
            "GET" | "HEAD" if !has => CacheService::None,
            "POST" | "QUERY" if has => {
                // For these methods they mean something else (RFC 9110, 13.2.1), and are for the upstream.
                let own = CONDITIONS.iter().chain([&RANGE]).any(|name| headers.contains_key(name));
                if own { CacheService::None } else { CacheService::WithBody }
            }
            _ => CacheService::Usual,
        }
    }
}

/// The bytes that the body of a request adds to the key of its answer.
pub fn digest(method: &Method, headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let mut digest = Sha256::new();
    let field = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b"\n"[..]);
    for part in [method.as_str().as_bytes(), &field(CONTENT_TYPE), &field(CONTENT_ENCODING), body] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().to_vec()
}
