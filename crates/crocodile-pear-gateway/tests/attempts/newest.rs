//! Attempts at what is newest: links, redirects and actions of upstreams that lead elsewhere, files outside their folder, choices
//! and servers that a client picks, costs below zero, calls that live on, gRPC-Web. Each one says what must not be seen by
//! whom; which status it gets is its own matter, but for those that hold nothing to refuse.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex};

use crate::stage::accept::Accepting;
use crate::stage::client::{exchange, status};
use crate::stage::gateway::Gateway;
use crate::stage::scratch;
use crate::stage::shop::{Asked, Shop, answer};

/// The first byte of a TLS handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// The text outside the folder that is served.
const OUTSIDE: &str = "what lies outside the folder";

/// Where a document of one upstream may point. `HOST` is the server of all upstreams, `EVIL` that of none.
const ADDRESSES: [&str; 58] = [
    "http://EVIL/",
    "//EVIL/x",
    "http://EVIL/docs/x",
    "http://HOST@EVIL/docs/x",
    "http://EVIL\\\\@HOST/docs/x",
    "http://HOST\\\\@EVIL/docs/x",
    "http://HOST#@EVIL/docs/x",
    "http://HOST?@EVIL/docs/x",
    "http://HOST.evil.test/docs/x",
    "http://evil.test:80/docs/x",
    "http:EVIL/docs/x",
    "http:/EVIL/docs/x",
    "http:///EVIL/docs/x",
    "\\\\\\\\EVIL\\\\x",
    "/\\\\EVIL/x",
    "\\t//EVIL/x",
    "//EVIL\\u0000/x",
    "/docs/../admin",
    "/docs/../../admin",
    "/docs/x/../../admin",
    "../admin",
    "../../admin",
    "..",
    ".",
    "/",
    "",
    "?",
    "#",
    "/admin",
    "http://HOST/admin",
    "HTTP://HOST/admin",
    "http://HOST/docs/../admin",
    "http://HOST/docs/%2e%2e/admin",
    "http://HOST/docs/%2E./admin",
    "http://HOST/docs/.%2e/admin",
    "http://HOST/docs/..%2fadmin",
    "http://HOST/docs/..%5cadmin",
    "http://HOST/docs/..\\\\admin",
    "http://HOST/docs/..;/admin",
    "http://HOST/docs/%252e%252e/admin",
    "http://HOST/docs/%c0%ae%c0%ae/admin",
    "http://HOST/docs/%e0%80%ae%e0%80%ae/admin",
    "http://HOST/docs/.%0d/admin",
    "http://HOST/docs%2f..%2fadmin",
    "http://HOST/docs/%2e%2e%20/admin",
    "http://HOST//docs/../admin",
    "http://HOST/docsadmin",
    "http://HOST/docs?/../../admin",
    "http://HOST/docs/x\\r\\nx-evil: 1\\r\\n",
    "http://HOST/docs/x HTTP/1.1\\r\\nhost: evil\\r\\n\\r\\n",
    "http://HOST/docs/x%0d%0ax-evil:%201",
    "file:///etc/passwd",
    "data:text/plain,x",
    "gopher://HOST/docs",
    "https://HOST/docs/x",
    "http://localhost/docs/x",
    "http://[::1]/docs/x",
    "http://HOST/keyed/%2e%2e/admin",
];

/// Files that a client asks for, below `/files/`.
const PATHS: [&str; 40] = [
    "../outside.txt",
    "..%2foutside.txt",
    "..%2Foutside.txt",
    "%2e%2e/outside.txt",
    "%2e%2e%2foutside.txt",
    ".%2e/outside.txt",
    "sub/../../outside.txt",
    "sub/..%2f..%2foutside.txt",
    "..\\outside.txt",
    "..%5coutside.txt",
    "....//outside.txt",
    "..;/outside.txt",
    "..%00/outside.txt",
    "..%20/outside.txt",
    "%c0%ae%c0%ae/outside.txt",
    "%e0%80%ae%e0%80%ae/outside.txt",
    "%f0%80%80%ae%f0%80%80%ae/outside.txt",
    "%252e%252e/outside.txt",
    "%u002e%u002e/outside.txt",
    "/outside.txt",
    "//outside.txt",
    "ABSOLUTE",
    "%2fABSOLUTE",
    "link",
    "link-absolute",
    "link-folder/outside.txt",
    "sub/link",
    "chain",
    ".secret",
    "%2esecret",
    "sub/.secret",
    ".git/config",
    "pipe",
    "device",
    "a.txt/../.secret",
    "a.txt%00.secret",
    "a.txt/.secret",
    "coded.txt",
    "coded.txt.gz",
    "proc",
];

