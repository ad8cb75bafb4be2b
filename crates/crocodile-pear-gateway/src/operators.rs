//! `admin`: where operators connect, as written.

use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Located, Secret, only};

spec! {
    /// The listener for operators, or only its address.
    pub struct AdminSpec {
        /// The address, `HOST:PORT` or `unix:/PATH`.
        pub address: Located<String>,
        /// The names by which operators and their tools call it. Requests that name an IP address or `localhost` are taken anyway; others are refused
        /// with 421, so that no page in an operator's browser can read or change something here. `/health` and `/ready` answer under every name.
        pub hosts: Vec<String> = Vec::new(),
        /// A secret that requests must bring: as `Authorization: Bearer …`, or as the password in a browser, with any user name. By default none is
        /// asked for. `/health` and `/ready` answer without it.
        pub token: Option<Secret>,
    }
    short(address)
}

fn address(text: Located<String>, problems: &mut Problems) -> Option<AdminSpec> {
    only([("address", text)], problems)
}
