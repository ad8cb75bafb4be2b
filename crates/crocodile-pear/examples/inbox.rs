//! The inbox of Streamflow as a command-line program: every case with what its links lead to, a line of JSON each,
//! printed while the others are still fetched.
//!
//! `cargo run -p crocodile-pear --example inbox -- http://127.0.0.1:9000/streamflow/api`, with the API's address; the one
//! here is where `crocodile-pear demo` serves one.

use std::process::ExitCode;

use crocodile_pear::{Client, Parts, jq};
use http_body_util::BodyExt;

/// Writes the lines of the inbox of this API; where it gives none, the problem is the error.
pub async fn print(api: &str, out: &mut impl std::io::Write) -> Result<(), Box<dyn std::error::Error>> {
    let row = "{id, text, due: .general.dueOn[:10], note: .general.note,
        priority: (.general.priority.id as $p | [.levels.priorities[]? | select(.id == $p).text][0])}";
    let inbox = Client::new()
        .request([format!("{api}/cases/inbox")])
        .each(jq(".cases[]")?)
        .follow(jq(".href")?, "case")
        .follow(jq(r#".case.resources[] | select(.rel == "general").href"#)?, "general")
        .follow(jq(".general.priority.href")?, "levels")
        .map(jq(row)?)
        .concatenate_ndjson(Parts::BodyOnly);
    let (head, mut body) = inbox.into_response().await.into_parts();
    if !head.status.is_success() {
        return Err(String::from_utf8(body.collect().await?.to_bytes().into())?.into());
    }
    while let Some(frame) = body.frame().await {
        out.write_all(&frame?.into_data().unwrap_or_default())?;
    }
    Ok(())
}

#[allow(dead_code, reason = "the tests have a server of their own")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let api = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000/streamflow/api".to_owned());
    match print(&api, &mut std::io::stdout()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