struct Scene {
    gateway: Gateway,
    /// The server of all upstreams.
    host: Accepting,
    evil: Shop,
    /// The requests that the upstreams have received since the last attempt.
    calls: Arc<Mutex<Vec<Asked>>>,
    held: usize,
    failed: Vec<String>,
    count: usize,
}

/// Decodes a query of `%xx`.
fn decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        write!(all, "%{byte:02X}").unwrap();
        all
    })
}

/// An upstream that says what its query asks for: a document with `d`, a redirect with `r`.
fn says(asked: &Asked, stream: &mut TcpStream) -> std::io::Result<()> {
    let json = "content-type: application/json\r\n";
    let query = asked.target.split_once('?').map_or("", |(_, query)| query);
    let query = |name| query.split('&').find_map(|pair| pair.strip_prefix(name));
    if asked.target.starts_with("/admin") {
        return stream.write_all(&answer(200, json, "\"the inner page\""));
    }
    if let Some(to) = query("r=") {
        let location = [b"location: ", &decoded(to)[..], b"\r\n"].concat();
        return stream.write_all(&answer(307, &String::from_utf8_lossy(&location), ""));
    }
    if let Some(document) = query("d=") {
        return stream.write_all(&answer(200, json, decoded(document)));
    }
    stream.write_all(&answer(200, json, format!("{{\"was\": {:?}}}", asked.target)))
}

/// The folder that is served, with what lies around it.
fn folder() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(lay_out);
    &FOLDER
}

fn lay_out() -> PathBuf {
    let folder = scratch("newest");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("site/sub")).unwrap();
    fs::create_dir_all(folder.join("site/.git")).unwrap();
    fs::write(folder.join("outside.txt"), OUTSIDE).unwrap();
    for name in ["site/.secret", "site/sub/.secret", "site/.git/config"] {
        fs::write(folder.join(name), OUTSIDE).unwrap();
    }
    fs::write(folder.join("site/a.txt"), "a file").unwrap();
    fs::write(folder.join("site/coded.txt"), "a file").unwrap();
    fs::write(folder.join("site/sub/index.html"), "the folder").unwrap();
    for (link, to) in [
        ("link", "../outside.txt"),
        ("link-folder", ".."),
        ("sub/link", "../../outside.txt"),
        ("chain", "link"),
        ("coded.txt.gz", "../outside.txt"),
        ("proc", "/proc/self/environ"),
        ("device", "/dev/zero"),
    ] {
        symlink(to, folder.join("site").join(link)).unwrap();
    }
    symlink(folder.join("outside.txt"), folder.join("site/link-absolute")).unwrap();
    let _ = Command::new("mkfifo").arg(folder.join("site/pipe")).status();
    folder
}

