//! `certificate`: the client's certificate from the TLS handshake, verified against `client_ca`.

use std::net::SocketAddr;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::Located;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::credentials::Credentials;
use crocodile_pear::unstable::request::facts::{ClientAddress, ClientCertificate};
use crocodile_pear::unstable::spec;
use http::HeaderValue;

use super::method::{Judgement, Method, Outcome};
use crate::layer::Compile;
use crate::net::cidr::Network;

spec! {
    /// The client's certificate, verified by a listener with `client_ca`. It becomes `$claims`, with the same fields
    /// as `$client.certificate`. `{}` accepts every verified certificate; otherwise one entry of one list must fit.
    pub struct ShownCertificate {
        /// Accepted DNS names. `*.example.com` matches exactly one label more.
        pub names: Option<Located<Vec<Located<String>>>>,
        /// Accepted mail addresses: `shop@example.com`.
        pub emails: Option<Located<Vec<Located<String>>>>,
        /// Accepted URIs, such as SPIFFE IDs: `spiffe://example.com/shop`. They must be equal to the letter.
        pub uris: Option<Located<Vec<Located<String>>>>,
        /// Networks of accepted IP addresses in the certificate: `10.0.0.0/8`, or a single address. The address of the
        /// client is not looked at.
        pub addresses: Option<Located<Vec<Located<Network>>>>,
        /// Accepted subjects, such as `CN=shop,O=Example`.
        pub subjects: Option<Located<Vec<Located<String>>>>,
        /// Accepted SHA-256 fingerprints, in hexadecimal, with or without colons.
        pub fingerprints: Option<Located<Vec<Located<String>>>>,
    }
}

impl ShownCertificate {
    pub fn compile(&self, cx: &mut Compile<'_>) -> Option<Box<dyn Method>> {
        let problems = &mut *cx.problems;
        let plain = |written: &Located<String>, _: &mut Problems| Some(written.value.clone());
        let lists = [
            list(self.names.as_ref(), AcceptedNames::Names, dns_name, problems),
            list(self.emails.as_ref(), AcceptedNames::Emails, email, problems),
            list(self.uris.as_ref(), AcceptedNames::Uris, uri, problems),
            list(self.addresses.as_ref(), AcceptedNames::Addresses, |network, _| Some(network.value), problems),
            list(self.subjects.as_ref(), AcceptedNames::Subjects, plain, problems),
            list(self.fingerprints.as_ref(), AcceptedNames::Fingerprints, fingerprint, problems),
        ];
        let lists: Option<Vec<Option<AcceptedNames>>> = lists.into_iter().collect();
        Some(Box::new(ReadyCertificate(lists?.into_iter().flatten().collect())))
    }
}

/// A list of what is accepted; nothing where it is not written.
fn list<T, R>(
    written: Option<&Located<Vec<Located<T>>>>,
    accepted: fn(Vec<R>) -> AcceptedNames,
    read: impl Fn(&Located<T>, &mut Problems) -> Option<R>,
    problems: &mut Problems,
) -> Option<Option<AcceptedNames>> {
    let Some(written) = written else { return Some(None) };
    if written.value.is_empty() {
        let remedy = "name what is accepted, or leave the list out";
        return problems.error(written.span, "this list accepts no certificate", remedy);
    }
    let entries: Vec<Option<R>> = written.value.iter().map(|entry| read(entry, problems)).collect();
    entries.into_iter().collect::<Option<Vec<R>>>().map(|entries| Some(accepted(entries)))
}

/// A DNS name in lower case.
fn dns_name(written: &Located<String>, problems: &mut Problems) -> Option<String> {
    let name = written.value.to_ascii_lowercase();
    let remedy = if name.contains("://") || name.starts_with("urn:") {
        format!("write it under `uris`: `uris: ['{written}']`")
    } else if name.contains('@') {
        format!("write it under `emails`: `emails: ['{written}']`")
    } else if name.parse::<std::net::IpAddr>().is_ok() {
        format!("write it under `addresses`: `addresses: ['{written}']`")
    } else if name.contains('=') {
        format!("write it under `subjects`: `subjects: ['{written}']`")
    } else if is_host(name.strip_prefix("*.").unwrap_or(&name)) {
        return Some(name);
    } else {
        "write `shop.example.com`, or `*.example.com` for one label more".to_owned()
    };
    problems.error(written.span, format!("`{written}` is not a DNS name"), remedy)
}

/// Whether this is the name of a host: labels of letters, digits, `-` and `_`.
fn is_host(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    name.split('.').all(|label| !label.is_empty() && label.bytes().all(fits))
}

/// A mail address whose domain is in lower case. What is before it may differ by case.
fn email(written: &Located<String>, problems: &mut Problems) -> Option<String> {
    lower_domain(&written.value).or_else(|| {
        let remedy = "write it as in the certificate: `shop@example.com`";
        problems.error(written.span, format!("`{written}` is not a mail address"), remedy)
    })
}

fn lower_domain(address: &str) -> Option<String> {
    let (local, domain) = address.rsplit_once('@')?;
    (!local.is_empty() && is_host(domain)).then(|| format!("{local}@{}", domain.to_ascii_lowercase()))
}

