//! Ports that nobody listens on, for servers that are started, stopped and started again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crocodile_pear_demo::postgres;
use crocodile_pear_peers::served::try_bind;

/// A port that nobody listens on and that is given to nobody else in this process.
pub fn free_port() -> u16 {
    postgres::free_port().expect("a free port")
}

/// The same as an address.
#[allow(dead_code, reason = "some suites need the number alone")]
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

/// A listener at such a port. Another process can take a port between the look and the use: then it is the next one.
pub fn free_listener() -> TcpListener {
    (0..100).find_map(|_| try_bind(free_address()).ok()).expect("a port to listen on")
}