impl Scene {
    fn new() -> Self {
        let calls: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let noted = calls.clone();
        let host = Accepting::begin(move |mut stream| {
            // A TLS handshake has no answer. Closing at once saves the seconds after which the gateway gives up.
            let mut first = [0];
            stream.peek(&mut first)?;
            if first == [HANDSHAKE] {
                return Ok(());
            }
            let mut reader = BufReader::new(stream.try_clone()?);
            while let Some(asked) = Asked::read(&mut reader)? {
                noted.lock().unwrap().push(asked.clone());
                says(&asked, &mut stream)?;
            }
            Ok(())
        });
        let evil = Shop::open(|_, stream| stream.write_all(&answer(200, "", "evil")));
        let folder = folder();
        let config = format!(
            "listen: 127.0.0.1:0
threads: 1
upstreams:
  docs: {{ url: 'http://HOST/docs', headers: {{ x-key: key-of-docs }}, forward: [cookie] }}
  keyed: {{ url: 'http://HOST/keyed', headers: {{ x-key: key-of-keyed }}, forward: [cookie] }}
  secure: {{ url: 'https://HOST/docs', headers: {{ x-key: key-of-keyed }} }}
  one: {{ url: 'http://HOST/one' }}
  two: {{ url: 'http://HOST/two' }}
  choice: {{ choose: [ {{ when: '$headers[\"x-role\"] == \"admin\" and $claims.admin == true', to: two }}, {{ to: one }} ], mirror: {{ to: keyed, share: 100% }} }}
  marked: {{ servers: ['http://HOST/one', 'http://HOST/two'], balance: {{ by: cookie }} }}
  hashed: {{ servers: ['http://HOST/one', 'http://HOST/two'], balance: {{ by: hash, key: $cookies.cart }} }}
endpoints:
  GET /link: {{ pipeline: [ request: 'docs /doc?*', follow: {{ link: .link, as: x, otherwise: null }} ] }}
  GET /links: {{ pipeline: [ request: 'docs /doc?*', follow: {{ link: '.link, .link', limit: 2, depth: 2, as: x, otherwise: null }} ] }}
  GET /pages: {{ pipeline: [ request: 'docs /doc?*', follow: {{ next: .link, pages: 3 }}, concatenate: {{ as: json }} ] }}
  GET /act: {{ pipeline: [ request: 'docs /doc?*', follow: {{ action: go, as: x, otherwise: null }} ] }}
  GET /hal: {{ pipeline: [ request: 'docs /doc?*', follow: {{ hal: go, with: $query, as: x, otherwise: null }} ] }}
  GET /header: {{ pipeline: [ request: 'docs /doc?*', follow: {{ link: .link, method: POST, headers: {{ x-note: '{{.note}}' }}, body: ., as: x, otherwise: null }} ] }}
  GET /choice/{{*path}}: 'choice /{{*path}}?*'
  GET /marked/{{*path}}: 'marked /{{*path}}'
  GET /hashed/{{*path}}: 'hashed /{{*path}}'
  GET /files/{{*path}}: {{ files: '{folder}/site' }}
  GET /tenant/{{name}}/{{*path}}: {{ files: '{folder}/site' }}
  GET /piped/{{*path}}: {{ files: '{folder}/site', pipeline: [ request: 'one /{{*path}}' ] }}
  GET /cost: {{ rate_limit: {{ rate: 3/1h, cost: '$query.n | tonumber', by: $headers.user }}, pipeline: [ respond: {{ status: 204 }} ] }}
  GET /quota: {{ quota: {{ amount: 3, per: month, cost: '$query.n | tonumber', by: $headers.user }}, pipeline: [ respond: {{ status: 204 }} ] }}
  GET /used: {{ quota: {{ amount: 3, per: month, cost: .n, by: $headers.user }}, pipeline: [ request: 'docs /doc?*' ] }}
  POST /detached: {{ detach: {{ respond: {{ status: 202 }}, in_flight: 4 }}, pipeline: [ request: {{ to: one, path: '/x', body: client }} ] }}
",
            folder = folder.display()
        );
        let gateway = Gateway::of(config.replace("HOST", &host.address.to_string()));
        Scene { gateway, host, evil, calls, held: 0, failed: Vec::new(), count: 0 }
    }

    fn place(&self, address: &str) -> String {
        address.replace("HOST", &self.host.address.to_string()).replace("EVIL", &self.evil.address.to_string())
    }

    /// The whole answer to a request, on a connection of its own.
    fn ask(&self, target: &str, fields: &str) -> String {
        let request = format!("GET {target} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{fields}\r\n");
        exchange(self.gateway.address, request)
    }

    /// Judges an attempt by its answer, by what the upstreams were asked, and by who else was called.
    fn judge(&mut self, name: &str, answer: &str, wrong: impl Fn(&Asked) -> bool) {
        self.count += 1;
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        let foreign = self.evil.connections() - self.held;
        self.held = self.evil.connections();
        let bad = calls.iter().find(|asked| {
            asked.target.starts_with("/admin")
                || asked.find("x-evil").is_some()
                || asked.field("host") != self.host.address.to_string()
                || wrong(asked)
        });
        if let Some(bad) = bad {
            self.failed.push(format!("{name}: an upstream was asked\n{}", bad.head));
        } else if foreign > 0 {
            self.failed.push(format!("{name}: a server that is not configured was called"));
        } else if !answer.starts_with("HTTP/1.1 ") || answer.starts_with("HTTP/1.1 500") {
            self.failed.push(format!("{name}: {answer:?}"));
        } else if [OUTSIDE, "the inner page", "key-of-"].iter().any(|secret| answer.contains(secret)) {
            self.failed.push(format!("{name}: the answer is {answer:?}"));
        }
    }
}

/// The key of another upstream, in a call that was not for it, or anywhere where a document led.
fn foreign_key(asked: &Asked) -> bool {
    let key = asked.field("x-key");
    let docs = asked.target.starts_with("/docs/") || asked.target == "/docs" || asked.target.starts_with("/docs?");
    key == "key-of-keyed" || key == "key-of-docs" && !docs || !docs && asked.find("cookie").is_some()
}

