//! The PROXY protocol, versions 1 and 2: before the client's first byte, a proxy sends the client's address.
//! <https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crocodile_pear::unstable::request::facts::ClientAddress;
use crocodile_pear::unstable::runtime::socket::Socket;
use tokio::io::AsyncReadExt;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The longest line of version 1, with its end.
const LONGEST_LINE: usize = 107;

/// The most bytes after the addresses of version 2; no proxy sends as many.
const LONGEST_REST: usize = 4096;

/// For whom a proxy connects; `None`: for itself.
type Relayed = Option<ClientAddress>;

/// Reads exactly the header. A client that it does not name is unknown, and not the proxy.
pub(super) async fn read(stream: &mut Socket) -> io::Result<Relayed> {
    // Shorter than a header of either version.
    let mut begin = [0; SIGNATURE.len()];
    stream.read_exact(&mut begin).await?;
    match &begin {
        SIGNATURE => binary(stream).await,
        text if text.starts_with(b"PROXY ") => line(stream, begin.to_vec()).await,
        _ => Err(malformed()),
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "this is not a header of the PROXY protocol")
}

/// `PROXY TCP4 192.0.2.7 10.0.0.1 56324 443`
async fn line(stream: &mut Socket, mut line: Vec<u8>) -> io::Result<Relayed> {
    while !line.ends_with(b"\r\n") {
        if line.len() >= LONGEST_LINE {
            return Err(malformed());
        }
        line.push(stream.read_u8().await?);
    }
    let text = std::str::from_utf8(&line).map_err(|_| malformed())?.trim_end_matches("\r\n");
    match text.split(' ').collect::<Vec<_>>()[..] {
        ["PROXY", "UNKNOWN", ..] => Ok(Some(ClientAddress::Unknown)),
        ["PROXY", family @ ("TCP4" | "TCP6"), source, _, port, _] => {
            let address: IpAddr = source.parse().map_err(|_| malformed())?;
            let port: u16 = port.parse().map_err(|_| malformed())?;
            match address.is_ipv4() == (family == "TCP4") {
                true => Ok(Some(SocketAddr::new(address, port).into())),
                false => Err(malformed()),
            }
        }
        _ => Err(malformed()),
    }
}

async fn binary(stream: &mut Socket) -> io::Result<Relayed> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, family, ..] = head;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if length > LONGEST_REST {
        return Err(malformed());
    }
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    match (version, family) {
        // The proxy's own connection, for example a health check.
        (0x20, _) => Ok(None),
        (0x21, 0x11 | 0x12) if length >= 12 => {
            let address: [u8; 4] = rest[..4].try_into().map_err(|_| malformed())?;
            Ok(Some(SocketAddr::new(Ipv4Addr::from(address).into(), u16::from_be_bytes([rest[8], rest[9]])).into()))
        }
        (0x21, 0x21 | 0x22) if length >= 36 => {
            let address: [u8; 16] = rest[..16].try_into().map_err(|_| malformed())?;
            Ok(Some(SocketAddr::new(Ipv6Addr::from(address).into(), u16::from_be_bytes([rest[32], rest[33]])).into()))
        }
        // Another address family, such as Unix sockets.
        (0x21, 0x00 | 0x31 | 0x32) => Ok(Some(ClientAddress::Unknown)),
        _ => Err(malformed()),
    }
}
