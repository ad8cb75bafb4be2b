//! The same request many times over many connections, each answer compared byte by byte.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::Result;
use crate::client::Connection;
use crate::expected::{Expected, split};
use crate::load::{self, Load};
use crate::report::say;

#[derive(Args)]
pub struct Options {
    /// The URL to ask for, as http://HOST:PORT/PATH
    #[arg(long)]
    url: String,
    /// A file with the body that every answer must have
    #[arg(long, required_unless_present = "like", conflicts_with = "like")]
    expect: Option<PathBuf>,
    /// Another URL, asked once, whose body every answer must have
    #[arg(long)]
    like: Option<String>,
    /// Take the body for a JSON list whose items may come in any order
    #[arg(long)]
    any_order: bool,
    /// How often
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    requests: u32,
    /// Over how many connections, each with one request at a time
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections: u32,
    /// The most seconds that all of it may take
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    within: u64,
}

pub async fn run(options: Options) -> Result<()> {
    let body = match (&options.expect, &options.like) {
        (Some(file), _) => std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?,
        (None, Some(url)) => fetch(url).await?,
        (None, None) => return Err("neither --expect nor --like".into()),
    };
    let expected = match options.any_order {
        true => {
            let items = split(&body).ok_or("--any-order: what is expected is not a JSON list without spaces")?;
            Expected::any_order(items.into_iter().map(<[u8]>::to_vec).collect())
        }
        false => Expected::Exactly(body),
    };
    let (address, request) = request(&options.url)?;
    let (requests, connections) = (options.requests as usize, options.connections as usize);
    let pace = Load { address, request, expected, requests, connections, within: Duration::from_secs(options.within) }
        .run()
        .await?;
    say(&format!(
        "{requests} right answers over {connections} connections in {:.2?}: {:.0}/s, p50 {:.2?}, p99 {:.2?}",
        pace.took,
        pace.per_second(),
        pace.percentile(0.5),
        pace.percentile(0.99),
    ))?;
    Ok(())
}

async fn fetch(url: &str) -> Result<Vec<u8>> {
    let (address, request) = request(url)?;
    let answer = Connection::open(address).await?.exchange(&request).await?;
    match answer.status {
        200 => Ok(answer.body),
        status => Err(format!("{url}: status {status}").into()),
    }
}

/// Whom to ask, and the bytes to ask with.
fn request(url: &str) -> Result<(SocketAddr, Vec<u8>)> {
    let rest = url.strip_prefix("http://").ok_or_else(|| format!("{url}: only http:// is spoken"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let place = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let address = place.to_socket_addrs()?.next().ok_or_else(|| format!("{host} has no address"))?;
    Ok((address, load::get(&format!("/{path}"), host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_becomes_a_request() {
        let (address, bytes) = request("http://127.0.0.1:81/a?b=c").expect("a URL");
        assert_eq!(address, SocketAddr::from(([127, 0, 0, 1], 81)));
        assert!(bytes.starts_with(b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:81\r\n"));
        assert!(request("https://a/").is_err());
    }
}
