//! `admin`: where operators connect, as written.

use crocodile_pear::problem::Problems;
use crocodile_pear::spec;
use crocodile_pear::spec::{Located, only};

spec! {
    /// The listener for operators, or only its address.
    pub struct AdminSpec {
        /// The address, `HOST:PORT` or `unix:/PATH`.
        pub address: Located<String>,
        /// The names by which operators call it, for requests that change something. Those that name an IP address or `localhost` are
        /// taken anyway; others are refused, so that no page in an operator's browser can send them.
        pub hosts: Vec<String> = Vec::new(),
    }
    short(address)
}

fn address(text: Located<String>, problems: &mut Problems) -> Option<AdminSpec> {
    only([("address", text)], problems)
}
