//! `failures` with reqwest: what broke is found by asking its causes.

use std::error::Error as _;
use std::io;

use reqwest::{Client, Error, StatusCode};

fn io_kind(error: &Error) -> Option<io::ErrorKind> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

pub fn advice(error: &Error) -> &'static str {
    match error.status() {
        _ if error.is_timeout() => "try again later",
        _ if error.is_connect() => "is the server there: its name, its port, its certificate?",
        Some(StatusCode::NOT_FOUND) => "there is no such thing",
        Some(status) if status.is_client_error() => "the request is wrong",
        Some(_) => "the server failed",
        _ if error.is_builder() => "the URL or a header field is wrong",
        _ => match io_kind(error) {
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof) => "the server broke off",
            _ if error.is_decode() => "the answer has another form",
            _ => "something else",
        },
    }
}

pub fn line(error: &Error) -> String {
    let status = error.status().map_or(String::new(), |status| format!(", status {}", status.as_u16()));
    let cause = error.source().map_or(String::new(), |cause| format!(", because of: {cause}"));
    format!("{error} ({status}{cause})")
}

pub async fn numbers(client: &Client, url: &str) -> Result<Vec<u64>, Error> {
    client.get(url).send().await?.error_for_status()?.json().await
}
