//! `certificate`: the client's certificate from the TLS handshake, verified against `client_ca`.

use crocodile_pear::problem::Problems;
use crocodile_pear::scope::{ClientCertificate, Credentials, Scope};
use crocodile_pear::spec;
use crocodile_pear::spec::Located;
use http::HeaderValue;

use super::method::{Judgement, Method, Outcome};
use crate::layer::Compile;

spec! {
    /// The client's certificate, verified by a listener with `client_ca`. It becomes `$claims`, with the same fields
    /// as `$client.certificate`. `{}` accepts every verified certificate.
    pub struct ShownCertificate {
        /// Accepted names: host names, mail addresses, URIs or IP addresses. `*.example.com` matches exactly one
        /// label more.
        pub names: Vec<Located<String>> = Vec::new(),
        /// Accepted subjects, such as `CN=shop,O=Example`.
        pub subjects: Vec<Located<String>> = Vec::new(),
        /// Accepted SHA-256 fingerprints, in hexadecimal, with or without colons.
        pub fingerprints: Vec<Located<String>> = Vec::new(),
    }
}

impl ShownCertificate {
    pub fn compile(&self, cx: &mut Compile<'_>) -> Option<Box<dyn Method>> {
        let fingerprints: Vec<_> = self.fingerprints.iter().map(|written| fingerprint(written, cx.problems)).collect();
        let plain = |written: &Located<String>| written.value.clone();
        Some(Box::new(ReadyCertificate {
            names: self.names.iter().map(|name| name.value.to_ascii_lowercase()).collect(),
            subjects: self.subjects.iter().map(plain).collect(),
            fingerprints: fingerprints.into_iter().collect::<Option<_>>()?,
        }))
    }
}

/// A fingerprint in the form of `$client.certificate.fingerprint`.
fn fingerprint(written: &Located<String>, problems: &mut Problems) -> Option<String> {
    let digits = written.value.replace(':', "").to_ascii_lowercase();
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(digits);
    }
    let remedy = "write the 64 digits that `openssl x509 -noout -fingerprint -sha256 -in FILE` shows";
    problems.error(written.span, "this is not a SHA-256 fingerprint", remedy)
}

/// The compiled method. Without any list, every verified certificate is accepted.
struct ReadyCertificate {
    names: Vec<String>,
    subjects: Vec<String>,
    fingerprints: Vec<String>,
}

impl ReadyCertificate {
    fn admits(&self, shown: &ClientCertificate) -> bool {
        let named = |wanted: &String| shown.names.iter().any(|name| fits(wanted, &name.to_ascii_lowercase()));
        let all = self.names.is_empty() && self.subjects.is_empty() && self.fingerprints.is_empty();
        all || self.names.iter().any(named)
            || self.subjects.contains(&shown.subject)
            || self.fingerprints.contains(&shown.fingerprint)
    }
}

/// Whether `name` is the wanted name or, for a wildcard, has one label before the part after `*.`.
fn fits(wanted: &str, name: &str) -> bool {
    match wanted.strip_prefix("*.") {
        Some(parent) => name.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == parent),
        None => name == wanted,
    }
}

impl Method for ReadyCertificate {
    fn judge<'a>(&'a self, scope: &Scope) -> Judgement<'a> {
        let shown = scope.facts().client().and_then(|client| client.certificate.as_ref());
        Judgement::Now(match shown {
            None => Outcome::Absent,
            Some(shown) if self.admits(shown) => Outcome::Granted(shown.value()),
            Some(_) => Outcome::Refused("the client's certificate is not one of those that may call"),
        })
    }

    /// HTTP cannot ask for a certificate.
    fn challenge(&self, _: Option<&'static str>) -> Option<HeaderValue> {
        None
    }

    fn places(&self, _: &mut Credentials) {}

    fn outline(&self) -> String {
        "a client certificate".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_is_one_label() {
        assert!(fits("*.shop.test", "a.shop.test"));
        assert!(fits("shop.test", "shop.test"));
        for name in ["shop.test", "a.b.shop.test", ".shop.test", "ashop.test"] {
            assert!(!fits("*.shop.test", name), "{name}");
        }
    }
}
