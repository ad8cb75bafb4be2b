//! `admin`: where operators connect, as written.

use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Located, Secret, only};

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

fn address(text: Located<String>, problems: &mut Problems) -> Option<AdminSpec> {
    only([("address", text)], problems)
}
