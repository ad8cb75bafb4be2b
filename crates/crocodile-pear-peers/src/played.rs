//! A socket that is only played: it takes and gives as many bytes as chance has it.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::time::sleep;

use crate::test_rng::TestRng;

/// A side of a socket: it has no room now and then, and takes and gives parts.
#[derive(Debug)]
pub struct Played {
    pub stream: DuplexStream,
    pub dice: TestRng,
    /// The rate of operations that have to wait, and are woken: one in so many.
    pub waits: usize,
    /// The most bytes of one operation.
    pub most: usize,
}

impl Played {
    /// With a temper by chance.
    pub fn new(stream: DuplexStream, dice: &mut TestRng) -> Self {
        let (waits, most) = (dice.of(&[2, 5, 50, usize::MAX]), dice.of(&[100, 4 << 10, 64 << 10, 1 << 20]));
        Played { stream, dice: TestRng(dice.roll()), waits, most }
    }

    fn waits(&mut self, cx: &mut Context<'_>) -> bool {
        let waits = self.dice.below(self.waits) == 0;
        if waits {
            cx.waker().wake_by_ref();
        }
        waits
    }
}

impl AsyncRead for Played {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.waits(cx) {
            return Poll::Pending;
        }
        let most = self.most.min(buf.remaining());
        let room = 1 + self.dice.below(most.max(1));
        let mut few = vec![0; room.min(most)];
        let mut few = ReadBuf::new(&mut few);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut few))?;
        buf.put_slice(few.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Played {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.waits(cx) {
            return Poll::Pending;
        }
        let most = self.most.min(bytes.len());
        let few = (1 + self.dice.below(most.max(1))).min(most);
        Pin::new(&mut self.stream).poll_write(cx, &bytes[..few])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The pauses of requests, in the middle of what is sent and of what is read. Two in three plays have none.
#[derive(Debug)]
pub struct Pauses {
    some: bool,
    /// The time that all of them take together.
    pub at_most: Duration,
}

impl Pauses {
    /// Short: a call that pauses can hold up all the others, but none of them for as long as a slow client may take.
    pub const EACH: Duration = Duration::from_millis(100);

    pub fn new(dice: &mut TestRng) -> Self {
        Pauses { some: dice.rare(3), at_most: Duration::ZERO }
    }

    /// Chooses where one request pauses.
    pub fn throw<const PLACES: usize>(&mut self, dice: &mut TestRng) -> [bool; PLACES] {
        let pauses = [(); PLACES].map(|()| self.some && dice.rare(2));
        // The clock counts whole milliseconds.
        self.at_most +=
            (Self::EACH + Duration::from_millis(1)) * pauses.iter().filter(|pauses| **pauses).count() as u32;
        pauses
    }
}

/// Makes a pause, where one was chosen.
pub async fn pause(pauses: bool) {
    if pauses {
        sleep(Pauses::EACH).await;
    }
}

/// More polls than a task needs if each poll does something.
const POLLS: usize = 2_000_000;

/// Runs a task.
///
/// # Panics
/// If it is polled without end: a task that wakes itself while it waits keeps a clock that stands still from moving on.
pub async fn bounded<T>(task: impl Future<Output = T>) -> T {
    let (mut task, mut polls) = (pin!(task), 0);
    poll_fn(|cx| {
        polls += 1;
        assert!(polls <= POLLS, "a task that waits is polled without end");
        task.as_mut().poll(cx)
    })
    .await
}

/// The seeds of so many plays; the variable `PLAYED` says another number.
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let count = std::env::var("PLAYED").ok().and_then(|count| count.parse().ok());
    0..count.unwrap_or(usual)
}
