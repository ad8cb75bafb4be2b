//! Bodies whose type nothing reads, at each place where an expression may put them: they arrive byte by byte, or the client is told.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use crocodile_pear_stage as stage;
use stage::asked::Asked;
use stage::client::Client;
use stage::database::Database;
use stage::gateway::Gateway;
use stage::shop::{Shop, answer};

/// The upper half of all bytes, and what texts have trouble with.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\x00\xff\xfe\x80\xc3(\xed\xa0\x80";

const PARTS: &[u8] =
    b"--x\r\ncontent-disposition: form-data; name=\"f\"; filename=\"a.bin\"\r\n\r\n\x00\xff\x89\r\n--x--\r\n";

const SVG: &[u8] = b"<svg/>";

/// A body, its content type, and whether it is a text.
const BODIES: [(&str, &[u8], bool); 6] = [
    ("image/png", PNG, false),
    ("application/octet-stream; charset=utf-8", PNG, false),
    ("text/plain", PNG, false),
    ("multipart/form-data; boundary=x", PARTS, false),
    ("image/svg+xml", SVG, true),
    ("application/octet-stream", b"plain", true),
];

/// The fate of a body that is no text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// So many calls have it as it came, with its content type.
    Sent(usize),
    /// The same, with the content type that the call has.
    Typed(&'static str),
    /// The client gets it back.
    Returned,
    /// The client is told with 415, and no call is made.
    Refused,
    /// The client is told with 415 by the call that cannot have it.
    Late,
}

const PLACES: [(&str, &str, Fate); 20] = [
    ("/request", "request: { to: one, path: /x, body: $body }", Fate::Sent(1)),
    (
        "/named",
        "{ requests: { a: { to: one, path: /a, body: $body }, b: { to: one, path: /b, body: ' $body ' } } }, merge: '[$a, $b]'",
        Fate::Sent(2),
    ),
    (
        "/values",
        "request: { to: one, path: '/{.}', for_each: '1, 2', body: $body }, concatenate: { body_only: true }",
        Fate::Sent(2),
    ),
    (
        "/second",
        "request: { to: one, path: /list, method: GET }, request: { to: one, path: /x, body: $body }",
        Fate::Sent(1),
    ),
    ("/detached", "request: { to: one, path: /x, body: $body, detach: on }, respond: { status: 202 }", Fate::Sent(1)),
    (
        "/decided",
        "reject: { when: '$body == null', status: 422 }, request: { to: one, path: /x, body: $body }",
        Fate::Sent(1),
    ),
    (
        "/beside",
        "{ requests: { a: { to: one, path: /a, body: $body }, b: { to: one, path: /b, body: client } } }, merge: '[$a, $b]'",
        Fate::Sent(2),
    ),
    (
        "/typed",
        "request: { to: one, path: /x, headers: { content-type: application/x-raw }, body: $body }",
        Fate::Typed("application/x-raw"),
    ),
    (
        "/copied",
        "request: { to: one, path: /x, headers: { content-type: '{$headers[\"x-type\"]}' }, body: $body }",
        Fate::Sent(1),
    ),
    ("/asked", "request: { to: one, path: /x, headers: { content-type: '{$query.as}' }, body: $body }", Fate::Late),
    ("/echo", "respond: { body: $body }", Fate::Returned),
    (
        "/json",
        "request: { to: one, path: /x, headers: { content-type: application/json }, body: $body }",
        Fate::Refused,
    ),
    (
        "/form",
        "request: { to: one, path: /x, headers: { content-type: application/x-www-form-urlencoded }, body: $body }",
        Fate::Refused,
    ),
    ("/made", "request: { to: one, path: /x, body: '{file: $body}' }", Fate::Refused),
    ("/piped", "request: { to: one, path: /x, body: '$body | .' }", Fate::Refused),
    ("/field", "request: { to: one, path: /x, method: GET, headers: { x-body: '{$body}' } }", Fate::Refused),
    ("/path", "request: { to: one, path: '/{$body}', method: GET }", Fate::Refused),
    ("/changed", "request: { to: one, path: /x }, transform: '[$body]'", Fate::Refused),
    ("/answered", "respond: { body: '{got: $body}' }", Fate::Refused),
    (
        "/each",
        "request: { to: one, path: /list, method: GET }, each: '.[]', request: { to: one, path: '/{.}', body: '[$body]' }, concatenate: { body_only: true }",
        Fate::Refused,
    ),
];

struct Scene {
    _shop: Shop,
    gateway: Gateway,
    calls: Arc<Mutex<Vec<Asked>>>,
}

impl Scene {
    fn set(upstream: impl FnOnce(&str) -> String, endpoints: &str) -> Self {
        let calls: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let noted = calls.clone();
        let shop = Shop::open(move |asked, stream: &mut TcpStream| {
            noted.lock().unwrap().push(asked.clone());
            let json = if asked.target == "/list" { "[7]" } else { "1" };
            stream.write_all(&answer(200, "content-type: application/json\r\n", json))
        });
        let upstream = upstream(&shop.address.to_string());
        let gateway = Gateway::of(format!("listen: 127.0.0.1:0\n{upstream}endpoints:\n{endpoints}"));
        Scene { _shop: shop, gateway, calls }
    }

    /// Sends a body, and gives the answer with its body.
    fn send(&self, target: &str, media: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
        let mut client = Client::connect(self.gateway.address).unwrap();
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: h\r\nx-type: {media}\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        client.ask("POST", &[head.as_bytes(), body].concat()).unwrap();
        let answer = client.head().unwrap();
        let media = answer.field("content-type").unwrap_or_default().to_owned();
        (answer.status, media, client.rest().unwrap())
    }

