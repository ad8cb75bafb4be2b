//! `listen`: where clients connect, and how.

use std::net::SocketAddr;
use std::sync::Arc;

use crocodile_pear::problem::{Problems, Span};
use crocodile_pear::spec::{Decode, Definitions, Field, Json, Located, Node, only};
use crocodile_pear::upstream::Files;
use crocodile_pear::{choice, spec};

use crate::address;
use crate::forwarded::Trust;
use crate::network::Network;
use crate::server::{Entry, Redirect};

mod tls;

pub use tls::{ListenerTlsSpec, SOON};

/// The port of `https` that a URL need not name.
const HTTPS: u16 = 443;

/// All listeners: one, or a list.
#[derive(Clone, Debug)]
pub struct ListenSpec(pub Vec<ListenerSpec>);

impl Decode for ListenSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let listeners = match node.as_list() {
            Some([]) => {
                return problems.error(node.span, "no listener is in this list", "write `listen: 127.0.0.1:8080`");
            }
            Some(_) => Vec::decode(node, problems),
            None => ListenerSpec::decode(node, problems).map(|listener| vec![listener]),
        };
        listeners.map(ListenSpec)
    }

    fn fields() -> Vec<Field> {
        ListenerSpec::fields()
    }

    fn schema(definitions: &mut Definitions) -> Json {
        serde_json::json!({"anyOf": [ListenerSpec::schema(definitions), Vec::<ListenerSpec>::schema(definitions)]})
    }

    fn written(&self) -> Option<Json> {
        match self.0.as_slice() {
            [ListenerSpec { address, tls: None, redirect: None, proxy_protocol: None }] => {
                Some(address.as_str().into())
            }
            _ => None,
        }
    }
}

impl Default for ListenSpec {
    fn default() -> Self {
        let address = Located::new("127.0.0.1:8080".to_owned(), Span::default());
        ListenSpec(vec![ListenerSpec { address, tls: None, redirect: None, proxy_protocol: None }])
    }
}

choice! {
    /// Whether connections begin with the PROXY protocol.
    pub enum ProxyProtocolSpec {
        /// Those of trusted proxies do; one that does not is closed.
        On = "on",
        /// None does.
        Off = "off",
    }
}

spec! {
    /// An address on which clients connect. Written short as the address alone.
    pub struct ListenerSpec {
        /// `HOST:PORT`; port 0 takes a free one.
        pub address: Located<String>,
        /// TLS (versions 1.2 and 1.3) with clients; in clear unless set.
        pub tls: Option<ListenerTlsSpec>,
        /// Answers every request with 308 and the same URL under `https`, instead of serving it.
        pub redirect: Option<RedirectSpec>,
        /// Whether connections from the addresses of `clients.trust` begin with the PROXY protocol, version 1 or 2, which says who
        /// the client is. Others do not.
        pub proxy_protocol: Option<Located<ProxyProtocolSpec>>,
    }
    short(clear)
}

fn clear(address: Located<String>, problems: &mut Problems) -> Option<ListenerSpec> {
    only([("address", address)], problems)
}

choice! {
    /// Where requests are sent.
    pub enum RedirectSpec {
        /// To the first listener that has `tls`, or to port 443 if none has.
        Https = "https",
    }
}

/// A listener, checked.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Where it listens.
    pub address: SocketAddr,
    /// The same, as written.
    pub written: String,
    /// What its connections have in common.
    pub entry: Arc<Entry>,
    /// Its TLS, as written.
    pub tls: Option<ListenerTlsSpec>,
}

impl ListenSpec {
    /// Checks all of them; every problem is noted.
    pub fn compile(&self, trust: &Trust, files: Files<'_>, problems: &mut Problems) -> Option<Vec<Listening>> {
        let secured = self.0.iter().find(|listener| listener.tls.is_some());
        // A wrong address is told where it stands.
        let port = secured.and_then(|listener| address::read(&listener.address, &mut Problems::default()));
        let redirect = Redirect { port: port.map_or(HTTPS, |address| address.port()) };
        // All are read before one that failed ends it, so that every problem is found.
        let read: Vec<_> = self.0.iter().map(|listener| listener.compile(redirect, trust, files, problems)).collect();
        let listening: Vec<Listening> = read.into_iter().collect::<Option<_>>()?;
        self.clashes(&listening, problems)?;
        if listening.iter().all(|listener| listener.entry.redirect.is_some()) {
            let place = self.0.first().map(|listener| listener.address.span).unwrap_or_default();
            let remedy = "add a listener without `redirect`, as `{ address: 0.0.0.0:443, tls: { certificate: cert.pem, key: key.pem } }`";
            return problems.error(place, "every listener redirects: no endpoint is ever served", remedy);
        }
        Some(listening)
    }

    /// Two listeners cannot have one address.
    fn clashes(&self, listening: &[Listening], problems: &mut Problems) -> Option<()> {
        for (at, (written, one)) in self.0.iter().zip(listening).enumerate() {
            if listening[..at].iter().any(|other| address::clash(one.address, other.address)) {
                let message = format!("two listeners are at `{}`", written.address);
                return problems.error(written.address.span, message, "give each a port of its own");
            }
        }
        Some(())
    }

    /// What needs a restart where it changes.
    pub fn fixed(&self) -> Vec<(&str, bool, bool)> {
        let fixed = |listener: &ListenerSpec| (listener.tls.is_some(), listener.redirect.is_some());
        self.0
            .iter()
            .map(|listener| (listener.address.as_str(), fixed(listener)))
            .map(|(a, (b, c))| (a, b, c))
            .collect()
    }
}

impl ListenerSpec {
    /// The proxies that speak the PROXY protocol.
    fn relays(&self, trust: &Trust, problems: &mut Problems) -> Option<Vec<Network>> {
        match &self.proxy_protocol {
            Some(written) if written.value == ProxyProtocolSpec::On && trust.0.is_empty() => {
                let remedy = "write `clients: { trust: [10.0.0.0/8] }` with the addresses of your proxies";
                problems.error(
                    written.span,
                    "`proxy_protocol` needs `clients.trust`: no proxy would be believed",
                    remedy,
                )
            }
            Some(written) if written.value == ProxyProtocolSpec::On => Some(trust.0.clone()),
            _ => Some(Vec::new()),
        }
    }

    fn compile(
        &self,
        redirect: Redirect,
        trust: &Trust,
        files: Files<'_>,
        problems: &mut Problems,
    ) -> Option<Listening> {
        let address = address::read(&self.address, problems);
        let tls = self.tls.as_ref().map(|tls| tls.compile(self.address.span, files, problems));
        if let (Some(_), Some(_)) = (&self.tls, &self.redirect) {
            let remedy = "leave `redirect` out here; it is for a listener in clear";
            return problems.error(self.address.span, "a listener with `tls` is where `redirect: https` leads", remedy);
        }
        let tls = tls.map_or(Some(None), |tls| tls.map(Some))?;
        let entry = Entry { tls, redirect: self.redirect.map(|_| redirect), relays: self.relays(trust, problems)? };
        let entry = Arc::new(entry);
        Some(Listening { address: address?, written: self.address.value.clone(), entry, tls: self.tls.clone() })
    }
}
