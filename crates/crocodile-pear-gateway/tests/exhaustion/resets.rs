//! Requests that are reset while something is awaited for them leave nothing behind, whatever it is: one row for each table
//! in which requests wait, over HTTP/1.1 and HTTP/2. Memory stays flat, and afterwards the same request is answered, behind
//! bounds that a few lost places would fill.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::stage::client::Client;
use super::stage::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, Raw, SETTINGS, WINDOW_UPDATE, block, frame,
};
use super::stage::gateway::Gateway;
use super::stage::{PATIENCE, in_parallel, scratch, within};

/// Returns the number of requests that are reset in each row. `RESETS=100000 cargo test --release --test exhaustion reset` sets it;
/// `TABLE=sql` tries one of the rows.
fn resets() -> usize {
    std::env::var("RESETS").ok().and_then(|count| count.parse().ok()).unwrap_or(SUITE)
}

/// The number in the suite: about eight times the largest bound below. If every eighth request loses its place, the row fails at its end.
/// A multiple of `TOGETHER`: if the last batch is smaller than the others, the allocator keeps more memory.
const SUITE: usize = 13 * TOGETHER;

/// Requests that wait at the same time.
const TOGETHER: usize = 40;

/// Returns the most that the process may grow while four fifths of the requests come, in KiB: 2 KiB for each in the suite, which is less than a
/// request or an answer takes; less than 55 bytes for each of 100,000.
fn growth(count: usize) -> u64 {
    if count > SUITE { 4 << 10 } else { 800 }
}

/// A table, and a request that waits in it.
struct Row {
    name: &'static str,
    /// The lines of the row below its endpoint.
    endpoint: &'static str,
    /// Lines of fields; `{n}` is the number of the request.
    fields: &'static str,
    /// A body of which only the first half comes.
    body: &'static str,
    /// The status of the same request once everything answers.
    status: u16,
    /// Whether all requests are for the same.
    same: bool,
}

impl Row {
    const fn of(name: &'static str, endpoint: &'static str) -> Self {
        Row { name, endpoint, fields: "", body: "", status: 200, same: false }
    }

    const fn with(self, fields: &'static str) -> Self {
        Row { fields, ..self }
    }

    const fn sends(self, body: &'static str) -> Self {
        Row { body, ..self }
    }

    const fn gets(self, status: u16) -> Self {
        Row { status, ..self }
    }

    const fn same(self) -> Self {
        Row { same: true, ..self }
    }

