//! `listen`: where clients connect, and how.

use std::path::Path;
use std::sync::Arc;

use crocodile_pear::unstable::config::files::Files;
use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Field, Json, Located, Node, only};
use crocodile_pear::unstable::request::facts::ClientAddress;
use crocodile_pear::unstable::{choice, spec};

use crate::net::address::{self, Address};
use crate::net::cidr::Network;
use crate::net::trusted_proxies::TrustedProxies;
use crate::server::{Challenges, ListenerSettings, Mode, Redirect};
use acme::AllowedChallenges;

mod acme;
mod tls;

pub use acme::{Acme, AcmeAccount, AcmeSpec, CALL, ChallengeSpec, Folder, key};
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
            [ListenerSpec { address, mode: None, tls: None, redirect: None, proxy_protocol: None }] => {
                Some(address.as_str().into())
            }
            _ => None,
        }
    }
}

impl Default for ListenSpec {
    fn default() -> Self {
        let address = Located::new("127.0.0.1:8080".to_owned(), Span::default());
        ListenSpec(vec![ListenerSpec { address, mode: None, tls: None, redirect: None, proxy_protocol: None }])
    }
}

choice! {
    /// Whether connections begin with the PROXY protocol.
    pub enum ProxyProtocolSpec {
        /// Connections from trusted proxies must begin with it; one that does not is closed.
        On = "on",
        /// Not used.
        Off = "off",
    }
}

spec! {
    /// An address where clients connect. Short form: the address.
    pub struct ListenerSpec {
        /// `HOST:PORT`, `:PORT` for every address of the machine (IPv6 and IPv4), or `unix:/PATH` for a Unix socket. Port 0
        /// picks a free port. The gateway replaces a socket
        /// file that a dead process left behind, and removes its own when it stops.
        pub address: Located<String>,
        /// The permissions of the Unix socket's file, in octal: `0660` lets the gateway's own user and group connect,
        /// `0666` everybody. Default: `0660`.
        pub mode: Option<Located<FileModeSpec>>,
        /// TLS (1.2 and 1.3) for clients. Off by default.
        pub tls: Option<ListenerTlsSpec>,
        /// Answers every request with a redirect (308) to the same URL with `https`, instead of serving it.
        pub redirect: Option<RedirectSpec>,
        /// Whether trusted proxies use the PROXY protocol, version 1 or 2, to say who the client is. It applies to
        /// connections from the addresses in `clients.trust`, and to no others. At a Unix socket it applies to all
        /// connections, if `clients.trust` has `unix`.
        pub proxy_protocol: Option<Located<ProxyProtocolSpec>>,
    }
    short(clear)
}

fn clear(address: Located<String>, problems: &mut Problems) -> Option<ListenerSpec> {
    only([("address", address)], problems)
}

/// The permissions of a file, in octal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileModeSpec(u32);

impl Decode for FileModeSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        const WANTED: &str = "permissions in octal digits, as `0660`";
        let text = node.expect_text(WANTED, problems)?;
        let digits = text.as_str().strip_prefix("0o").unwrap_or(text.as_str());
        let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| digits.len() >= 3 && *mode <= 0o777);
        let remedy = "write `0660` for user and group, `0666` for everybody, `0600` for the user alone";
        mode.map(FileModeSpec).or_else(|| node.wrong(WANTED, remedy, problems))
    }

    fn schema(_: &mut Definitions) -> Json {
        serde_json::json!({"type": ["integer", "string"], "examples": ["0660"]})
    }
}

choice! {
    /// Where requests are sent.
    pub enum RedirectSpec {
        /// Redirects to the first listener with `tls`, or to port 443 if there is none.
        Https = "https",
    }
}

/// The folder of a Unix socket may still come: it is a warning where it is not there.
pub fn check_folder(path: &Path, written: &Located<String>, problems: &mut Problems) {
    let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) else { return };
    let message = format!("there is no folder `{}`", folder.display());
    let remedy = format!("make it before the gateway runs: `mkdir -p {}`", folder.display());
    problems.warning(written.span, message, remedy);
}