#[test]
fn no_document_of_an_upstream_leads_where_its_upstream_may_not() {
    let mut scene = Scene::new();
    let cookie = "cookie: s=1\r\n";
    for address in ADDRESSES {
        let there = scene.place(address);
        let plain = there.replace("\\\\", "\\").replace("\\t", "\t").replace("\\u0000", "");
        let redirect = format!("/docs/hop?r={}", encoded(&plain.replace("\\r\\n", " ")));
        let form = |href: &str| {
            format!(
                r#"{{"actions":[{{"name":"go","method":"POST","href":"{href}","fields":[{{"name":"a","value":"b"}}]}}]}}"#
            )
        };
        let hal = |href: &str| format!(r#"{{"_links":{{"go":{{"href":"{href}"}}}}}}"#);
        let link = |href: &str| format!(r#"{{"link":"{href}","note":"x"}}"#);
        let ways = [
            ("/link", link(&there)),
            ("/link", link(&redirect)),
            ("/links", link(&there)),
            ("/pages", link(&there)),
            ("/act", form(&there)),
            ("/act", form(&redirect)),
            ("/hal", hal(&there)),
            ("/header", link(&there)),
            ("/header", link(&redirect)),
        ];
        for (way, document) in ways {
            let answer = scene.ask(&format!("{way}?d={}", encoded(&document)), cookie);
            scene.judge(&format!("{way} {document}"), &answer, foreign_key);
        }
    }
    // What is right is done, in each of these ways.
    for (way, document, method) in [
        ("/link", r#"{"link":"/docs/x"}"#, "GET"),
        ("/links", r#"{"link":"/docs/x"}"#, "GET"),
        ("/pages", r#"{"link":"/docs/x"}"#, "GET"),
        ("/act", r#"{"actions":[{"name":"go","method":"POST","href":"/docs/x"}]}"#, "POST"),
        ("/hal", r#"{"_links":{"go":{"href":"/docs/x"}}}"#, "GET"),
        ("/header", r#"{"link":"/docs/x","note":"x"}"#, "POST"),
        ("/link", r#"{"link":"/docs/hop?r=%2Fdocs%2Fx"}"#, "GET"),
    ] {
        let answer = scene.ask(&format!("{way}?d={}", encoded(document)), cookie);
        let calls = std::mem::take(&mut *scene.calls.lock().unwrap());
        let last = calls.last().unwrap();
        assert_eq!((status(&answer), &*last.target, &*last.method), (200, "/docs/x", method), "{way}: {answer}");
    }
    // A link within the upstream has its key, one to another upstream has none.
    for (address, key) in [("/docs/x", "key-of-docs"), ("http://HOST/keyed/x", "")] {
        let there = scene.place(address);
        let document = format!(r#"{{"link":"{there}"}}"#);
        let answer = scene.ask(&format!("/link?d={}", encoded(&document)), cookie);
        let calls = std::mem::take(&mut *scene.calls.lock().unwrap());
        assert_eq!((status(&answer), calls.len()), (200, 2), "{answer}");
        assert_eq!(calls[1].field("x-key"), key);
    }
    println!("{} attempts", scene.count);
    assert!(scene.failed.is_empty(), "{}", scene.failed.join("\n"));
}

#[test]
fn no_variable_of_a_template_and_no_action_says_more_than_it_may() {
    let mut scene = Scene::new();
    let templates = [
        "/docs/{a}",
        "/docs/{+a}",
        "/docs/{#a}",
        "/docs{/a}",
        "/docs/x{?a}",
        "/docs/x{&a}",
        "/docs/x{;a}",
        "/docs/{.a}",
        "/docs{+a}",
        "{+a}",
        "//{a}/x",
        "//{+a}/x",
        "http://{a}/docs/x",
        "http:{+a}",
        "/docs/{a:1}{a:1}/admin",
        "/docs/{a,a}/../admin",
        "/docs/{a*}",
        "/docs/{a",
        "/docs/{!a}",
        "/docs/{a:99999}",
    ];
    let host = scene.place("//EVIL/x");
    let values = ["..", "../../admin", "%2e%2e", "/../admin", &host, "x\r\nx-evil: 1", ".", "..;", "..%2f..%2fadmin"];
    for template in templates {
        for value in values {
            let document = format!(r#"{{"_links":{{"go":{{"href":"{template}","templated":true}}}}}}"#);
            let target = format!("/hal?d={}&a={}", encoded(&document), encoded(value));
            let answer = scene.ask(&target, "");
            scene.judge(&format!("{template} with {value:?}"), &answer, foreign_key);
        }
    }
    let actions = [
        r#""method":"TRACE","href":"/docs/x""#,
        r#""method":"CONNECT","href":"/docs/x""#,
        r#""method":"POST\r\nx-evil: 1","href":"/docs/x""#,
        r#""method":"GET /admin HTTP/1.1","href":"/docs/x""#,
        r#""method":"PRI","href":"/docs/x""#,
        r#""method":7,"href":"/docs/x""#,
        r#""method":"POST","href":"/docs/x","type":"text/plain\r\nx-evil: 1""#,
        r#""method":"POST","href":"/docs/x","type":"multipart/form-data""#,
        r#""method":"POST","href":"/docs/x","type":"""#,
        r#""method":"POST","href":"/docs/x","fields":[{"name":"a\r\nx-evil: 1","value":"b"}]"#,
        r#""method":"GET","href":"/docs/x","fields":[{"name":"a","value":" HTTP/1.1\r\nx-evil: 1\r\n"}]"#,
        r#""method":"GET","href":"/docs/x#/../../admin","fields":[{"name":"a","value":"b"}]"#,
        r#""method":"GET","href":"/docs/x?","fields":{"a":1}"#,
        r#""method":"POST","href":["/docs/x"]"#,
        r#""method":"POST","href":null"#,
        r#""method":"POST","href":{"a":"/docs/x"}"#,
        r#""method":"PUT","href":"http://HOST/keyed/x""#,
        r#""method":"DELETE","href":"http://HOST/one/x""#,
        r#""method":"POST","href":"http://HOST/two/x","fields":[{"name":"a","value":"b"}]"#,
    ];
    for action in actions {
        let action = scene.place(action);
        let document = format!(r#"{{"actions":[{{"name":"go",{action}}}]}}"#);
        let answer = scene.ask(&format!("/act?d={}", encoded(&document)), "cookie: s=1\r\n");
        // What changes something stays at the upstream that wrote it.
        let changes = |asked: &Asked| !asked.target.starts_with("/docs/") && asked.method != "GET";
        scene.judge(&action, &answer, |asked| foreign_key(asked) || changes(asked) || asked.method == "TRACE");
    }
    println!("{} attempts", scene.count);
    assert!(scene.failed.is_empty(), "{}", scene.failed.join("\n"));
}

#[test]
fn no_path_and_no_range_reads_more_than_the_folder() {
    let mut scene = Scene::new();
    let outside = scratch("newest").join("outside.txt").display().to_string();
    let fields = [
        "",
        "accept-encoding: gzip\r\n",
        "range: bytes=0-\r\n",
        "range: bytes=-99999999999999999999\r\n",
        "range: bytes=18446744073709551615-\r\n",
        "if-none-match: *\r\nif-match: \"x\"\r\n",
    ];
    for path in PATHS {
        let path = path.replace("ABSOLUTE", &outside);
        for place in ["/files/", "/files", "/tenant/x/", "/tenant/../", "/tenant/%2e%2e/", "/piped/"] {
            let answer = scene.ask(&format!("{place}{path}"), fields[scene.count % fields.len()]);
            scene.judge(&format!("{place}{path}"), &answer, |_| false);
        }
    }
    // A redirect to the folder's own address leads to no other host.
    for place in [
        "/tenant/\\evil.test/sub",
        "/tenant//evil.test/sub",
        "//evil.test/../tenant/x/sub",
        "/\\evil.test/../files/sub",
        "/tenant/%5cevil.test/sub",
        "/files/sub?//evil.test",
        "/files/sub?%0d%0ax-evil:1",
    ] {
        let answer = scene.ask(place, "");
        let location = answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap_or("/");
        let second = location.as_bytes().get(1).copied().unwrap_or(b'x');
        if !location.starts_with('/') || second == b'/' || location.contains('\\') || answer.contains("\r\nx-evil") {
            scene.failed.push(format!("{place}: {answer}"));
        }
        scene.judge(place, &answer, |_| false);
    }
    let many = format!("range: bytes={}\r\n", "0-0,".repeat(1000) + "1-1");
    let tags = format!("if-none-match: {}\r\n", "\"x\", ".repeat(2000) + "\"y\"");
    for fields in [
        many.as_str(),
        &tags,
        "range: bytes=1-0\r\n",
        "range: bytes=-0\r\n",
        "range: bytes=a-b\r\n",
        "range: lines=0-1\r\n",
        "range: bytes=5-\r\nif-range: \"x\"\r\n",
    ] {
        let answer = scene.ask("/files/a.txt", fields);
        let name = format!("/files/a.txt with {fields:.60}");
        if answer.len() > 4096 {
            scene.failed.push(format!("{name}: {} bytes", answer.len()));
        }
        scene.judge(&name, &answer, |_| false);
    }
    assert!(scene.ask("/files/a.txt", "").ends_with("a file"));
    println!("{} attempts", scene.count);
    assert!(scene.failed.is_empty(), "{}", scene.failed.join("\n"));
}

#[test]
fn no_client_chooses_what_is_not_for_it() {
    let mut scene = Scene::new();
    assert_eq!(status(&scene.ask("/choice/x", "")), 200);
    let fields = [
        "x-role: admin",
        "x-role: admin\r\nx-role: admin",
        "X-Role:admin",
        "x_role: admin",
        "x-role: admin\r\nclaims: {\"admin\":true}",
        "cookie: claims=admin",
        "authorization: Bearer eyJhbGciOiJub25lIn0.eyJhZG1pbiI6dHJ1ZX0.",
        "x-client-cert: admin",
    ];
    for field in fields {
        let answer = scene.ask("/choice/x", &format!("{field}\r\n"));
        scene.judge(field, &answer, |asked| asked.target.starts_with("/two"));
    }
    // A copy has nothing that its upstream is not sent, and leads nowhere else.
    for path in ["../admin", "..%2fadmin", "%2e%2e/admin", "x?y=/../admin", "//EVIL/x", "x%0d%0ax-evil:1"] {
        let path = scene.place(path);
        let answer = scene.ask(&format!("/choice/{path}"), "cookie: s=1\r\n");
        scene.judge(&path, &answer, |asked| asked.target.starts_with("/two"));
    }
    for cookie in [
        "upstream=",
        "upstream=zzzzzzzzzzzzzzzz",
        "upstream=0000000000000000",
        "upstream=ffffffffffffffff",
        "upstream=+000000000000001",
        "upstream=127.0.0.1",
        "upstream=0000000000000000; upstream=ffffffffffffffff",
        "upstream=\u{ff}",
        "cart=",
        "cart=../admin",
        "cart=a; cart=b",
        "upstream=0000000000000000\r\ncookie: upstream=1111111111111111",
    ] {
        for place in ["/marked/x", "/hashed/x"] {
            let answer = scene.ask(place, &format!("cookie: {cookie}\r\n"));
            let split = answer.lines().filter(|line| line.starts_with("set-cookie")).count() > 1;
            if split || answer.contains("x-evil") {
                scene.failed.push(format!("{place} {cookie}: {answer}"));
            }
            scene.judge(&format!("{place} {cookie}"), &answer, |_| false);
        }
    }
    println!("{} attempts", scene.count);
    assert!(scene.failed.is_empty(), "{}", scene.failed.join("\n"));
}

#[test]
fn no_cost_gives_back_what_was_used() {
    let mut scene = Scene::new();
    let costs = [
        "-1",
        "-1000000",
        "-0",
        "-1e300",
        "1e999",
        "-1e999",
        "nan",
        "NaN",
        "-nan",
        "infinite",
        "null",
        "",
        "0x10",
        "1e-9",
        "0.0001",
        "true",
        "[]",
        "18446744073709551616",
        "-9223372036854775808",
        "%201",
        "1%00",
        "1,2",
    ];
    for (place, at) in [("/cost", 0), ("/quota", 1), ("/used", 2)] {
        for (number, cost) in costs.iter().enumerate() {
            let user = format!("user: u{at}-{number}\r\n");
            let target = |cost: &str| match place {
                "/used" => format!("{place}?d={}", encoded(&format!("{{\"n\":{cost}}}"))),
                _ => format!("{place}?n={cost}"),
            };
            let used: Vec<u16> = (0..3).map(|_| status(&scene.ask(&target("1"), &user))).collect();
            let attempt = scene.ask(&target(cost), &user);
            let after = status(&scene.ask(&target("1"), &user));
            if used.iter().any(|status| !(200..300).contains(status)) || after != 429 {
                scene.failed.push(format!("{place} {cost}: {used:?}, {}, {after}", status(&attempt)));
            }
            scene.judge(&format!("{place} {cost}"), &attempt, |_| false);
        }
    }
    println!("{} attempts", scene.count);
    assert!(scene.failed.is_empty(), "{}", scene.failed.join("\n"));
}