fn uri(written: &Located<String>, problems: &mut Problems) -> Option<String> {
    if written.value.contains(':') {
        return Some(written.value.clone());
    }
    let remedy = "write it as in the certificate: `spiffe://example.com/shop`";
    problems.error(written.span, format!("`{written}` is not a URI"), remedy)
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

/// The accepted names of one kind. A name of another kind never fits, whatever its text.
enum AcceptedNames {
    Names(Vec<String>),
    Emails(Vec<String>),
    Uris(Vec<String>),
    Addresses(Vec<Network>),
    Subjects(Vec<String>),
    Fingerprints(Vec<String>),
}

impl AcceptedNames {
    fn admits(&self, shown: &ClientCertificate) -> bool {
        match self {
            AcceptedNames::Names(wanted) => shown.names.iter().any(|name| {
                let name = name.to_ascii_lowercase();
                wanted.iter().any(|wanted| fits(wanted, &name))
            }),
            AcceptedNames::Emails(wanted) => {
                shown.emails.iter().filter_map(|email| lower_domain(email)).any(|email| wanted.contains(&email))
            }
            AcceptedNames::Uris(wanted) => shown.uris.iter().any(|uri| wanted.contains(uri)),
            AcceptedNames::Addresses(wanted) => shown.addresses.iter().any(|address| {
                let address = ClientAddress::from(SocketAddr::new(*address, 0));
                wanted.iter().any(|network| network.contains(address))
            }),
            AcceptedNames::Subjects(wanted) => wanted.contains(&shown.subject),
            AcceptedNames::Fingerprints(wanted) => wanted.contains(&shown.fingerprint),
        }
    }
}

/// Whether `name` is the wanted name or, for a wildcard, has one label before the part after `*.`.
fn fits(wanted: &str, name: &str) -> bool {
    match wanted.strip_prefix("*.") {
        Some(parent) => name.split_once('.').is_some_and(|(label, rest)| is_host(label) && rest == parent),
        None => name == wanted,
    }
}

/// The compiled method. Without any list, every verified certificate is accepted.
struct ReadyCertificate(Vec<AcceptedNames>);

impl Method for ReadyCertificate {
    fn judge<'a>(&'a self, scope: &Scope) -> Judgement<'a> {
        let shown = scope.facts().client().and_then(|client| client.certificate.as_ref());
        Judgement::Now(match shown {
            None => Outcome::Absent,
            Some(shown) if self.0.is_empty() || self.0.iter().any(|accepted| accepted.admits(shown)) => {
                Outcome::Granted(shown.value())
            }
            Some(_) => Outcome::Refused("the client's certificate is not one of those that may call"),
        })
    }

    /// HTTP cannot ask for a certificate.
    fn challenge(&self, _: Option<&'static str>) -> Option<HeaderValue> {
        None
    }

    fn places(&self, _: &mut Credentials) {}

    fn is_ambient(&self) -> bool {
        true
    }

    fn outline(&self) -> String {
        "a client certificate".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_one_label() {
        assert!(fits("*.shop.test", "a.shop.test"));
        assert!(fits("shop.test", "shop.test"));
        for name in
            ["shop.test", "a.b.shop.test", ".shop.test", "ashop.test", "a@b.shop.test", "*.shop.test", "a/.shop.test"]
        {
            assert!(!fits("*.shop.test", name), "{name}");
        }
    }

    #[test]
    fn a_name_of_one_kind_is_no_name_of_another() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let network = |text: &str| crocodile_pear::unstable::config::spec::Node::from_json(&text.into());
        let networks = vec![
            crocodile_pear::unstable::config::spec::Decode::decode(&network("10.0.0.0/8"), &mut Problems::default())
                .expect("a network"),
        ];
        let accepted = [
            AcceptedNames::Names(texts(&["shop.test", "*.shop.test", "10.0.0.7"])),
            AcceptedNames::Emails(texts(&["shop@shop.test"])),
            AcceptedNames::Uris(texts(&["spiffe://shop.test/a", "shop.test"])),
            AcceptedNames::Addresses(networks),
            AcceptedNames::Subjects(texts(&["CN=shop.test"])),
        ];
        let none = ClientCertificate::default;
        let names = |names: &[&str]| ClientCertificate { names: texts(names), ..none() };
        let emails = |emails: &[&str]| ClientCertificate { emails: texts(emails), ..none() };
        let uris = |uris: &[&str]| ClientCertificate { uris: texts(uris), ..none() };
        for (shown, wanted) in [
            (names(&["other.test", "A.SHOP.test"]), Some(0)),
            (names(&["shop@shop.test"]), None),
            (names(&["spiffe://shop.test/a"]), None),
            (names(&["CN=shop.test"]), None),
            (emails(&["shop@SHOP.test"]), Some(1)),
            (emails(&["shop.test"]), None),
            (emails(&["a.shop.test"]), None),
            (emails(&["SHOP@shop.test"]), None),
            (emails(&["x@shop.test@shop.test"]), None),
            (emails(&["spiffe://shop.test/a"]), None),
            (uris(&["spiffe://shop.test/a"]), Some(2)),
            (uris(&["shop.test"]), Some(2)),
            (uris(&["a.shop.test"]), None),
            (uris(&["spiffe://shop.test/a/b"]), None),
            (ClientCertificate { addresses: vec!["10.0.0.7".parse().expect("an address")], ..none() }, Some(3)),
            (ClientCertificate { addresses: vec!["11.0.0.7".parse().expect("an address")], ..none() }, None),
            (ClientCertificate { subject: "CN=shop.test".to_owned(), ..none() }, Some(4)),
            (ClientCertificate { subject: "shop.test".to_owned(), ..none() }, None),
            (none(), None),
        ] {
            let admitted = accepted.iter().position(|accepted| accepted.admits(&shown));
            assert_eq!(admitted, wanted, "{shown:?}");
        }
    }
}
