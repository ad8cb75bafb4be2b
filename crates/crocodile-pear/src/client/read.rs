//! Answers as typed values.

use std::io;

use bytes::Bytes;
use http::StatusCode;
use serde::de::DeserializeOwned;

use super::guard;
use crate::error::{Error, Kind};
use crate::format;
use crate::json::{self, Data};
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;
use crate::offload;
use crate::pipeline::step::status::refuse;

/// The value of an answer, whatever the format of its body: JSON, XML, CSV, NDJSON ...
///
/// # Errors
/// The status, if it is not 2xx; what ends the body early; and why the body does not have this type.
pub async fn value<T: DeserializeOwned + Send + 'static>(answer: Answer, most: usize) -> Result<T, Error> {
    if !answer.is_usable() {
        return Err(refuse(answer).await);
    }
    let status = answer.status;
    let answer = format::plain(answer).map_err(|error| error.answered(status))?;
    let bytes = match is_plain_json(&answer) {
        true => answer.body.collect(most).await,
        // Checked and made JSON.
        false => format::data(answer, most).await.and_then(bytes).map_err(explained),
    };
    parse(bytes.map_err(|error| error.answered(status))?, status).await
}

/// The value of an item that is in memory.
///
/// # Errors
/// Why it does not have this type.
pub fn item<T: DeserializeOwned>(answer: Answer) -> Result<T, Error> {
    let bytes = match answer.body {
        AnswerBody::Bytes(bytes) => bytes,
        AnswerBody::Json(raw) => raw.bytes().clone(),
        AnswerBody::Value(value) => json::to_bytes(&value)?,
        AnswerBody::Pulled(_) | AnswerBody::Tunnel(_) => {
            return Err(Error::new(Kind::Internal, "the item is not there yet"));
        }
    };
    typed(&bytes, answer.status)
}

fn bytes(data: Data) -> Result<Bytes, Error> {
    match data {
        Data::Json(raw) => Ok(raw.bytes().clone()),
        Data::Value(value) => Ok(json::to_bytes(&value)?),
    }
}

/// The same error with a cause, where a parser of this crate has found it.
pub fn explained(error: Error) -> Error {
    match error.kind() {
        Kind::Malformed => {
            let detail = error.detail().to_owned();
            error.caused_by(io::Error::new(io::ErrorKind::InvalidData, detail))
        }
        _ => error,
    }
}

/// Whether its bytes are JSON in UTF-8 as they are.
fn is_plain_json(answer: &Answer) -> bool {
    let media = answer.headers.media();
    let is_json = media.is_some_and(|media| media.eq_ignore_ascii_case(b"application/json"));
    is_json && matches!(answer.body, AnswerBody::Bytes(_) | AnswerBody::Pulled(_))
}

/// On a helper thread, if it is long.
async fn parse<T: DeserializeOwned + Send + 'static>(bytes: Bytes, status: StatusCode) -> Result<T, Error> {
    match bytes.len() {
        ..=offload::SMALL => typed(&bytes, status),
        length => offload::run(length, move || typed(&bytes, status)).await,
    }
}

fn typed<T: DeserializeOwned>(bytes: &[u8], status: StatusCode) -> Result<T, Error> {
    let unmarked = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // No body is null, as for the steps of a configuration.
    let json = if unmarked.is_empty() { b"null" } else { unmarked };
    guard::call(|| serde_json::from_slice(json))?.map_err(|error| {
        Error::new(Kind::Malformed, format!("the answer is not what was expected: {error}"))
            .caused_by(error)
            .answered(status)
    })
}
