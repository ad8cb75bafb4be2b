//! Facts about a request besides its own fields: the client, the endpoint that serves it, its id, and the findings of the
//! layers.

use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use http::{HeaderName, HeaderValue, Version};

use super::credentials::Credentials;
use crate::jq::{self, Value};
use crate::json::value::number;
use crate::runtime::hex;

/// The client, as the gateway sees it.
#[derive(Clone, Debug)]
pub struct ClientFacts {
    /// The address at the other end.
    pub address: ClientAddress,
    /// The version of HTTP that the request came in.
    pub version: Version,
    /// Whether TLS carried it.
    pub tls: bool,
    /// The certificate that the client has shown, and the gateway has verified.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// The host of the request, if a proxy in front names it.
    pub host: Option<HeaderValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAddress {
    /// Behind an address of the network.
    Network(SocketAddr),
    /// On this machine, at the other end of a Unix socket. Those have no address.
    Unix,
    /// Behind a trusted proxy that did not say who it is, or not in a way that can be read. No network contains it.
    Unknown,
}

impl ClientAddress {
    /// The IP address, if it has one. An IPv4 client of an IPv6 socket is an IPv4 client.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            ClientAddress::Network(address) => Some(address.ip().to_canonical()),
            ClientAddress::Unix | ClientAddress::Unknown => None,
        }
    }

    fn port(&self) -> Option<u16> {
        match self {
            ClientAddress::Network(address) => Some(address.port()),
            ClientAddress::Unix | ClientAddress::Unknown => None,
        }
    }
}

impl From<SocketAddr> for ClientAddress {
    fn from(address: SocketAddr) -> Self {
        // An IPv4 client of a socket for both versions is that IPv4 client: networks, and limits by address, know no other.
        ClientAddress::Network(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }
}

impl fmt::Display for ClientAddress {
    /// Without the port. A Unix socket is `unix:`, as nginx has it; one that is not known is `unknown`, as in RFC 7239.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientAddress::Network(address) => address.ip().to_canonical().fmt(f),
            ClientAddress::Unix => f.write_str("unix:"),
            ClientAddress::Unknown => f.write_str("unknown"),
        }
    }
}

/// A client's certificate, verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its subject (RFC 4514): `CN=shop,O=Example`.
    pub subject: String,
    /// The issuer of the certificate, likewise.
    pub issuer: String,
    /// The DNS names of its subject.
    pub names: Vec<String>,
    /// Its mail addresses.
    pub emails: Vec<String>,
    /// Its URIs, as those of SPIFFE.
    pub uris: Vec<String>,
    pub addresses: Vec<IpAddr>,
    /// Its serial number, hexadecimal in lower case.
    pub serial: String,
    /// The SHA-256 of the certificate, hexadecimal in lower case.
    pub fingerprint: String,
}

impl ClientCertificate {
    /// `$client.certificate`
    pub fn value(&self) -> Value {
        let list = |texts: &[String]| jq::list(texts.iter().map(|text| jq::string(text)).collect());
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        jq::object([
            ("subject", jq::string(&self.subject)),
            ("issuer", jq::string(&self.issuer)),
            ("names", list(&self.names)),
            ("emails", list(&self.emails)),
            ("uris", list(&self.uris)),
            ("addresses", list(&addresses)),
            ("serial", jq::string(&self.serial)),
            ("fingerprint", jq::string(&self.fingerprint)),
        ])
    }
}

impl ClientFacts {
    /// The protocol as `$client.protocol` has it.
    pub fn protocol(&self) -> &'static str {
        match self.version {
            Version::HTTP_09 => "HTTP/0.9",
            Version::HTTP_10 => "HTTP/1.0",
            Version::HTTP_2 => "HTTP/2",
            Version::HTTP_3 => "HTTP/3",
            _ => "HTTP/1.1",
        }
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// `$client`
    fn value(&self) -> Value {
        jq::object([
            ("address", jq::string(&self.address.to_string())),
            ("port", self.address.port().map_or_else(jq::null, |port| number(&port.to_string()))),
            ("protocol", jq::string(self.protocol())),
            ("certificate", self.certificate.as_ref().map_or_else(jq::null, |certificate| certificate.value())),
        ])
    }
}

/// The facts of one request. A pipeline that no gateway runs has none, and its expressions see null.
#[derive(Clone, Default)]
pub struct Facts {
    client: Option<ClientFacts>,
    client_value: OnceLock<Value>,
    route: Option<Arc<str>>,
    id: OnceLock<Digits>,
    found: Vec<(&'static str, Value)>,
    credentials: Option<Arc<Credentials>>,
    granted: Option<Arc<[GrantedField]>>,
}

/// A header field that a service answered for a request that it let pass; without a value, the client's own is left out.
pub type GrantedField = (HeaderName, Option<HeaderValue>);

impl Facts {
    /// The facts of a request that came from this client.
    pub fn of(client: ClientFacts) -> Self {
        Facts { client: Some(client), ..Facts::default() }
    }

    pub fn client(&self) -> Option<&ClientFacts> {
        self.client.as_ref()
    }

