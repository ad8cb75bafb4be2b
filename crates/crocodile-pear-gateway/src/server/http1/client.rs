//! Watches the client while the handler works: it sends its body, or leaves.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::super::handler::Handler;
use super::super::shared::CoreState;
use super::upload::{Upload, UploadProgress};
use super::wire::BufferedIo;

/// How long a client that has closed its side is waited for while there is nothing to send. It may have left or may be
/// waiting for its answer; only sending bytes shows which.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// How often the server checks that the client is still there while unread bytes wait in the socket.
const LOOK: Duration = Duration::from_secs(1);

/// The finding of the check of the client.
pub enum Client {
    /// A piece of its body was read.
    Moved,
    /// The client has left.
    Gone,
    /// The next piece of its body took too long.
    LateBody,
}

/// Reads the body when the handler asks for it, and notices when the client leaves.
pub fn poll_client<H: Handler>(
    wire: &mut BufferedIo,
    upload: &mut Option<Upload>,
    core: &CoreState<H>,
    cx: &mut Context<'_>,
) -> Poll<Client> {
    if let Some(upload) = upload {
        upload.rest(cx);
        match upload.poll(wire, &core.settings, cx) {
            Ok(UploadProgress::Some) => return Poll::Ready(Client::Moved),
            Ok(UploadProgress::None) => {}
            Err(_) => return Poll::Ready(Client::Gone),
        }
        if wire.unsent() > 0 && matches!(wire.poll_flush(cx), Poll::Ready(Err(_))) {
            return Poll::Ready(Client::Gone);
        }
        if let Some(due) = upload.due(&core.settings) {
            return wire.alarm.poll(due, cx).map(|()| Client::LateBody);
        }
    }
    let readable = upload.as_ref().is_none_or(Upload::whole) && wire.held.len() < core.bounds().head;
    if wire.ended.is_none() && readable {
        loop {
            match wire.poll_hold(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(Client::Gone),
                Poll::Ready(Ok(true)) if wire.held.len() < core.bounds().head => {}
                Poll::Ready(Ok(_)) => break,
            }
        }
    }
    // Unread bytes wait in the socket, so check now and then whether the client is still there.
    loop {
        if let Some(ended) = wire.ended {
            return wire.alarm.poll(ended + HALF_CLOSED, cx).map(|()| Client::Gone);
        }
        let look = Instant::now() + LOOK;
        let due = *wire.look.get_or_insert(look);
        ready!(wire.alarm.poll(due, cx));
        wire.look = Some(look);
        if wire.io.looks_closed(cx) {
            wire.end();
        }
    }
}
