//! A socket that is only played: it takes and gives as many bytes as chance has it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// Pseudo-random numbers (SplitMix64). The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// An index from 0 to `end`, without `end` itself.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number(end as u64)).expect("below a usize")
    }

    /// A number from 0 to `end`, without `end` itself.
    pub fn number(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// `true` once in so many throws, on average.
    pub fn rare(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    /// An element of the list.
    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A side of a socket: it has no room now and then, and takes and gives parts.
#[derive(Debug)]
pub struct Played {
    pub stream: DuplexStream,
    pub dice: Dice,
    /// The rate of operations that have to wait, and are woken: one in so many.
    pub waits: usize,
    /// The most bytes of one operation.
    pub most: usize,
}

impl Played {
    /// With a temper by chance.
    pub fn new(stream: DuplexStream, dice: &mut Dice) -> Self {
        let (waits, most) = (dice.of(&[2, 5, 50, usize::MAX]), dice.of(&[100, 4 << 10, 64 << 10, 1 << 20]));
        Played { stream, dice: Dice(dice.roll()), waits, most }
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
