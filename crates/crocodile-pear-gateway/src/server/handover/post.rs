//! Messages with sockets between two processes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{geteuid, getppid};

/// The most sockets of a message; the kernel takes some more.
pub(super) const MOST: usize = 200;

/// The longest message: the name of a listener, which may be a path.
const LONGEST: usize = 8192;

/// An end of a connection between two processes.
#[derive(Debug)]
pub(super) struct SocketEnd(OwnedFd);

/// Two ends. The second one is for another process.
pub(super) fn pair() -> io::Result<(SocketEnd, Stdio)> {
    let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((SocketEnd(here), there.into()))
}

impl SocketEnd {
    /// A descriptor of this process that is one.
    pub(super) fn of(descriptor: impl AsFd) -> io::Result<Self> {
        descriptor.as_fd().try_clone_to_owned().map(SocketEnd)
    }

    /// Finds out that the other end was made by the process that started this one, and by the same user.
    pub(super) fn verify(&self) -> io::Result<()> {
        let other = socket_peercred(&self.0)?;
        if other.uid == geteuid() && Some(other.pid) == getppid() {
            return Ok(());
        }
        Err(io::Error::other("the standard input leads to another process"))
    }

    /// Bounds each wait for the other process.
    pub(super) fn limit(&self, time: Duration) -> io::Result<()> {
        for direction in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&self.0, direction, Some(time))?;
        }
        Ok(())
    }

    pub(super) fn send(&self, message: &[u8], sockets: &[OwnedFd]) -> io::Result<()> {
        let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(&sockets)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // An empty message would look like the end of the connection.
        let message = [IoSlice::new(b"."), IoSlice::new(message)];
        sendmsg(&self.0, &message, &mut beside, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for this message.
    pub(super) fn expect(&self, message: &[u8]) -> io::Result<()> {
        match self.receive()? {
            (received, _) if received == message => Ok(()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    pub(super) fn receive(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut bytes = [0; LONGEST];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::other("not all sockets have arrived; a higher limit of open files may help"));
        }
        let message = bytes[..received.bytes].get(1..).ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut sockets = Vec::new();
        for part in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = part {
                sockets.extend(rights);
            }
        }
        Ok((message.to_vec(), sockets))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn messages_arrive_one_by_one_with_their_sockets() {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
        let (one, other) = (SocketEnd(one), SocketEnd(other));
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("an address");
        let sockets = vec![socket.try_clone().expect("a copy").into(), socket.into()];
        one.send(b"listen", &sockets).expect("sent");
        one.send(b"", &[]).expect("sent");
        let (name, sockets) = other.receive().expect("a message");
        assert_eq!((name.as_slice(), sockets.len()), (&b"listen"[..], 2));
        for socket in sockets {
            assert_eq!(TcpListener::from(socket).local_addr().expect("an address"), address);
        }
        assert_eq!(other.receive().expect("a message").0, b"");
        drop(one);
        assert_eq!(other.receive().expect_err("the end").kind(), io::ErrorKind::UnexpectedEof);
    }
}
