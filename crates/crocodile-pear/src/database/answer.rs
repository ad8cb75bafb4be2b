//! The answer that rows make.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::failure::StatementFailure;
use super::rows::{ListBody, Progress, Rows};
use super::run::Wanted;
use crate::config::spec::Timeout;
use crate::error::{Error, Kind};
use crate::json::Raw;
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;

/// How deep a row without JSON columns nests: a list has at most six dimensions.
const ROW_DEPTH: u8 = 8;

pub(super) async fn of(mut rows: Rows, wanted: Wanted, idle: Timeout) -> Result<Answer, StatementFailure> {
    if !rows.has_rows() {
        return changed(rows, wanted).await;
    }
    let deep = rows.is_deep();
    if wanted == Wanted::One {
        let mut row = Vec::with_capacity(256);
        if !rows.row(&mut row).await? {
            return Err(StatementFailure::answered(missing()));
        }
        rows.record().head(StatusCode::OK);
        rows.record().bytes(row.len());
        // To its end: before, what it changed is not there to stay.
        if rows.row(&mut Vec::new()).await? {
            return Err(StatementFailure::answered(several()));
        }
        return json(row.into(), deep);
    }
    rows.record().head(StatusCode::OK);
    let mut list = ListBody::new(rows, idle);
    match list.begin().await? {
        Progress::Whole(list) => json(list, deep),
        Progress::Begun => {
            let media = HeaderValue::from_static("application/json");
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, media)]);
            Ok(Answer::new(StatusCode::OK, headers, AnswerBody::Pulled(Box::pin(list))))
        }
    }
}

/// The answer of a statement without rows: how many it has changed.
async fn changed(mut rows: Rows, wanted: Wanted) -> Result<Answer, StatementFailure> {
    while rows.row(&mut Vec::new()).await? {}
    rows.record().head(StatusCode::OK);
    match (wanted, rows.affected()) {
        (Wanted::One, 0) => Err(StatementFailure::answered(missing())),
        (_, affected) => json(format!("{{\"rows\":{affected}}}").into(), false),
    }
}

/// Several rows came where one is expected.
pub(super) fn several() -> Error {
    Error::new(Kind::Internal, "the statement gives several rows where one is wanted")
}

/// No row came, or none was changed.
pub(super) fn missing() -> Error {
    Error::new(Kind::Refused(StatusCode::NOT_FOUND), "there is no such row")
}

/// JSON as an answer; if it may nest deeply, it is checked.
pub(super) fn json(bytes: Bytes, deep: bool) -> Result<Answer, StatementFailure> {
    let raw = match deep {
        true => Raw::check(&bytes).map_err(|error| StatementFailure::answered(error.into()))?,
        false => Raw::sound(bytes, ROW_DEPTH),
    };
    Ok(Answer::of_value(raw))
}
