//! The client while it is waited for: it sends its body, or leaves.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::super::handler::Handler;
use super::super::shared::Core;
use super::upload::{Progress, Upload};
use super::wire::Wire;

/// A client that has closed its side may have left, or may wait for its answer: nothing tells the two apart before bytes
/// are sent. It is waited for this long without anything for it.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// How often a connection is looked at whose bytes wait to be read, to see whether the client is still there.
const LOOK: Duration = Duration::from_secs(1);

/// What a look at the client brought.
pub enum Client {
    /// A piece of its body.
    Moved,
    /// It left.
    Gone,
    /// A piece of its body that is waited for took too long.
    LateBody,
}

/// Reads what the handler asks for of the body, and notices a client that leaves.
pub fn poll_client<H: Handler>(
    wire: &mut Wire,
    upload: &mut Option<Upload>,
    core: &Core<H>,
    cx: &mut Context<'_>,
) -> Poll<Client> {
    if let Some(upload) = upload {
        upload.drive(true, cx);
        match upload.poll(wire, &core.settings, cx) {
            Ok(Progress::Some) => return Poll::Ready(Client::Moved),
            Ok(Progress::None) => {}
            Err(_) => return Poll::Ready(Client::Gone),
        }
        upload.drive(false, cx);
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
    // What there is to read waits: it is looked now and then whether the client is there at all.
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
