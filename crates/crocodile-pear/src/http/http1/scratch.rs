//! The bytes that every connection of a thread reads into, so that one that waits holds none.

use std::cell::RefCell;
use std::io;
use std::task::{Poll, ready};

use tokio::io::ReadBuf;

/// The maximum of one read: large enough for bulk, small enough that a slow consumer holds little.
pub const READ: usize = 32 * 1024;

/// The maximum of a read for a head. Bytes that come with the head are held until somebody pulls the body, and many answers may wait
/// at once; most are whole within it.
pub const HEAD: usize = 16 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// Reads once with `read`, and hands the bytes to `then`, which must not read.
pub fn read<T>(
    read: impl FnOnce(&mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    then: impl FnOnce(&mut [u8]) -> T,
) -> Poll<io::Result<T>> {
    read_up_to(READ, read, then)
}

/// The same, but with at most this many bytes.
pub fn read_up_to<T>(
    most: usize,
    read: impl FnOnce(&mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    then: impl FnOnce(&mut [u8]) -> T,
) -> Poll<io::Result<T>> {
    SCRATCH.with_borrow_mut(|scratch| {
        let most = most.min(scratch.len());
        let mut buf = ReadBuf::new(&mut scratch[..most]);
        ready!(read(&mut buf))?;
        Poll::Ready(Ok(then(buf.filled_mut())))
    })
}
