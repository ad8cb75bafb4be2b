//! `admin`: where operators connect, as written.

use std::net::SocketAddr;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Located, Secret, only};
use crocodile_pear::unstable::spec;

use crate::net::address::Address;

spec! {
    /// The admin listener, for operators and their tools. Short form: the address.
    pub struct AdminSpec {
        /// `HOST:PORT` or `unix:/PATH`.
        pub address: Located<String>,
        /// The host names under which operators and their tools call it. Requests that name an IP address or
        /// `localhost` are always accepted. Any other host gets 421, so that no web page in an operator's browser can
        /// read or change anything here. `/health` and `/ready` answer under every name.
        pub hosts: Vec<String> = Vec::new(),
        /// A secret that requests must send: as `Authorization: Bearer …`, or in a browser as the password, with any
        /// user name. `/health` and `/ready` need no token. Default: no token. An address that other machines can use
        /// needs one.
        pub token: Option<Secret>,
        /// Whether other machines may use the listener without a `token`: read what is asked of every route, purge caches.
        /// For a network that only operators can reach.
        pub insecure: bool = false,
        /// When `/ready` answers with 200. Otherwise it answers with 503.
        pub ready: Readiness = Readiness::Serving,
    }
    short(address)
}

crocodile_pear::unstable::choice! {
    /// When a gateway is ready.
    pub enum Readiness {
        /// While the gateway accepts requests.
        Serving = "serving",
        /// While it also has an address for every host name of an upstream. Clients that may use the listener are told which
        /// names have none, and why.
        Names = "names",
    }
}

impl AdminSpec {
    /// Refuses a listener that everybody can use, unless that is written.
    pub fn check(&self, address: &Address, problems: &mut Problems) -> Option<()> {
        let local = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        if self.insecure || self.token.is_some() || !matches!(address, Address::Network(address) if !local(address)) {
            return Some(());
        }
        let message = "other machines can use `admin` without a token: read what is asked of every route, purge caches";
        let remedy = "add a `token`, listen on `127.0.0.1` or at a Unix socket, or write `insecure: true`";
        problems.error(self.address.span, message, remedy)
    }
}

fn address(text: Located<String>, problems: &mut Problems) -> Option<AdminSpec> {
    only([("address", text)], problems)
}