    fn method(&self) -> &'static str {
        if self.body.is_empty() { "GET" } else { "POST" }
    }

    /// A path of this request alone, or the same for all over this version.
    fn path(&self, version: u8, number: usize) -> String {
        match self.same {
            true => format!("/{}/same{version}", self.name),
            false => format!("/{}/{version}{number:07}", self.name),
        }
    }

    /// The fields. Those of one version are not those of another: what the first left behind would hide what the second leaves.
    fn list(&self, version: u8, number: usize) -> Vec<(String, String)> {
        let lines = self.fields.replace("{n}", &format!("{version}{number:07}"));
        let fields = lines.split(", ").filter_map(|line| line.split_once(": "));
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// The upstreams. Each answers when the gate is open, or as its path says. `kept` ends an answer that pauses for 5 s: up to 128 fetches go
/// on although nobody reads them, and meanwhile the memory that lies between them cannot be given back.
const UPSTREAMS: &str = "
  free: { url: 'http://HANG', timeout: TIME }
  few: { url: 'http://HANG', timeout: TIME, in_flight: 64 }
  kept: { url: 'http://HANG', timeout: { connect: 60s, first_byte: 60s, idle: 5s }, cache: 1m, forward: [x-n] }
  queue: { url: 'http://HANG', timeout: TIME, in_flight: 4 }
  pool: { url: 'http://HANG', timeout: TIME, connections: { open: 4 } }
  http2: { url: 'http://HANG', timeout: TIME, protocol: http2 }
  token: { url: 'http://HANG', timeout: TIME, credentials: { oauth2: { token_url: 'http://HANG/token', client_id: a, client_secret: b, timeout: 60s } } }
  hashed: { servers: ['http://HANG/a', 'http://HANG/b', 'http://HANG/c'], timeout: TIME, balance: { by: hash, key: '$headers[\"x-n\"]', bound: 200% } }
  marked: { servers: ['http://HANG/a', 'http://HANG/b'], timeout: TIME, balance: { by: cookie } }
  loaded: { servers: ['http://HANG/a', 'http://HANG/b'], timeout: TIME, retry: { attempts: 2 }, breaker: {} }
  choice: { choose: [ { share: 50%, to: few }, { to: kept } ], mirror: { to: brief, in_flight: 64 } }
  brief: { url: 'http://HANG', timeout: 50ms }
  buffered: { url: 'http://HANG', timeout: TIME, buffer: 1MiB }
";

const JWT: &str = "authorization: Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6Im4ifQ.eyJpc3MiOiJpIiwic3ViIjoiYSJ9.AAAA";

/// Each table in which requests wait.
const ROWS: &[Row] = &[
    Row::of("exchange", "few /{n}"),
    Row::of("body", "few /{n}").sends("half of it and the rest"),
    Row::of("buffer", "buffered /{n}").sends("half of it and the rest"),
    Row::of("coalesced", "{ pipeline: [request: 'kept /{n}'] }").same(),
    Row::of("coalesced-each", "{ pipeline: [request: 'kept /{n}'] }"),
    Row::of("coalesced-by", "{ pipeline: [request: 'kept /{n}'] }").with("x-n: {n}").same(),
    Row::of("whole", "{ cache: 1m, pipeline: [request: 'few /{n}'] }").same(),
    Row::of("whole-each", "{ cache: { for: 1m, key: '$headers[\"x-n\"]' }, pipeline: [request: 'few /{n}'] }").with("x-n: {n}"),
    Row::of("arriving", "{ pipeline: [request: 'kept /part/{n}'] }").same(),
    Row::of("arriving-each", "{ pipeline: [request: 'kept /part/{n}'] }"),
    Row::of("stream", "few /part/{n}"),
    Row::of("compress", "{ compress: on, pipeline: [request: 'free /part/{n}'] }").with("accept-encoding: zstd"),
    Row::of("for-each", "{ pipeline: [{ request: { to: free, path: '/{.}', for_each: 'range(4) | . % 2' } }, { concatenate: { as: json } }] }"),
    Row::of("batch", "{ pipeline: [{ request: { to: free, path: '/?ids={join(\",\")}', for_each: '1, 2', batch: {} } }, { concatenate: { as: json } }] }").gets(502),
    Row::of("named", "{ pipeline: [{ requests: { a: free /a, b: 'free /{n}' } }, { merge: '[$a, $b]' }] }"),
    Row::of("each", "{ pipeline: [{ request: free /now }, { each: { in: '.items[]' } }, { follow: { link: '\"/\\(.)\"', as: x } }, { concatenate: { as: json } }] }"),
    Row::of("follow", "{ pipeline: [{ request: free /now }, { follow: { link: .link } }] }"),
    Row::of("queue", "queue /{n}"),
    Row::of("pool", "pool /{n}"),
    Row::of("upstream-http2", "http2 /{n}"),
    Row::of("upstream-http2-body", "http2 /{n}").sends("half of it and the rest"),
    Row::of("hash", "hashed /{n}").with("x-n: {n}"),
    Row::of("cookie", "marked /{n}").with("cookie: upstream=0000000000000001"),
    Row::of("breaker", "loaded /{n}"),
    Row::of("choice-and-mirror", "choice /{n}"),
    Row::of("oauth", "token /{n}"),
    Row::of("introspection", "{ authenticate: [{ introspection: { url: 'http://HANG/i', client_id: a, client_secret: b, timeout: 60s } }], pipeline: [respond: { status: 200 }] }")
        .with("authorization: Bearer t{n}"),
    Row::of("introspection-of-one", "{ authenticate: [{ introspection: { url: 'http://HANG/j', client_id: a, client_secret: b, timeout: 60s } }], pipeline: [respond: { status: 200 }] }")
        .with("authorization: Bearer same"),
    Row::of("forward", "{ authenticate: [{ forward: { to: few, path: /verify, timeout: 60s } }], pipeline: [respond: { status: 200 }] }"),
    Row::of("forward-kept", "{ authenticate: [{ forward: { to: few, path: /verify, timeout: 60s, cache: { for: 1m, by: '$headers[\"x-n\"]' } } }], pipeline: [respond: { status: 200 }] }")
        .with("x-n: {n}"),
    Row::of("jwks", "{ authenticate: [{ jwt: { issuer: i, audience: any, keys: 'http://HANG/keys', algorithms: [RS256] } }], pipeline: [respond: { status: 200 }] }")
        .with(JWT)
        .gets(503),
    Row::of("sql", "{ pipeline: [{ sql: { to: silent, query: 'select 1', one: true } }] }").gets(503),
    Row::of("in-flight", "{ in_flight: { limit: 1, by: '$headers[\"x-n\"]' }, pipeline: [request: 'few /{n}'] }").with("x-n: {n}"),
    Row::of("in-flight-together", "{ in_flight: 64, pipeline: [request: 'few /{n}'] }"),
    Row::of("rate", "{ rate_limit: { rate: 1000000/1s, by: '$headers[\"x-n\"][-2:]' }, pipeline: [request: 'few /{n}'] }").with("x-n: {n}"),
    Row::of("cost", "{ rate_limit: { rate: 1000000/1s, cost: .expires_in, by: '$headers[\"x-n\"][-2:]' }, pipeline: [request: 'few /{n}'] }").with("x-n: {n}"),
    Row::of("quota", "{ quota: { amount: 1000000000, per: day, cost: .expires_in }, pipeline: [request: 'few /{n}'] }"),
    Row::of("validate", "{ validate: { body: { type: object } }, pipeline: [respond: { status: 200 }] }").sends("{\"a\": \"half of it\", \"b\": 1}"),
    Row::of("expression", "{ pipeline: [respond: { body: '[range(40000)] | length' }] }"),
    Row::of("file", "{ files: FOLDER }").same(),
    Row::of("detached", "{ detach: { respond: { status: 202 } }, pipeline: [request: 'brief /{n}'] }").gets(202),
    Row::of("detached-call", "{ pipeline: [{ request: { to: brief, path: '/{n}', detach: { attempts: 1 } } }, { respond: { status: 202 } }] }").gets(202),
    Row::of("grpc-web", "{ grpc_web: on, pipeline: [{ request: { to: http2, path: '/{n}', method: client, body: client } }] }")
        .with("content-type: application/grpc-web+proto")
        .sends("\0\0\0\0\x02aa"),
    Row::of("upgrade", "{ upgrade: websocket, pipeline: [request: 'few /{n}'] }").with(UPGRADE),
    Row::of("tunnel", "{ upgrade: websocket, pipeline: [request: 'few /switch/{n}'] }").with(UPGRADE).gets(101),
];

const UPGRADE: &str =
    "connection: upgrade, upgrade: websocket, sec-websocket-version: 13, sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";

/// A server of everything that answers only while its gate is open: calls, issuers, databases, over HTTP/1.1 and HTTP/2.
struct Silent {
    address: SocketAddr,
    gate: watch::Sender<bool>,
}

impl Silent {
    fn begin() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        SockRef::from(&listener).listen(4096).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (gate, open) = watch::channel(false);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    if let Ok((stream, _)) = listener.accept().await {
                        let _ = stream.set_nodelay(true);
                        tokio::spawn(serve(stream, open.clone()));
                    }
                }
            });
        });
        Silent { address, gate }
    }
}

