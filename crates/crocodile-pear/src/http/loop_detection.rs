//! Through which gateways a request has come (RFC 9110, 7.6.2 and 7.6.3), and that it does not come back.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use http::header::{MAX_FORWARDS, VIA};
use http::{HeaderMap, HeaderValue, Version};

use crate::error::{Error, Kind};

/// The entry of this process in `via`.
struct ViaEntry {
    name: String,
    old: String,
    usual: String,
    two: String,
}

/// The name is this process's own: another process is another gateway, and no loop.
static OWN: LazyLock<ViaEntry> = LazyLock::new(|| {
    let number = RandomState::new().build_hasher().finish();
    let name = format!("crocodile-pear-{number:016x}");
    let entry = |version| format!("{version} {name}");
    ViaEntry { old: entry("1.0"), usual: entry("1.1"), two: entry("2"), name }
});

/// The text that is added to `via` where a request came in this version of HTTP.
pub fn entry(received: Version) -> &'static str {
    match received {
        Version::HTTP_10 => &OWN.old,
        Version::HTTP_2 => &OWN.two,
        _ => &OWN.usual,
    }
}

/// How many further gateways a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwards {
    /// The request has no such field.
    Any,
    /// So many; 0 is for the gateway itself.
    AtMost(u64),
}

/// The value of `Max-Forwards`. A value that is not a number is ignored.
pub fn forwards(headers: &HeaderMap) -> Forwards {
    let digits = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let written = headers.get(MAX_FORWARDS).and_then(|value| value.to_str().ok()).filter(digits);
    // More than a number holds is more than there are gateways.
    written.map_or(Forwards::Any, |text| Forwards::AtMost(text.parse().unwrap_or(u64::MAX)))
}

/// Checks that a request may go on from here.
///
/// # Errors
/// `Loop` where it was here before, or has taken as many gateways as it may.
pub fn check(headers: &HeaderMap) -> Result<(), Error> {
    let own = OWN.name.as_bytes();
    let here = |value: &HeaderValue| memchr::memmem::find(value.as_bytes(), own).is_some();
    if headers.get_all(VIA).iter().any(here) {
        return Err(Error::new(Kind::Loop, "the request came back to the gateway that sent it (`Via`)"));
    }
    match forwards(headers) {
        Forwards::AtMost(0) => {
            Err(Error::new(Kind::Loop, "the request may not be forwarded any further (`Max-Forwards: 0`)"))
        }
        _ => Ok(()),
    }
}

/// Takes along what the client's request says of its way: a call is its continuation, whatever else it is.
pub fn hand_on(client: &HeaderMap, call: &mut HeaderMap) {
    call.remove(VIA);
    for value in client.get_all(VIA) {
        call.append(VIA, value.clone());
    }
    match forwards(client) {
        Forwards::Any => drop(call.remove(MAX_FORWARDS)),
        Forwards::AtMost(number) => drop(call.insert(MAX_FORWARDS, number.saturating_sub(1).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::loop_detection::*;

    fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn a_request_that_comes_back_is_known() {
        assert!(check(&fields(&[("via", "1.0 cache, 2 crocodile-pear-0 (a, b)")])).is_ok());
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            let back = check(&fields(&[("via", &format!("1.1 other, {}, 1.1 third", entry(version)))]));
            assert_eq!(back.expect_err("a loop").kind(), Kind::Loop);
        }
        assert!(check(&fields(&[("max-forwards", "0")])).is_err());
        for good in ["1", "99999999999999999999999999", "-1", "a", ""] {
            assert!(check(&fields(&[("max-forwards", good)])).is_ok(), "{good}");
        }
    }

    #[test]
    fn the_way_is_handed_on_and_one_gateway_longer() {
        let mut call = fields(&[("via", "1.1 made-up"), ("max-forwards", "9"), ("x", "1")]);
        hand_on(&fields(&[("via", "1.0 cache"), ("via", "1.1 b"), ("max-forwards", "3")]), &mut call);
        assert_eq!(call.get_all("via").iter().collect::<Vec<_>>(), ["1.0 cache", "1.1 b"]);
        assert_eq!(
            (&call["max-forwards"], &call["x"]),
            (&HeaderValue::from_static("2"), &HeaderValue::from_static("1"))
        );
        hand_on(&fields(&[]), &mut call);
        assert_eq!(call.len(), 1);
    }
}
