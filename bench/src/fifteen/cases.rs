//! The fifteen: what is asked with a number, and what must come back for it.

use super::upstream::{ITEMS, field, item, text};
use crate::client::Answer;

/// The environment of one of the fifteen.
pub const TOKEN: &str = "t{0}k";

/// Which of the fifteen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Dashboard,
    WholeApi,
    Details,
    Hal,
    Rss,
    Post,
    Events,
    Fields,
    Status,
    Split,
    Static,
    Rewrite,
    Files,
    Conditional,
    Caching,
}

pub const ALL: [Case; 15] = [
    Case::Dashboard,
    Case::WholeApi,
    Case::Details,
    Case::Hal,
    Case::Rss,
    Case::Post,
    Case::Events,
    Case::Fields,
    Case::Status,
    Case::Split,
    Case::Static,
    Case::Rewrite,
    Case::Files,
    Case::Conditional,
    Case::Caching,
];

impl Case {
    /// The request with this number.
    pub fn request(self, n: u64) -> Vec<u8> {
        let get = |target: String| format!("GET {target} HTTP/1.1\r\nhost: bench\r\n\r\n").into_bytes();
        match self {
            Case::Dashboard => get(format!("/dashboard/{n}")),
            Case::WholeApi => upload(n),
            Case::Details => get(format!("/details/{n}")),
            Case::Hal => get(format!("/hal/{n}")),
            Case::Rss => get(format!("/rss/{n}")),
            Case::Post => {
                let body = item(n);
                let fields = format!("content-type: application/json\r\ncontent-length: {}", body.len());
                format!("POST /orders/{n} HTTP/1.1\r\nhost: bench\r\n{fields}\r\n\r\n{body}").into_bytes()
            }
            Case::Events => get(format!("/events/{n}")),
            Case::Fields => get(format!("/go/{n}")),
            Case::Status => get(format!("/maybe/{n}")),
            Case::Split => get(format!("/split/{n}")),
            Case::Static => get(format!("/static/{n}")),
            Case::Rewrite => get(format!("/old/v1/{n}.json")),
            Case::Files => get(format!("/files/{n}")),
            Case::Conditional => get(format!("/when/{n}")),
            Case::Caching => {
                let condition = if n.is_multiple_of(2) { "" } else { "if-none-match: \"x\"\r\n" };
                format!("GET /etag/{n} HTTP/1.1\r\nhost: bench\r\n{condition}\r\n").into_bytes()
            }
        }
    }

    /// Whether that is the answer to the request with this number.
    pub fn fits(self, n: u64, head: &str, answer: &Answer) -> bool {
        let is = |status: u16, body: String| answer.status == status && answer.body == body.as_bytes();
        let has = |name: &str, value: String| field(head, name) == Some(value.as_str());
        match self {
            Case::Dashboard => is(200, format!(r#"{{"user":{},"orders":{ITEMS},"news":[],"weather":null}}"#, item(n))),
            Case::WholeApi => {
                let call = format!("{} /base/echo/{n}?n={n}", method(n));
                has("x-call", call) && has("x-own", n.to_string()) && answer.status == 200 && answer.body == body(n)
            }
            Case::Details => is(200, list((0..ITEMS).map(|at| item(n + at)))),
            Case::Hal => is(200, list((2..8).map(|at| format!(r#"{{"id":{at},"n":{}}}"#, n + at)))),
            Case::Rss => is(200, list((0..n % 4).map(|at| format!(r#"{{"title":"{n}-{at}"}}"#)))),
            Case::Post => {
                let wanted = format!(r#"{{"order":{},"mail":{{"about":{n}}}}}"#, item(n));
                has("location", format!("/orders/{n}")) && is(201, wanted)
            }
            Case::Events => answer.status == 200 && events(n, &answer.body),
            Case::Fields => {
                let cookies = head.lines().filter(|line| line.starts_with("set-cookie: ")).collect::<Vec<_>>();
                has("location", format!("/go/{n}"))
                    && cookies == [format!("set-cookie: a={n}; Path=/go"), format!("set-cookie: b={n}")]
                    && is(302, String::new())
            }
            Case::Status if n.is_multiple_of(3) => is(404, format!(r#"{{"missing":{n}}}"#)),
            Case::Status => is(200, format!(r#"{{"n":{n}}}"#)),
            Case::Split | Case::Rewrite => is(200, item(n)),
            Case::Static => {
                has("x-n", n.to_string())
                    && has("cache-control", "no-store".into())
                    && is(200, format!(r#"{{"static":{n}}}"#))
            }
            Case::Files => is(200, format!(r#"{{"token":"{TOKEN}","n":{n}}}"#)),
            Case::Conditional => {
                let more = if n.is_multiple_of(2) { n.to_string() } else { "null".to_owned() };
                is(200, format!(r#"{{"n":{n},"more":{more}}}"#))
            }
            Case::Caching => {
                let (status, body) = if n.is_multiple_of(2) { (200, item(n)) } else { (304, String::new()) };
                has("etag", format!("\"{n}\"")) && has("cache-control", "private, max-age=5".into()) && is(status, body)
            }
        }
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Methods with a body, sized and in chunks.
fn method(n: u64) -> &'static str {
    ["PUT", "POST", "PATCH", "DELETE"][(n % 4) as usize]
}

fn body(n: u64) -> Vec<u8> {
    text(n).repeat((n % 5) as usize).into_bytes()
}

fn upload(n: u64) -> Vec<u8> {
    let (body, method) = (body(n), method(n));
    let head = format!("{method} /api/echo/{n}?n={n} HTTP/1.1\r\nhost: bench\r\nx-own: {n}\r\n");
    if n.is_multiple_of(2) {
        return [format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
    }
    let mut request = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for chunk in body.chunks(700) {
        request.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        request.extend_from_slice(chunk);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}

/// All events of all three streams, each stream in its own order.
fn events(n: u64, body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else { return false };
    let came: Vec<&str> = text.split_terminator("\n\n").collect();
    let of = |which: &str, count: u64| -> Vec<String> {
        (0..count).map(|at| format!("id: {at}\ndata: \"{n}-{which}-{at}\"")).collect()
    };
    let own = |which: &str| -> Vec<String> {
        let mark = format!("-{which}-");
        came.iter().filter(|event| event.contains(&mark)).map(|event| (*event).to_owned()).collect()
    };
    let sorted = [("a", 3), ("b", 3), ("c", 2)].iter().all(|(which, count)| own(which) == of(which, *count));
    sorted && came.len() == 8 && text.ends_with("\n\n")
}
