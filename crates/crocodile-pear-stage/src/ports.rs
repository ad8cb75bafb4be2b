//! Ports that nobody listens on, for servers that are started, stopped and started again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the ports that the system gives to outgoing connections: one of these could take the port of a server that is away.
const FIRST: u32 = 10_000;
const COUNT: u32 = 20_000;

/// A port that nobody listens on and that is given to nobody else in this process.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes beside each other begin at different ones.
    let begin = std::process::id().wrapping_mul(97);
    let ports = (0..COUNT).map(|_| FIRST + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT);
    let mut ports = ports.filter_map(|port| u16::try_from(port).ok());
    ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).expect("a free port")
}

/// The same as an address.
#[allow(dead_code, reason = "some suites need the number alone")]
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}
