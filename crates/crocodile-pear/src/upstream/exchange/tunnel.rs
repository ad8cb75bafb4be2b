//! A connection to an upstream after it has changed its protocol.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::runtime::deadline_timer::Alarm;
use crate::upstream::connect::pool::OwnConnection;
use crate::upstream::servers::Servers;
use crate::upstream::servers::admission::Admission;

/// A peer that is gone without a FIN is noticed after a few of these.
const PROBE: Duration = Duration::from_secs(60);

/// The connection of a call that was answered with 101. Until it is dropped it counts as a call in flight and as an open
/// connection.
pub(crate) struct Switched {
    own: OwnConnection,
    admission: Option<Admission>,
    servers: Arc<Servers>,
    shut: bool,
}

impl Switched {
    pub(crate) fn new(mut own: OwnConnection, admission: Option<Admission>, servers: Arc<Servers>) -> Self {
        own.wire.alarm = Alarm::default();
        own.wire.io.probe(PROBE);
        Switched { own, admission, servers, shut: false }
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        if !self.shut {
            self.own.wire.io.break_off();
        }
        if let Some(admission) = self.admission.take() {
            admission.give_back(&self.servers);
        }
    }
}

impl AsyncRead for Switched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.own.wire.io.poll_into(cx, buf)
    }
}

impl AsyncWrite for Switched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.own.wire.io.poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.own.wire.io.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = self.own.wire.io.poll_shutdown(cx);
        self.shut |= matches!(shut, Poll::Ready(Ok(())));
        shut
    }
}
