//! The upstream behind the fifteen: each answer is made of the number in its path.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use crate::Result;

/// The number of items of `/list/N`.
pub const ITEMS: u64 = 12;

/// How long the stream of `/rests/N` is silent.
const REST: Duration = Duration::from_millis(20);

/// Serves on a free port, on a thread of its own, until the process ends.
pub fn start() -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("upstream".into()).spawn(move || {
        runtime.block_on(LocalSet::new().run_until(async {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            while let Ok((stream, _)) = listener.accept().await {
                tokio::task::spawn_local(serve(stream, address));
            }
        }));
    })?;
    Ok(address)
}

/// The text of an item: of another length for each of a thousand numbers.
pub fn text(n: u64) -> String {
    ('a'..='z').cycle().skip((n % 26) as usize).take((n * 37 % 1000) as usize).collect()
}

pub fn item(n: u64) -> String {
    format!(r#"{{"n":{n},"text":"{}"}}"#, text(n))
}

/// A request of the gateway.
struct Asked {
    method: String,
    target: String,
    head: String,
    body: Vec<u8>,
}

async fn serve(mut stream: TcpStream, address: SocketAddr) {
    let _ = stream.set_nodelay(true);
    let mut received = Vec::with_capacity(4 << 10);
    // A connection that ends, or that says what is no HTTP, is the gateway's business.
    while let Ok(Some(asked)) = read(&mut stream, &mut received).await {
        if answer(&mut stream, &asked, address).await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<Option<Asked>> {
    let end = loop {
        if let Some(end) = memmem::find(received, b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(received).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&received[..end]).into_owned();
    received.drain(..end);
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let body = match field(&head, "content-length") {
        Some(length) => take(stream, received, length.parse().unwrap_or(0)).await?,
        None if field(&head, "transfer-encoding").is_some() => chunks(stream, received).await?,
        None => Vec::new(),
    };
    Ok(Some(Asked { method, target, head, body }))
}

async fn take(stream: &mut TcpStream, received: &mut Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    while received.len() < length {
        if stream.read_buf(received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(received.drain(..length).collect())
}

async fn chunks(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = memmem::find(received, b"\r\n") {
                break end;
            }
            if stream.read_buf(received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let size = std::str::from_utf8(&received[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.ok_or(io::ErrorKind::InvalidData)?;
        received.drain(..end + 2);
        let chunk = take(stream, received, size + 2).await?;
        body.extend_from_slice(&chunk[..size]);
        if size == 0 {
            return Ok(body);
        }
    }
}

/// The value of a header field.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

async fn answer(stream: &mut TcpStream, asked: &Asked, own: SocketAddr) -> io::Result<()> {
    let path = asked.target.strip_prefix("/base/").unwrap_or_default();
    let segments: Vec<&str> = path.split(['/', '?']).collect();
    let n = |at: usize| segments.get(at).and_then(|n| n.parse::<u64>().ok()).unwrap_or(u64::MAX);
    let json = |body: String| whole("200 OK", "application/json", "", body.as_bytes());
    let answer = match segments[..] {
        ["item", _] => json(item(n(1))),
        ["list", _] => {
            let items: Vec<String> = (0..ITEMS).map(|at| format!(r#"{{"id":{}}}"#, n(1) + at)).collect();
            json(format!(r#"{{"items":[{}]}}"#, items.join(",")))
        }
        ["status", status, _] => whole(&format!("{status} Other"), "application/json", "", b"{}"),
        ["hal", _, page] => json(page_of(n(1), page)),
        ["rss", _] => {
            let items: String = (0..n(1) % 4).map(|at| format!("<item><title>{}-{at}</title></item>", n(1))).collect();
            let feed = format!("<rss><channel><title>t</title>{items}</channel></rss>");
            whole("200 OK", "application/rss+xml", "", feed.as_bytes())
        }
        ["take", _, _] => json(format!(r#"{{"got":{}}}"#, String::from_utf8_lossy(&asked.body))),
        ["events", _, which] => {
            let events: String = (0..3).map(|at| format!("id: {at}\ndata: \"{}-{which}-{at}\"\n\n", n(1))).collect();
            whole("200 OK", "text/event-stream", "", events.as_bytes())
        }
        ["rests", _] => return rest(stream, n(1)).await,
        ["go", _] => {
            let fields = format!(
                "location: http://{own}/base/go/{0}\r\nset-cookie: a={0}; Path=/base/go\r\nset-cookie: b={0}\r\n",
                n(1)
            );
            whole("302 Found", "text/plain", &fields, b"")
        }
        ["maybe", _] if n(1).is_multiple_of(3) => whole("404 Not Found", "application/json", "", b"{}"),
        ["maybe", _] => json(item(n(1))),
        ["etag", _] if field(&asked.head, "if-none-match").is_some() => {
            format!("HTTP/1.1 304 Not Modified\r\netag: \"{}\"\r\n\r\n", n(1)).into_bytes()
        }
        ["etag", _] => {
            let fields = format!("etag: \"{}\"\r\ncache-control: no-cache\r\n", n(1));
            whole("200 OK", "application/json", &fields, item(n(1)).as_bytes())
        }
        ["token", _] => {
            let token = field(&asked.head, "x-token").unwrap_or_default();
            json(format!(r#"{{"token":"{token}","n":{}}}"#, n(1)))
        }
        ["echo", ..] => whole("200 OK", "application/octet-stream", &echoed(asked), &asked.body),
        _ => whole("404 Not Found", "text/plain", "", b""),
    };
    stream.write_all(&answer).await
}

fn whole(status: &str, media: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {media}\r\n{fields}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn echoed(asked: &Asked) -> String {
    let own = field(&asked.head, "x-own").unwrap_or_default();
    format!("x-call: {} {}\r\nx-own: {own}\r\n", asked.method, asked.target)
}

/// Three pages of two items each.
fn page_of(n: u64, page: &str) -> String {
    let page: u64 = page.parse().unwrap_or(1);
    let item = |at: u64| format!(r#"{{"id":{at},"_links":{{"self":{{"href":"/base/item/{}"}}}}}}"#, n + at);
    let next = if page < 3 { format!(r#""next":{{"href":"/base/hal/{n}/{}"}}"#, page + 1) } else { String::new() };
    let (first, second) = (item(2 * page), item(2 * page + 1));
    format!(r#"{{"_links":{{{next}}},"_embedded":{{"items":[{first},{second}]}}}}"#)
}

/// A stream that is silent after its first event, and goes on.
async fn rest(stream: &mut TcpStream, n: u64) -> io::Result<()> {
    let event = |at: u64| {
        let event = format!("id: {at}\ndata: \"{n}-c-{at}\"\n\n");
        format!("{:x}\r\n{event}\r\n", event.len())
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(format!("{head}{}", event(0)).as_bytes()).await?;
    tokio::time::sleep(REST).await;
    stream.write_all(format!("{}0\r\n\r\n", event(1)).as_bytes()).await
}
