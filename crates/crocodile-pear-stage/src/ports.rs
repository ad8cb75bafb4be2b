//! Ports that nobody listens on, for servers that are started, stopped and started again.

use std::net::{Ipv4Addr, SocketAddr};

use crocodile_pear_demo::postgres;

/// A port that nobody listens on. No other test and no demo gets the same port.
pub fn free_port() -> u16 {
    postgres::free_port().expect("a free port")
}

/// The same as an address.
#[allow(dead_code, reason = "some suites need the number alone")]
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}
