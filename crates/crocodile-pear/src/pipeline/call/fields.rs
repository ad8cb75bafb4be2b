//! The header fields that a call has by its method.

use http::Method;
use http::header::ORIGIN;

use crate::http::http1::fields::plain;
use crate::request::context::Scope;
use crate::upstream::CallFields;

/// Whether a request with this method has a `content-length` even if its body is empty.
pub(super) fn takes_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

/// Adds the fields by which a client and a server agree on WebSocket (RFC 6455, 4.1): without them there is none. The
/// server gets `origin` whatever is forwarded: browsers send cookies with the upgrade of any page, and nothing else says
/// which page it is (RFC 6455, 10.2).
pub(super) fn copy_websocket_headers(scope: &Scope, fields: &mut CallFields) {
    for name in scope.headers().keys().filter(|name| name.as_str().starts_with("sec-websocket-") && plain(name)) {
        fields.hand_on(name, scope.headers());
    }
    fields.hand_on(&ORIGIN, scope.headers());
}
