//! `preset`: common security fields, with the reason for each.

use crocodile_pear::unstable::choice;
use http::header::{
    CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY, SERVER, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};

choice! {
    /// Fields that protect browsers and their users.
    pub enum Preset {
        /// For web pages: `strict-transport-security: max-age=31536000` (HTTPS only, for a year; browsers ignore it
        /// over plain HTTP), `content-security-policy: base-uri 'self'; frame-ancestors 'self'; object-src 'none'`
        /// and `x-frame-options: SAMEORIGIN` (no frames on other sites, no plugins), `x-content-type-options:
        /// nosniff` (browsers trust the content type), `referrer-policy: strict-origin-when-cross-origin` (other
        /// sites see only the origin), `cross-origin-opener-policy: same-origin` (other sites get no handle on the
        /// window) and `x-permitted-cross-domain-policies: none`.
        Secure = "secure",
        /// For APIs, whose answers are not shown by browsers: like `secure`, but with `content-security-policy:
        /// default-src 'none'; frame-ancestors 'none'`, `x-frame-options: DENY` and `referrer-policy: no-referrer`,
        /// and without `cross-origin-opener-policy`.
        Api = "api",
    }
}

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const CROSS_DOMAIN: HeaderName = HeaderName::from_static("x-permitted-cross-domain-policies");

/// Fields that reveal the server software.
const TELLTALE: [HeaderName; 2] = [SERVER, HeaderName::from_static("x-powered-by")];

const ALL: [(HeaderName, &str); 3] =
    [(STRICT_TRANSPORT_SECURITY, "max-age=31536000"), (X_CONTENT_TYPE_OPTIONS, "nosniff"), (CROSS_DOMAIN, "none")];

const PAGES: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, "base-uri 'self'; frame-ancestors 'self'; object-src 'none'"),
    (X_FRAME_OPTIONS, "SAMEORIGIN"),
    (REFERRER_POLICY, "strict-origin-when-cross-origin"),
    (OPENER_POLICY, "same-origin"),
];

const APIS: [(HeaderName, &str); 3] = [
    (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
];

impl Preset {
    /// Adds the fields that the answer does not have, and removes those that reveal the server software.
    pub fn apply(self, headers: &mut HeaderMap) {
        for name in &TELLTALE {
            headers.remove(name);
        }
        let own = match self {
            Preset::Secure => &PAGES[..],
            Preset::Api => &APIS[..],
        };
        for (name, value) in ALL.iter().chain(own) {
            headers.entry(name.clone()).or_insert(HeaderValue::from_static(value));
        }
    }
}
