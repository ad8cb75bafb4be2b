//! Every failure of a call, matched on.
//!
//! `cargo run -p crocodile-pear --example failures -- http://127.0.0.1:1/ not-a-url`

use std::error::Error as _;

use crocodile_pear::{Client, Error, Kind};

/// The advice to a program about a failure.
pub fn advice(error: &Error) -> &'static str {
    match error.kind() {
        Kind::Timeout => "try again later",
        Kind::Unreachable => "is the server there: its name, its port, its certificate?",
        Kind::Reset | Kind::Cut => "the server broke off",
        Kind::Refused(status) if status == 404 => "there is no such thing",
        Kind::Refused(_) => "the request is wrong",
        Kind::Unusable => "the server failed",
        Kind::Malformed => "the answer has another form",
        Kind::Oversized => "the answer is too large",
        Kind::Busy => "too many calls: its limit or its breaker",
        Kind::InvalidCall => "the URL or a header field is wrong",
        Kind::Closure | Kind::Panic => "this program is wrong",
        _ => "something else",
    }
}

/// The failure in one line: what happened, where, and why.
pub fn line(error: &Error) -> String {
    let status = error.upstream_status().map_or(String::new(), |status| format!(", status {}", status.as_u16()));
    let call = error.call().map_or(String::new(), |call| format!(", {call}"));
    let cause = error.source().map_or(String::new(), |cause| format!(", because of: {cause}"));
    format!("{error} ({}{status}{call}{cause})", error.kind().name())
}

/// Calls this URL for a list of numbers.
pub async fn numbers(client: &Client, url: &str) -> Result<Vec<u64>, Error> {
    client.get(url).as_json().await
}

#[allow(dead_code, clippy::print_stdout, reason = "a program prints; the tests have a server of their own")]
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let client = Client::new();
    for url in std::env::args().skip(1) {
        match numbers(&client, &url).await {
            Ok(numbers) => println!("{url}: {numbers:?}"),
            Err(error) => println!("{}: {}", line(&error), advice(&error)),
        }
    }
}
