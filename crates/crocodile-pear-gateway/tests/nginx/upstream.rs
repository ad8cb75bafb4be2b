//! The upstream of both: it answers by the last segment of the path, and notes what it was asked.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::stage::shop::{Asked, Shop};

/// A call, as far as it has to be the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub method: String,
    pub path: String,
    pub query: Option<String>,
    pub fields: Vec<(String, String)>,
    pub body: String,
}

pub struct Upstream {
    pub address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// The fields that are compared, beside all that begin with `x-`.
const FIELDS: [&str; 7] =
    ["host", "authorization", "accept-language", "accept-encoding", "cookie", "content-type", "upgrade"];

/// Status, further fields and body by the last segment of the path.
fn answer(name: &str) -> (&'static str, &'static str, &'static str) {
    match name {
        "fail" => ("503 Service Unavailable", "", r#"{"error":"x"}"#),
        "created" => ("201 Created", "", r#"{"id":8}"#),
        "missing" => ("404 Not Found", "", r#"{"error":"m"}"#),
        "moved" => ("302 Found", "location: http://UP/next?a=1\r\n", ""),
        "allow" => ("200 OK", "x-user: ada\r\n", ""),
        "forbid" => ("403 Forbidden", "", "no"),
        _ => (
            "200 OK",
            "x-powered-by: up\r\n",
            r#"{"id":7,"name":"Ada","tags":["a","b"],"more":"xxxxxxxxxxxxxxxxxxxxxxxx"}"#,
        ),
    }
}

impl Upstream {
    pub fn start() -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let noted = calls.clone();
        let shop = Shop::open(move |asked, stream| {
            let address = stream.local_addr()?.to_string();
            let call = call(asked, &address);
            let (status, fields, body) = answer(call.path.rsplit('/').next().unwrap_or_default());
            let (fields, length) = (fields.replace("UP", &address), body.len());
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            // In one write: several would wait for each other.
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{fields}content-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes())
        });
        Upstream { address: shop.address, calls }
    }

    /// The calls since the last time.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn call(asked: &Asked, address: &str) -> Call {
    let (path, query) = match asked.target.split_once('?') {
        Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
        None => (asked.target.clone(), None),
    };
    let compared = |name: &str| FIELDS.contains(&name) || name.starts_with("x-");
    let fields = asked.fields.iter().filter(|(name, _)| compared(name));
    let mut fields: Vec<_> = fields.map(|(name, value)| (name.clone(), value.replace(address, "UP"))).collect();
    fields.sort();
    let body = String::from_utf8_lossy(&asked.body).into_owned();
    Call { method: asked.method.clone(), path, query, fields, body }
}
