//! The thesis's first table: header and payload bytes of ten users, in ten requests and in one.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use crocodile_pear_demo::{self as demo, Demo};
use tokio::net::TcpListener;

use crate::Result;
use crate::client::Connection;
use crate::expected::Expected;
use crate::product;
use crate::report::{Sheet, Style, say};

const USERS: usize = 10;

/// The header fields of a program, and of a browser of the thesis's time (Chrome 40).
const CLIENTS: [(&str, &str); 2] = [
    ("plain client", "Accept: */*\r\n"),
    (
        "browser",
        "Connection: keep-alive\r\n\
         Cache-Control: max-age=0\r\n\
         Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
         Chrome/40.0.2214.111 Safari/537.36\r\n\
         Accept-Encoding: gzip, deflate, sdch\r\n\
         Accept-Language: sv-SE,sv;q=0.8,en-US;q=0.6,en;q=0.4\r\n",
    ),
];

const HEADINGS: [&str; 9] = [
    "10 users",
    "client",
    "requests",
    "request heads",
    "response heads",
    "headers",
    "payload",
    "chunk framing",
    "headers %",
];

#[derive(Args)]
pub struct Options {
    /// The gateway's binary, if not the one built beside this bench
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Print the table as Markdown
    #[arg(long)]
    markdown: bool,
}

/// Bytes, by what they are for.
#[derive(Default)]
struct Tally {
    requests: usize,
    asked: usize,
    answered: usize,
    payload: usize,
    framing: usize,
}

pub async fn run(options: Options) -> Result<()> {
    let binary = product::find(options.binary)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let upstream = listener.local_addr()?;
    tokio::spawn(demo::upstreams(listener, Demo::default()));
    let gateway = product::start(&binary, "wire", |listen| product::users(listen, upstream))?;

    let mut sheet = Sheet::new(2, HEADINGS);
    sheet.add(source("one by one", 10, 4_420, 2_860));
    sheet.add(source("in one", 1, 534, 2_871));
    for (client, fields) in CLIENTS {
        let (direct, users) = one_by_one(upstream, fields).await?;
        sheet.add(direct.row("one by one", client));
        sheet.add(in_one(gateway.address, fields, users).await?.row("in one", client));
    }
    sheet.print(Style::choose(options.markdown))?;
    say("")?;
    say("Bytes on the wire, requests and answers, over kept connections; headers %: of headers and payload.")?;
    Ok(())
}

/// Each user from the upstream itself.
async fn one_by_one(upstream: SocketAddr, fields: &str) -> Result<(Tally, Vec<Vec<u8>>)> {
    let mut connection = Connection::open(upstream).await?;
    let mut tally = Tally::default();
    let mut users = Vec::new();
    for id in 1..=USERS {
        users.push(tally.ask(&mut connection, &format!("/users/api/users/{id}"), upstream, fields).await?);
    }
    Ok((tally, users))
}

/// All of them from the gateway, which must hand them on as they are.
async fn in_one(gateway: SocketAddr, fields: &str, users: Vec<Vec<u8>>) -> Result<Tally> {
    let ids: Vec<String> = (1..=USERS).map(|id| id.to_string()).collect();
    let mut connection = Connection::open(gateway).await?;
    let mut tally = Tally::default();
    let target = format!("/users?ids={}", ids.join(","));
    let list = tally.ask(&mut connection, &target, gateway, fields).await?;
    if !Expected::any_order(users).matches(&list) {
        return Err(format!("the gateway's list is not the ten users: {}", String::from_utf8_lossy(&list)).into());
    }
    Ok(tally)
}

fn source(how: &str, requests: usize, headers: usize, payload: usize) -> [String; 9] {
    let unknown = || "-".to_owned();
    [
        how.to_owned(),
        "thesis, 2015".to_owned(),
        requests.to_string(),
        unknown(),
        unknown(),
        headers.to_string(),
        payload.to_string(),
        unknown(),
        share(headers, payload),
    ]
}

fn share(headers: usize, payload: usize) -> String {
    format!("{:.0}", 100.0 * headers as f64 / (headers + payload) as f64)
}

impl Tally {
    async fn ask(
        &mut self,
        connection: &mut Connection,
        target: &str,
        host: SocketAddr,
        fields: &str,
    ) -> Result<Vec<u8>> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        let answer = connection.exchange(request.as_bytes()).await?;
        if answer.status != 200 {
            return Err(format!("{target}: status {}: {}", answer.status, String::from_utf8_lossy(&answer.body)).into());
        }
        self.requests += 1;
        self.asked += request.len();
        self.answered += answer.head;
        self.payload += answer.body.len();
        self.framing += answer.framing;
        Ok(answer.body)
    }

    fn row(&self, how: &str, client: &str) -> [String; 9] {
        let headers = self.asked + self.answered;
        [
            how.to_owned(),
            client.to_owned(),
            self.requests.to_string(),
            self.asked.to_string(),
            self.answered.to_string(),
            headers.to_string(),
            self.payload.to_string(),
            self.framing.to_string(),
            share(headers, self.payload),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ten_users_are_2_860_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let upstream = listener.local_addr().expect("bound");
        tokio::spawn(demo::upstreams(listener, Demo::default()));
        let (tally, users) = one_by_one(upstream, CLIENTS[1].1).await.expect("users");
        assert_eq!((tally.requests, tally.payload, users.len()), (10, 2_860, 10));
    }

    #[test]
    fn shares_are_those_of_the_thesis() {
        assert_eq!((share(4_420, 2_860), share(534, 2_871)), ("61".to_owned(), "16".to_owned()));
    }
}