    /// The calls with a body since the last look, once as many are there.
    fn calls(&self, number: usize, told: &str) -> Vec<Asked> {
        stage::until(told, || {
            self.calls.lock().unwrap().iter().filter(|call| call.target != "/list").count() >= number
        });
        std::mem::take(&mut *self.calls.lock().unwrap()).into_iter().filter(|call| call.target != "/list").collect()
    }
}

#[test]
fn bytes_that_are_no_text_arrive_as_they_came_or_the_client_is_told() {
    let endpoints: String =
        PLACES.iter().map(|(path, steps, _)| format!("  POST {path}: {{ pipeline: [ {steps} ] }}\n")).collect();
    let scene = Scene::set(|address| format!("upstreams: {{ one: 'http://{address}' }}\n"), &endpoints);
    let mut tried = 0;
    for (path, _, fate) in PLACES {
        for (media, body, is_text) in BODIES {
            let told = format!("{media} at {path}");
            let target = if fate == Fate::Late { format!("{path}?as=application/json") } else { path.to_owned() };
            let (status, answered, came) = scene.send(&target, media, body);
            tried += 1;
            match fate {
                Fate::Sent(number) => {
                    assert!((200..300).contains(&status), "{told}: {status}");
                    for call in scene.calls(number, &told) {
                        assert_eq!((call.field("content-type"), &*call.body), (media, body), "{told}");
                    }
                }
                Fate::Typed(written) => {
                    assert_eq!(status, 200, "{told}");
                    for call in scene.calls(1, &told) {
                        assert_eq!((call.field("content-type"), &*call.body), (written, body), "{told}");
                    }
                }
                Fate::Returned => assert_eq!((status, &*answered, &*came), (200, media, body), "{told}"),
                Fate::Late => {
                    assert_eq!(status, 415, "{told}: {}", String::from_utf8_lossy(&came));
                    assert_eq!(scene.calls(0, &told).len(), 0, "{told}");
                }
                // What is a text can be a value.
                Fate::Refused if is_text => drop(scene.calls(0, &told)),
                Fate::Refused => {
                    let problem = String::from_utf8_lossy(&came).into_owned();
                    assert_eq!(status, 415, "{told}: {problem}");
                    assert!(problem.contains("unsupported-body") && !problem.contains("base64"), "{told}: {problem}");
                    assert!(scene.calls(0, &told).is_empty(), "{told}");
                }
            }
        }
    }
    println!("{tried} bodies, none sent as something else");
}

#[test]
fn a_compressed_body_goes_on_compressed() {
    let endpoints = "  POST /x: { pipeline: [ request: { to: one, path: /x, body: $body } ] }\n";
    let scene = Scene::set(|address| format!("upstreams: {{ one: 'http://{address}' }}\n"), endpoints);
    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    coder.write_all(PNG).unwrap();
    let body = coder.finish().unwrap();
    let mut client = Client::connect(scene.gateway.address).unwrap();
    let head = format!(
        "POST /x HTTP/1.1\r\nhost: h\r\ncontent-type: image/png\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.ask("POST", &[head.as_bytes(), &body].concat()).unwrap();
    assert_eq!(client.head().unwrap().status, 200);
    let calls = scene.calls(1, "a call");
    assert_eq!((calls[0].field("content-encoding"), calls[0].field("content-type")), ("gzip", "image/png"));
    assert_eq!(calls[0].body, body);
}

#[test]
fn a_database_has_the_bytes_of_an_upload_or_the_client_is_told() {
    let Some(database) = Database::start() else { return };
    let session = database.connect();
    session.run("create table uploads(content bytea, note text, document jsonb)").unwrap();
    let insert = |column: &str, value: &str| {
        format!(
            "{{ pipeline: [ {{ sql: {{ to: items, query: 'insert into uploads({column}) values ($1) returning 1 as n', \
             values: ['{value}'], one: true }} }} ] }}"
        )
    };
    let endpoints = format!(
        "  POST /bytes: {}\n  POST /text: {}\n  POST /json: {}\n  POST /made: {}\n",
        insert("content", "$body"),
        insert("note", "$body"),
        insert("document", "$body"),
        insert("document", "{file: $body}")
    );
    let databases = |_: &str| format!("databases: {{ items: {{ url: '{}' }} }}\n", database.url());
    let scene = Scene::set(databases, &endpoints);
    assert_eq!(scene.send("/bytes", "image/png", PNG).0, 200);
    assert_eq!(scene.send("/bytes", "image/svg+xml", SVG).0, 200);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let kept = session.one("select string_agg(encode(content, 'hex'), ' ' order by length(content)) from uploads");
    assert_eq!(kept, Some(format!("{} {}", hex(SVG), hex(PNG))));
    assert_eq!(scene.send("/text", "image/svg+xml", SVG).0, 200);
    assert_eq!(scene.send("/json", "image/svg+xml", SVG).0, 200);
    let texts =
        session.one("select string_agg(coalesce(note, document #>> '{}'), ' ') from uploads where content is null");
    assert_eq!(texts.as_deref(), Some("<svg/> <svg/>"));
    for (path, status) in [("/text", 400), ("/json", 400), ("/made", 415)] {
        let (came, _, problem) = scene.send(path, "image/png", PNG);
        assert_eq!(came, status, "{path}: {}", String::from_utf8_lossy(&problem));
    }
    assert_eq!(session.one("select count(*)::text from uploads"), Some("4".to_owned()));
}
