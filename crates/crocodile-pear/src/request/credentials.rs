//! Where clients put their credentials. What a gateway has checked is for the gateway: it is not forwarded unless the
//! configuration names it.

use std::borrow::Cow;

use http::header::{COOKIE, HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

/// The places of credentials in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Header fields.
    pub headers: Vec<HeaderName>,
    /// Parameters of the query, decoded.
    pub query: Vec<String>,
    pub cookies: Vec<String>,
}

impl Credentials {
    /// Removes the header fields, for a call that forwards all of them.
    pub(crate) fn remove_headers(&self, headers: &mut HeaderMap) {
        for name in &self.headers {
            headers.remove(name);
        }
    }

    /// Removes the cookies from forwarded `cookie` fields; the other cookies stay.
    pub(crate) fn remove_cookies(&self, headers: &mut HeaderMap) {
        if self.cookies.is_empty() || !headers.contains_key(COOKIE) {
            return;
        }
        let left: Vec<HeaderValue> =
            headers.get_all(COOKIE).iter().filter_map(|field| self.other_cookies(field)).collect();
        headers.remove(COOKIE);
        for field in left {
            headers.append(COOKIE, field);
        }
    }

    fn other_cookies(&self, field: &HeaderValue) -> Option<HeaderValue> {
        let mine = |pair: &[u8]| {
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            self.cookies.iter().any(|cookie| cookie.as_bytes() == name)
        };
        let pairs = field.as_bytes().split(|byte| *byte == b';').filter(|pair| !mine(pair));
        let others = pairs.map(<[u8]>::trim_ascii).collect::<Vec<_>>().join(&b"; "[..]);
        HeaderValue::from_bytes(&others).ok().filter(|others| !others.is_empty())
    }

    /// The query without the parameters; the others stay as they came.
    pub(crate) fn other_parameters<'a>(&self, query: &'a str) -> Cow<'a, str> {
        let mine = |pair: &&str| {
            let name = pair.split('=').next().unwrap_or_default().replace('+', " ");
            let name = percent_decode_str(&name).decode_utf8_lossy();
            self.query.iter().any(|parameter| *parameter == name)
        };
        if self.query.is_empty() || !query.split('&').any(|pair| mine(&pair)) {
            return Cow::Borrowed(query);
        }
        query.split('&').filter(|pair| !mine(pair)).collect::<Vec<_>>().join("&").into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::credentials::*;

    fn credentials() -> Credentials {
        Credentials { headers: Vec::new(), query: vec!["key".to_owned()], cookies: vec!["session".to_owned()] }
    }

    #[test]
    fn other_cookies_stay() {
        for (field, left) in [
            ("a=1; session=secret; b=2", Some("a=1; b=2")),
            ("session=secret", None),
            ("a=session; xsession=1", Some("a=session; xsession=1")),
            (" session =secret;a=1", Some("a=1")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, HeaderValue::from_static(field));
            credentials().remove_cookies(&mut headers);
            assert_eq!(headers.get(COOKIE).map(HeaderValue::as_bytes), left.map(str::as_bytes), "{field}");
        }
    }

    #[test]
    fn other_parameters_stay_as_they_came() {
        for (query, left) in [
            ("a=%41&key=secret&b=2", "a=%41&b=2"),
            ("key=secret", ""),
            ("k%65y=secret&a", "a"),
            ("key&keys=1", "keys=1"),
            ("a=key&&b", "a=key&&b"),
        ] {
            assert_eq!(credentials().other_parameters(query), left, "{query}");
        }
    }
}