/// An answer that serves as everything: an answer, a token, keys, an issuer's word.
const BODY: &str =
    r#"{"active": true, "sub": "a", "access_token": "t", "token_type": "bearer", "expires_in": 60, "keys": []}"#;

/// The answer that comes at once: a list and a link.
const NOW: &str = r#"{"link": "/linked", "items": [1, 2, 3]}"#;

async fn serve(mut stream: tokio::net::TcpStream, mut open: watch::Receiver<bool>) -> std::io::Result<()> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        let length = stream.read(&mut piece).await?;
        if length == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&piece[..length]);
        if bytes.starts_with(PREFACE) {
            bytes.drain(..PREFACE.len());
            return serve_http2(stream, bytes, open).await;
        }
        let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let target = head.split(' ').nth(1).unwrap_or_default();
        if target.starts_with("/now") {
            stream.write_all(answer(NOW).as_bytes()).await?;
            bytes.clear();
            continue;
        }
        if target.contains("/switch/") {
            stream.write_all(b"HTTP/1.1 101 S\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n").await?;
            while stream.read(&mut piece).await? > 0 {}
            return Ok(());
        }
        let part = target.contains("/part/");
        if part {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncache-control: max-age=60\r\ncontent-length: {}\r\n\r\n",
                BODY.len()
            );
            stream.write_all([head.as_bytes(), &BODY.as_bytes()[..10]].concat().as_slice()).await?;
        }
        // Until the gate opens, or the other side leaves.
        while !*open.borrow_and_update() {
            tokio::select! {
                changed = open.changed() => if changed.is_err() { return Ok(()) },
                length = stream.read(&mut piece) => if length? == 0 { return Ok(()) },
            }
        }
        let rest = if part { BODY[10..].to_owned() } else { answer(BODY) };
        stream.write_all(rest.as_bytes()).await?;
        if head.contains("transfer-encoding") || head.contains("content-length") {
            // Whatever came of the body meanwhile is not told from a further call.
            return stream.shutdown().await;
        }
        bytes.clear();
    }
}

fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

async fn serve_http2(
    mut stream: tokio::net::TcpStream,
    mut bytes: Vec<u8>,
    mut open: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let (mut waiting, mut piece) = (Vec::new(), [0; 16 << 10]);
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    loop {
        while bytes.len() >= 9 {
            let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
            if bytes.len() < 9 + length {
                break;
            }
            let read: Vec<u8> = bytes.drain(..9 + length).collect();
            let on = u32::from_be_bytes(read[5..9].try_into().expect("four bytes"));
            match (read[3], read[4] & 1) {
                (SETTINGS, 0) => stream.write_all(&frame(SETTINGS, 1, 0, &[])).await?,
                (PING, 0) => stream.write_all(&frame(PING, 1, 0, &read[9..])).await?,
                // It reads what it gets, as servers do: streams that wait for its window would be kept.
                (DATA, _) if length > 0 => {
                    let room = u32::try_from(length).expect("a frame").to_be_bytes();
                    stream.write_all(&frame(WINDOW_UPDATE, 0, 0, &room)).await?;
                }
                (HEADERS, _) => waiting.push(on),
                (RST_STREAM, _) => waiting.retain(|known| *known != on),
                _ => {}
            }
        }
        if *open.borrow_and_update() {
            for on in waiting.drain(..) {
                let fields = block(&[(":status", "200"), ("content-type", "application/json")]);
                let answered = [frame(HEADERS, END_HEADERS, on, &fields), frame(DATA, END_STREAM, on, BODY.as_bytes())];
                stream.write_all(&answered.concat()).await?;
            }
        }
        tokio::select! {
            changed = open.changed() => if changed.is_err() { return Ok(()) },
            length = stream.read(&mut piece) => match length? {
                0 => return Ok(()),
                length => bytes.extend_from_slice(&piece[..length]),
            },
        }
    }
}

struct Scene {
    gateway: Gateway,
    silent: Silent,
}

