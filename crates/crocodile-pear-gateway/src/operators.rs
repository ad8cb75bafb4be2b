//! `admin`: where operators connect, as written.

use std::net::SocketAddr;

use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Located, Secret, only};

use crate::address::Address;

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
        /// user name. `/health` and `/ready` need no token. Default: no token.
        pub token: Option<Secret>,
    }
    short(address)
}

impl AdminSpec {
    /// Warns of a listener that everybody can use.
    pub fn check(&self, address: &Address, problems: &mut Problems) {
        let local = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        if self.token.is_none() && matches!(address, Address::Network(address) if !local(address)) {
            let message =
                "other machines can use `admin` without a token: read what is asked of every route, purge caches";
            let remedy = "add a `token`, or listen on `127.0.0.1` or at a Unix socket";
            problems.warning(self.address.span, message, remedy);
        }
    }
}

fn address(text: Located<String>, problems: &mut Problems) -> Option<AdminSpec> {
    only([("address", text)], problems)
}