/// A listener, checked.
#[derive(Clone, Debug)]
pub struct CompiledListener {
    pub address: Address,
    /// The mode of a Unix socket.
    pub mode: Mode,
    /// The same, as written.
    pub written: String,
    /// The settings that its connections have in common.
    pub settings: Arc<ListenerSettings>,
    /// Its TLS, as written.
    pub tls: Option<ListenerTlsSpec>,
    /// The certificates that are ordered for it.
    pub acme: Option<Arc<Acme>>,
}

impl ListenSpec {
    /// Checks all of them; every problem is noted.
    pub fn compile(
        &self,
        trust: &TrustedProxies,
        files: Files<'_>,
        problems: &mut Problems,
    ) -> Option<Vec<CompiledListener>> {
        let secured = self.0.iter().find(|listener| listener.tls.is_some());
        // A wrong address is told where it stands.
        let port = secured.and_then(|listener| address::read(&listener.address, &mut Problems::default()));
        let redirect = Redirect::new(port.and_then(|address| address.port()).unwrap_or(HTTPS));
        let shared = CommonSettings { redirect, trust, allowed: self.allowed(), challenges: Arc::default() };
        // All are read before one that failed ends it, so that every problem is found.
        let read: Vec<_> = self.0.iter().map(|listener| listener.compile(&shared, files, problems)).collect();
        let listening: Vec<CompiledListener> = read.into_iter().collect::<Option<_>>()?;
        self.clashes(&listening, problems)?;
        accounts(&listening, problems)?;
        trust.check(self.0.iter().any(ListenerSpec::has_proxy_protocol), problems)?;
        if listening.iter().all(|listener| listener.settings.redirect.is_some()) {
            let place = self.0.first().map(|listener| listener.address.span).unwrap_or_default();
            let remedy = "add a listener without `redirect`, as `{ address: 0.0.0.0:443, tls: { certificate: cert.pem, key: key.pem } }`";
            return problems.error(place, "every listener redirects: no endpoint is ever served", remedy);
        }
        Some(listening)
    }

    /// Where an authority can ask.
    fn allowed(&self) -> AllowedChallenges {
        let mut allowed = AllowedChallenges::default();
        for listener in &self.0 {
            let port = address::read(&listener.address, &mut Problems::default()).and_then(|address| address.port());
            allowed.clear |= listener.tls.is_none();
            allowed.port_80 |= listener.tls.is_none() && port == Some(80);
            allowed.port_443 |= listener.tls.is_some() && port == Some(HTTPS);
        }
        allowed
    }

    /// Two listeners cannot have one address.
    fn clashes(&self, listening: &[CompiledListener], problems: &mut Problems) -> Option<()> {
        for (at, (written, one)) in self.0.iter().zip(listening).enumerate() {
            if listening[..at].iter().any(|other| one.address.clashes(&other.address)) {
                let message = format!("two listeners are at `{}`", written.address);
                let remedy = match one.address {
                    Address::Network(_) => "give each a port of its own",
                    Address::Unix(_) => "give each a path of its own",
                };
                return problems.error(written.address.span, message, remedy);
            }
        }
        Some(())
    }

    /// The settings that need a restart when they change.
    pub fn fixed(&self) -> Vec<(&str, Option<FileModeSpec>, bool, bool, bool)> {
        let relayed = |listener: &ListenerSpec| {
            listener.proxy_protocol.as_ref().is_some_and(|written| written.value == ProxyProtocolSpec::On)
        };
        let fixed = |listener: &ListenerSpec| {
            let mode = listener.mode.as_ref().map(|mode| mode.value);
            (listener.tls.is_some(), listener.redirect.is_some(), relayed(listener), mode)
        };
        let listeners = self.0.iter().map(|listener| (listener.address.as_str(), fixed(listener)));
        listeners.map(|(address, (tls, redirect, relayed, mode))| (address, mode, tls, redirect, relayed)).collect()
    }
}

/// The settings that the listeners have in common.
struct CommonSettings<'a> {
    redirect: Redirect,
    trust: &'a TrustedProxies,
    allowed: AllowedChallenges,
    challenges: Arc<Challenges>,
}

