//! Addresses at which no connection comes about.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// An address that refuses connections, as long as it is held.
pub fn nobody() -> io::Result<(Socket, SocketAddr)> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
    let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((socket, address))
}

/// An address that never takes a connection: its queue is full, as long as it is held.
pub fn full() -> io::Result<((Socket, Vec<TcpStream>), SocketAddr)> {
    let (socket, address) = nobody()?;
    socket.listen(0)?;
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(50)) {
        queue.push(stream);
    }
    Ok(((socket, queue), address))
}