    pub fn set_client(&mut self, client: ClientFacts) {
        self.client = Some(client);
        self.client_value.take();
    }

    /// The endpoint that serves the request, as it is written; `None` if there is none, or if no expression uses it.
    pub fn route(&self) -> Option<&Arc<str>> {
        self.route.as_ref()
    }

    /// Says which endpoint serves the request.
    pub fn set_route(&mut self, route: Arc<str>) {
        self.route = Some(route);
    }

    /// The request's id, made when it is first asked for: 32 hexadecimal digits, as a trace id has them.
    pub fn id(&self) -> &str {
        std::str::from_utf8(self.id_digits()).expect("hexadecimal digits are ASCII")
    }

    /// The same, as bytes.
    pub fn id_digits(&self) -> &[u8; 32] {
        self.id.get_or_init(make)
    }

    /// Notes what was found out of the request, for expressions as `$name`.
    pub fn put(&mut self, name: &'static str, value: Value) {
        self.found.retain(|(known, _)| *known != name);
        self.found.push((name, value));
    }

    pub fn found(&self, name: &str) -> Option<&Value> {
        self.found.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Where the client's credentials are, if they were checked and so are not forwarded.
    pub fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_deref()
    }

    pub fn set_credentials(&mut self, credentials: Arc<Credentials>) {
        self.credentials = Some(credentials);
    }

    /// The header fields that every call for this request has, in place of the client's.
    pub fn granted(&self) -> &[GrantedField] {
        self.granted.as_deref().unwrap_or_default()
    }

    /// Sets them.
    pub fn grant(&mut self, fields: Arc<[GrantedField]>) {
        self.granted = Some(fields).filter(|fields| !fields.is_empty());
    }

    /// `$client`, `$route` or `$id`; null for what is not known.
    pub(crate) fn variable(&self, name: &str) -> Value {
        let Some(client) = &self.client else { return jq::null() };
        match name {
            "client" => self.client_value.get_or_init(|| client.value()).clone(),
            "route" => self.route.as_ref().map_or_else(jq::null, |route| jq::string(route)),
            _ => jq::string(self.id()),
        }
    }
}

type Digits = [u8; 32];

thread_local! {
    /// A key that no other thread or process has, and how many ids were made with it.
    static IDS: RefCell<(RandomState, u64)> = RefCell::new((RandomState::new(), 0));
}

/// An id that is unique and cannot be predicted: a keyed hash of a counter.
fn make() -> Digits {
    let halves = IDS.with_borrow_mut(|(key, made)| {
        *made += 2;
        [key.hash_one(*made), key.hash_one(*made + 1)]
    });
    let mut digits = [0; 32];
    for (place, half) in digits.as_chunks_mut().0.iter_mut().zip(halves) {
        *place = hex::digits(half);
    }
    digits
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::facts::*;

    fn client(address: &str) -> ClientFacts {
        ClientFacts {
            address: address.parse::<SocketAddr>().expect("an address").into(),
            version: Version::HTTP_11,
            tls: false,
            certificate: None,
            host: None,
        }
    }

    #[test]
    fn an_id_is_made_once_for_a_request_and_never_again() {
        let ids: HashSet<String> = (0..10_000).map(|_| Facts::default().id().to_owned()).collect();
        assert_eq!(ids.len(), 10_000);
        let one = Facts::default();
        assert_eq!(one.id(), one.id());
        assert!(one.id().len() == 32 && one.id().bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
    }

    #[test]
    fn a_client_has_an_address_a_port_and_a_protocol() {
        for (address, told) in [("10.0.0.1:80", "10.0.0.1"), ("[::ffff:10.0.0.1]:80", "10.0.0.1"), ("[::1]:80", "::1")]
        {
            let wanted = format!(r#"{{"address":"{told}","port":80,"protocol":"HTTP/1.1","certificate":null}}"#);
            assert_eq!(Facts::of(client(address)).variable("client").to_string(), wanted);
        }
    }

    #[test]
    fn a_client_at_a_unix_socket_has_no_port() {
        let client = ClientFacts { address: ClientAddress::Unix, ..client("10.0.0.1:80") };
        let wanted = r#"{"address":"unix:","port":null,"protocol":"HTTP/1.1","certificate":null}"#;
        assert_eq!(Facts::of(client).variable("client").to_string(), wanted);
    }

    #[test]
    fn without_a_gateway_there_are_no_facts() {
        for name in ["client", "route", "id"] {
            assert_eq!(Facts::default().variable(name), jq::null());
        }
    }

    #[test]
    fn another_client_takes_the_place_of_the_one_that_connected() {
        let mut facts = Facts::of(client("10.0.0.1:80"));
        let _ = facts.variable("client");
        facts.set_client(client("192.0.2.7:9"));
        assert!(facts.variable("client").to_string().contains("192.0.2.7"));
    }

    #[test]
    fn what_is_found_out_twice_is_known_as_it_was_found_last() {
        let mut facts = Facts::default();
        facts.put("claims", jq::string("a"));
        facts.put("claims", jq::string("b"));
        assert_eq!(facts.found("claims"), Some(&jq::string("b")));
        assert_eq!(facts.found("other"), None);
    }
}
