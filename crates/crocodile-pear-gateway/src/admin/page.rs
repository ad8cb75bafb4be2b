//! `/`: the operators' page, one document that needs nothing from elsewhere.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use crocodile_pear::unstable::message::body::AnswerBody;
use http::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use ring::digest::{SHA256, digest};

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The document, and what browsers may do with it.
static PAGE: LazyLock<(Bytes, HeaderValue)> = LazyLock::new(|| {
    let document = HTML.replace("/* page.css */", STYLE).replace("/* page.js */", SCRIPT);
    let sum = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    // Only this style and this script, and only calls to where the page came from.
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        sum(STYLE),
        sum(SCRIPT)
    );
    let policy = HeaderValue::from_str(&policy).expect("it is ASCII");
    (document.into(), policy)
});

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

pub fn show() -> Response<AnswerBody> {
    let (document, policy) = &*PAGE;
    let mut response = Response::new(AnswerBody::Bytes(document.clone()));
    let fields = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, policy.clone()),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin")),
    ];
    response.headers_mut().extend(fields);
    response
}