/// A folder has one account at an authority.
fn accounts(listening: &[CompiledListener], problems: &mut Problems) -> Option<()> {
    let ordering: Vec<&Acme> = listening.iter().filter_map(|listener| listener.acme.as_deref()).collect();
    for (at, acme) in ordering.iter().enumerate() {
        let (own, place) = (&acme.account, |other: &AcmeAccount| (other.directory.clone(), other.folder.clone()));
        if ordering[..at].iter().any(|other| place(&other.account) == place(own) && other.account != *own) {
            let remedy = "write the same `email`, `eab` and `ca` at each, or give one a `folder` of its own";
            return problems.error(acme.span, "two listeners have different accounts at the same CA", remedy);
        }
    }
    Some(())
}

impl ListenerSpec {
    fn has_proxy_protocol(&self) -> bool {
        self.proxy_protocol.as_ref().is_some_and(|written| written.value == ProxyProtocolSpec::On)
    }

    /// The proxies that speak the PROXY protocol.
    fn relays(&self, address: &Address, trust: &TrustedProxies, problems: &mut Problems) -> Option<Vec<Network>> {
        match (&self.proxy_protocol, address) {
            (Some(written), Address::Unix(_))
                if written.value == ProxyProtocolSpec::On && !trust.trusts(ClientAddress::Unix) =>
            {
                problems.error(
                    written.span,
                    "`proxy_protocol` of a Unix socket needs `unix` in `clients.trust`: without it, no proxy is trusted",
                    "write `clients: { trust: [unix] }`",
                )
            }
            (Some(written), _) if written.value == ProxyProtocolSpec::On && trust.networks.is_empty() => {
                let remedy = "write `clients: { trust: [10.0.0.0/8] }` with the addresses of your proxies";
                problems.error(
                    written.span,
                    "`proxy_protocol` needs `clients.trust`: without it, no proxy is trusted",
                    remedy,
                )
            }
            (Some(written), _) if written.value == ProxyProtocolSpec::On => Some(trust.networks.clone()),
            _ => Some(Vec::new()),
        }
    }

    fn compile(
        &self,
        shared: &CommonSettings<'_>,
        files: Files<'_>,
        problems: &mut Problems,
    ) -> Option<CompiledListener> {
        let address = address::read(&self.address, problems);
        let tls = self.tls.as_ref().map(|tls| tls.compile(self.address.span, files, problems));
        let acme = self.tls.as_ref().and_then(|tls| tls.acme.as_ref());
        let acme = acme.map(|acme| acme.compile(self.address.span, shared.allowed, files, problems));
        if let (Some(_), Some(_)) = (&self.tls, &self.redirect) {
            let remedy = "leave `redirect` out here; it is for a listener without `tls`";
            return problems.error(self.address.span, "a listener with `tls` cannot redirect to `https`", remedy);
        }
        let mode = address.as_ref().map(|address| self.mode(address, problems));
        let tls = tls.map_or(Some(None), |tls| tls.map(Some))?;
        let (address, mode) = (address?, mode??);
        let settings = ListenerSettings {
            tls,
            redirect: self.redirect.map(|_| shared.redirect.clone()),
            relays: self.relays(&address, shared.trust, problems)?,
            challenges: shared.challenges.clone(),
        };
        let acme = acme.map_or(Some(None), |acme| acme.map(Arc::new).map(Some))?;
        let (settings, written, tls) = (Arc::new(settings), self.address.value.clone(), self.tls.clone());
        Some(CompiledListener { address, mode, written, settings, tls, acme })
    }

    /// The mode of a Unix socket.
    fn mode(&self, address: &Address, problems: &mut Problems) -> Option<Mode> {
        if let Address::Unix(path) = address {
            check_folder(path, &self.address, problems);
            return Some(self.mode.as_ref().map_or_else(Mode::default, |mode| Mode(mode.value.0)));
        }
        match &self.mode {
            None => Some(Mode::default()),
            Some(mode) => problems.error(
                mode.span,
                "`mode` is for a Unix socket, and this is an address of the network",
                "leave it out, or write `address: unix:/run/crocodile-pear.sock`",
            ),
        }
    }
}
