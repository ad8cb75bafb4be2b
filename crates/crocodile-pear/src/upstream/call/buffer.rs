//! Bodies of unknown length that are read before a call, because its server reads nothing without a length.

use super::UpstreamCall;
use crate::error::{Error, Kind};
use crate::message::body::AnswerBody;
use crate::runtime::deadline_timer::by;

/// Whether the body of this call has no length. A value of a step gets one when it is written.
pub(crate) fn applies(call: &UpstreamCall) -> bool {
    matches!(&call.body, Some(body @ AnswerBody::Pulled(_)) if body.length().is_none())
}

/// Reads the body of the call.
///
/// # Errors
/// `BodyTooLarge` if it has more than `bound` bytes, `SlowBody` after the client's deadline, and any error of the body.
pub(crate) async fn measure(mut call: Box<UpstreamCall>, bound: usize) -> Result<Box<UpstreamCall>, Error> {
    let body = call.body.take().unwrap_or_else(AnswerBody::empty).collect(bound);
    let collected = match call.deadline {
        None => body.await,
        Some(deadline) => by(deadline, body).await.unwrap_or_else(|| {
            Err(Error::new(Kind::SlowBody, "the request's body was not complete within the time of the request"))
        }),
    };
    let bytes = collected.map_err(|error| match error.kind() {
        Kind::Oversized => {
            Error::new(Kind::BodyTooLarge, format!("a body of more than {bound} bytes needs a length here"))
        }
        _ => error,
    })?;
    call.body = Some(AnswerBody::Bytes(bytes));
    Ok(call)
}