impl Scene {
    /// The scene of one version: each has a gateway of its own.
    fn new(version: u8) -> Self {
        let silent = Silent::begin();
        let folder = scratch(format!("resets{version}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("same{version}")), vec![b'x'; 4 << 20]).unwrap();
        let mut config = format!(
            "listen: 127.0.0.1:0\nthreads: 1\ndatabases:\n  silent: {{ url: 'postgres://a:b@HANG/c?sslmode=disable', connections: 4, connect: 2s, wait: 2s, timeout: 2s }}\n\
             upstreams:{UPSTREAMS}endpoints:\n  GET /bystander: {{ pipeline: [respond: {{ status: 204 }}] }}\n"
        );
        for row in ROWS {
            let path = if row.name == "file" { "{*path}" } else { "{n}" };
            writeln!(config, "  {} /{}/{path}: {}", row.method(), row.name, row.endpoint).unwrap();
        }
        let config = config
            .replace("HANG", &silent.address.to_string())
            .replace("FOLDER", &format!("'{}'", folder.display()))
            .replace("TIME", "{ connect: 60s, first_byte: 60s, idle: 60s }");
        let file = scratch(format!("resets{version}.yaml"));
        std::fs::write(&file, config).unwrap();
        // Memory that is not in use goes back at once: a row can hide nothing in the memory that the rows before it have left.
        let environment = [("MIMALLOC_PURGE_DELAY".to_owned(), "0".to_owned())];
        let gateway = Gateway::start(["run".as_ref(), file.as_os_str()], environment).unwrap();
        Scene { gateway, silent }
    }

    /// Waits until the one thread has read what came before.
    fn pass(&self) {
        let mut bystander = Client::connect(self.gateway.address).unwrap();
        bystander.ask("GET", b"GET /bystander HTTP/1.1\r\nhost: h\r\n\r\n").unwrap();
        assert_eq!(bystander.head().unwrap().status, 204);
    }

    fn http1(&self, row: &Row, version: u8, number: usize) -> Vec<u8> {
        let mut request = format!("{} {} HTTP/1.1\r\nhost: h\r\n", row.method(), row.path(version, number));
        for (name, value) in row.list(version, number) {
            write!(request, "{name}: {value}\r\n").unwrap();
        }
        if row.body.is_empty() {
            return format!("{request}\r\n").into_bytes();
        }
        format!("{request}content-length: {}\r\n\r\n{}", row.body.len(), &row.body[..row.body.len() / 2]).into_bytes()
    }

    /// Opens connections, sends a request on each, and resets them all.
    fn reset_http1(&self, row: &Row, numbers: std::ops::Range<usize>) {
        let streams: Vec<TcpStream> = numbers
            .map(|number| {
                let mut stream = TcpStream::connect(self.gateway.address).unwrap();
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
                stream.write_all(&self.http1(row, 1, number)).unwrap();
                stream
            })
            .collect();
        self.pass();
        drop(streams);
        self.pass();
    }

    /// The same as streams of one connection.
    fn reset_http2(&self, row: &Row, numbers: std::ops::Range<usize>) {
        let mut raw = Raw::new(self.gateway.address);
        let mut sent = Vec::new();
        for (at, number) in numbers.clone().enumerate() {
            let on = 2 * u32::try_from(at).unwrap() + 1;
            let path = row.path(2, number);
            let mut fields =
                vec![(":method", row.method()), (":scheme", "http"), (":authority", "h"), (":path", &path)];
            let list = row.list(2, number);
            fields.extend(list.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            let end = if row.body.is_empty() { END_STREAM } else { 0 };
            sent.extend(frame(HEADERS, END_HEADERS | end, on, &block(&fields)));
            if end == 0 {
                sent.extend(frame(DATA, 0, on, &row.body.as_bytes()[..row.body.len() / 2]));
            }
        }
        raw.send(&sent);
        raw.send(frame(PING, 0, 0, b"arrived."));
        acknowledged(&mut raw, *b"arrived.");
        let resets = (0..numbers.len() as u32).flat_map(|at| frame(RST_STREAM, 0, 2 * at + 1, &8_u32.to_be_bytes()));
        raw.send(resets.collect::<Vec<u8>>());
        raw.send(frame(PING, 0, 0, b"have go."));
        acknowledged(&mut raw, *b"have go.");
    }

    /// The status of a row's request while everything answers.
    fn status(&self, row: &Row, version: u8) -> u16 {
        let mut client = Client::connect(self.gateway.address).unwrap();
        let mut request = self.http1(row, version, 0);
        request.extend_from_slice(&row.body.as_bytes()[row.body.len() / 2..]);
        client.ask(row.method(), &request).unwrap();
        let status = client.head().unwrap().status;
        if status != 101 {
            client.rest().unwrap();
        }
        status
    }
}

fn acknowledged(raw: &mut Raw, ping: [u8; 8]) {
    loop {
        let answered = raw.until(PING);
        if answered.flags == 1 && answered.payload == ping {
            return;
        }
    }
}

/// Resets requests of each row, and returns what was wrong: more memory, or another answer afterwards.
fn reset_all(version: u8) -> Vec<String> {
    let count = resets();
    let only = std::env::var("TABLE").unwrap_or_default();
    let (scene, mut failed) = (Scene::new(version), Vec::new());
    // HTTP/2 has no `upgrade` field.
    let has = |row: &&Row| row.name.contains(&only) && (version == 1 || !row.fields.contains("upgrade"));
    for row in ROWS.iter().filter(has) {
        let name = format!("{} over HTTP/{version}", row.name);
        let (warm, mut before) = (count / 5, 0);
        for begin in (0..count).step_by(TOGETHER) {
            if begin <= warm {
                before = (scene.gateway.resident() >> 10).max(before);
            }
            let numbers = begin..(begin + TOGETHER).min(count);
            match version {
                1 => scene.reset_http1(row, numbers),
                _ => scene.reset_http2(row, numbers),
            }
        }
        // Work of another thread, and calls without a client, end a little later.
        let flat = within(PATIENCE, || ((scene.gateway.resident() >> 10) <= before + growth(count)).then_some(()));
        let grown = (scene.gateway.resident() >> 10).saturating_sub(before);
        scene.silent.gate.send_replace(true);
        let mut status = 0;
        let answered = within(PATIENCE, || {
            status = scene.status(row, version);
            (status == row.status).then_some(())
        });
        scene.silent.gate.send_replace(false);
        let line = format!("{name:<40} {count} resets: {grown} KiB more; then {status}");
        println!("{line}");
        if flat.is_none() || answered.is_none() {
            failed.push(line);
        }
    }
    println!("{} KiB at the end", scene.gateway.resident() >> 10);
    failed
}

#[test]
fn requests_that_are_reset_leave_nothing_in_any_table() {
    let failed = in_parallel(2, vec![1, 2], reset_all).concat();
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

/// The number of descriptors that a process has open.
fn descriptors(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.id())).unwrap().count()
}

#[test]
fn fetches_for_a_cache_that_nobody_reads_hold_few_connections() {
    let silent = Silent::begin();
    let config = format!(
        "listen: 127.0.0.1:0\nthreads: 1\nupstreams:\n  kept: {{ url: 'http://{}', cache: 1m, timeout: {{ connect: 1h, first_byte: 1h, idle: 1h }} }}\n\
         endpoints:\n  GET /{{n}}: {{ pipeline: [request: 'kept /part/{{n}}'] }}\n",
        silent.address
    );
    let gateway = Gateway::of(config);
    let before = descriptors(&gateway);
    for number in 0..400 {
        let mut client = Client::connect(gateway.address).unwrap();
        client.ask("GET", format!("GET /{number} HTTP/1.1\r\nhost: h\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(client.head().unwrap().status, 200);
    }
    let few = within(PATIENCE, || (descriptors(&gateway) < before + 200).then_some(()));
    assert!(few.is_some(), "{} descriptors are open, {before} were", descriptors(&gateway));
}
