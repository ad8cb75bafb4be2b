//! The commands, run as an operator runs them.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use stage::client::{Client, Piece};
use stage::gateway::Gateway;
use stage::schema::Schema;

use crate::stage;

const GOOD: &str = "\
upstreams: { shop: http://127.0.0.1:8000, users: http://127.0.0.1:8001 }
endpoints:
  GET /users/{id}: users /users/{id}
  GET /list:
    pipeline:
      - request: { to: shop, path: '/{.}', for_each: '$query.q | split(\",\")[]', limit: 20 }
      - transform: .id
      - concatenate: { as: ndjson, order: request }
";

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    command.args(arguments).current_dir(stage::scratch("")).output().unwrap()
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = stage::scratch(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for arguments in
        [&["serve"][..], &[], &["check", "--format", "xml"], &["check", "a", "b"], &["demo", "--listen", "x"]]
    {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("--help"), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_good_file_is_called_good() {
    file("good.yaml", GOOD);
    let output = run(&["check", "good.yaml"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "good.yaml: good (2 endpoints, 2 upstreams)\n"));
    let output = run(&["check", "good.yaml", "--format", "json"]);
    assert_eq!((output.status.code(), text(&output.stdout).trim()), (Some(0), "[]"));
}

#[test]
fn problems_are_told_to_editors_too() {
    file("two.yaml", "upstreams: { shop: http://127.0.0.1:8000 }\nendpoints:\n  GET /a: shopp /a\n  GET /b: shop b\n");
    let output = run(&["check", "two.yaml", "--format", "json"]);
    let problems: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let first = &problems[0];
    let place = (&first["file"], &first["line"], &first["column"], &first["length"]);
    assert_eq!(place, (&"two.yaml".into(), &3.into(), &11.into(), &5.into()), "{problems}");
    assert_eq!(first["message"], "no upstream is named `shopp`");
    assert_eq!(first["remedy"], "did you mean `shop`?");
    assert_eq!(problems.as_array().map(Vec::len), Some(2));
}

#[test]
fn a_file_that_is_not_there_is_told_by_every_command() {
    for command in ["check", "run", "explain"] {
        let output = run(&[command, "nowhere.yaml"]);
        let told = [output.stdout, output.stderr].concat();
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(text(&told).contains("cannot read `nowhere.yaml`: there is no such file"), "{}", text(&told));
    }
}

#[test]
fn a_file_with_problems_does_not_run() {
    file("bad.yaml", "upstreams: { shop: http://127.0.0.1:8000 }\nendpoints:\n  GET /a: shopp /a\n");
    let output = run(&["run", "bad.yaml"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    assert!(text(&output.stderr).contains("no upstream is named `shopp`"), "{}", text(&output.stderr));
}

#[test]
fn a_port_in_use_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    file("taken.yaml", &format!("listen: {address}\n{GOOD}"));
    let output = run(&["run", "taken.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.contains(&address.to_string()) && told.contains("is taken"), "{told}");
}

#[test]
fn explain_shows_what_streams_and_what_waits() {
    file("explained.yaml", GOOD);
    let all = run(&["explain", "explained.yaml"]);
    let proxy = "GET /users/{id}\n  - request users /users/{id}\n      streams\n  calls: 1\n";
    let list = "GET /list\n  - request shop /{.}, for each of $query.q | split(\",\")[]\n      streams
  - transform each item\n      waits: an item's body is read whole before it is transformed
  - concatenate as ndjson, in order of request\n      waits: each item is read whole, and waits for those before it
  calls: up to 20\n";
    assert_eq!((all.status.code(), text(&all.stdout)), (Some(0), format!("{proxy}\n{list}").as_str()));
    let one = run(&["explain", "explained.yaml", "GET /list"]);
    assert_eq!((one.status.code(), text(&one.stdout)), (Some(0), list));
    let none = run(&["explain", "explained.yaml", "GET /lisp"]);
    assert_eq!(none.status.code(), Some(1));
    let all = "the endpoints are:\n  GET /users/{id}\n  GET /list\n";
    let near = "error: no endpoint is `GET /lisp`; did you mean `GET /list`?\n";
    assert_eq!(text(&none.stderr), format!("{near}{all}"));
}

#[test]
fn explain_names_the_variables_of_links_in_a_recorded_answer() {
    file(
        "templates.yaml",
        "\
upstreams: { shop: http://127.0.0.1:8000 }
endpoints:
  GET /one: { pipeline: [ request: shop /, follow: { hal: search, with: { state: '\"open\"' } } ] }
  GET /any: { pipeline: [ request: shop /, each: '.items[]', follow: { link: .more, with: $query, as: more }, concatenate: { body_only: true } ] }
  GET /tree: { pipeline: [ request: shop /, follow: { hal: [orders, find], limit: 9 } ] }
  GET /plain: shop /
",
    );
    let answer = r#"{"_links":{"search":{"href":"/s{?state,page*}"},"self":{"href":"/{x}"}},"items":[{"more":"/m/{id}"},{"more":"/m/{id}"},
        {"more":"/m/7"},{"more":3}],"_embedded":{"o":[{"_links":{"find":{"href":"/f{/a,b}"}}}]}}"#;
    file("answer.json", answer);
    let lines = |endpoint: &str| {
        let told = run(&["explain", "--answer", "answer.json", "templates.yaml", endpoint]);
        assert_eq!(told.status.code(), Some(0), "{}", text(&told.stderr));
        let lines = text(&told.stdout).lines().filter(|line| line.contains("in the answer"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines("GET /one"), ["  template in the answer: /s{?state,page*}: state from `with`, page not given"]);
    assert_eq!(lines("GET /any"), ["  template in the answer: /m/{id}: id if `with` has it"]);
    assert_eq!(lines("GET /tree"), ["  template in the answer: /f{/a,b}: a not given, b not given"]);
    assert_eq!(lines("GET /plain"), ["  templates in the answer: none that a step follows"]);
    file("broken.json", "{");
    for (name, reason) in [("nowhere.json", "nowhere.json: "), ("broken.json", "broken.json: not valid JSON")] {
        let told = run(&["explain", "--answer", name, "templates.yaml"]);
        assert_eq!((told.status.code(), text(&told.stdout)), (Some(1), ""));
        assert!(text(&told.stderr).starts_with(&format!("error: {reason}")), "{}", text(&told.stderr));
    }
}

#[test]
fn explain_shows_where_the_method_and_the_body_of_a_client_go() {
    let endpoints = "upstreams: { shop: http://127.0.0.1:8000, hooks: http://127.0.0.1:8001 }\nendpoints:\n  \
                     POST /orders: { pipeline: [ request: shop /orders, request: 'hooks /created/{.id}' ] }\n  \
                     /made: { pipeline: [ request: { to: shop, path: /made, body: '{q: $body.q}' } ] }\n  \
                     GET /plain: shop /plain\n";
    file("taken_parts.yaml", endpoints);
    let told = run(&["explain", "taken_parts.yaml"]);
    let told = text(&told.stdout);
    for line in [
        "  methods of calls: the client's to `shop`, GET to `hooks` by default\n  client's body: a stream to `shop`\n",
        "  methods of calls: POST to `shop` by default; other methods than POST get 405\n",
    ] {
        assert!(told.contains(line), "{told}");
    }
    assert_eq!(told.matches("methods of calls").count(), 2, "{told}");
}

#[test]
fn explain_shows_the_layers_from_the_outside_in() {
    let config = "compress: { codings: [gzip] }\nheaders: { set: { x-a: b }, remove: [server] }\nlog: { access: true }
upstreams: { shop: 'http://127.0.0.1:8000' }\nendpoints:\n  GET /a: shop /a
  GET /b: { timeout: 2s, compress: off, headers: { remove: [via] }, pipeline: [timer: asked, request: shop /b] }\n";
    file("layers.yaml", config);
    let told = run(&["explain", "layers.yaml"]);
    let wanted = "GET /a
  layer observe: writes a line of the access log
  layer headers (from the document): sets x-a; removes server
  layer compress (from the document): gzip for clients that ask, from 1KiB on
  - request shop /a
      streams
  calls: 1

GET /b
  layer observe: writes a line of the access log
  layer deadline: the request ends within 2s
  layer headers (with those of the document): sets x-a; removes server, via
  layer timing: tells the timers in Server-Timing
  layer compress: off, in place of that of the document
  - timer: asked
      streams
  - request shop /b
      streams
  calls: 1

requests that no endpoint serves
  layer observe: writes a line of the access log
  layer headers: sets x-a; removes server
  layer compress: gzip for clients that ask, from 1KiB on
";
    assert_eq!(text(&told.stdout), wanted, "{}", text(&told.stderr));
}

#[test]
fn explain_shows_what_a_group_inherits_and_what_is_locked() {
    let config = "rate_limit: { rate: 100/1m, by: $client.address }
locked: [rate_limit, headers]\nheaders: { set: { x-a: b } }\ncompress: on\nupstreams: { shop: 'http://127.0.0.1:8000' }
groups:\n  team:\n    locked: [compress]\n    compress: { codings: [gzip] }\n    headers: { set: { x-team: t } }
    endpoints: { GET /a: shop /a }\n";
    file("locked.yaml", config);
    let told = run(&["explain", "locked.yaml", "GET /a"]);
    let wanted = "GET /a
  layer headers (from the document, locked; from the group `team`): sets x-a, x-team
  layer rate_limit (from the document, locked): 100 requests in 1m for each client address, 100 at once
  layer compress (from the group `team`, locked): gzip for clients that ask, from 1KiB on
  - request shop /a
      streams
  calls: 1
";
    assert_eq!(text(&told.stdout), wanted, "{}", text(&told.stderr));
}

#[test]
fn the_standard_input_is_a_configuration_too() {
    let checked = |config: &str, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
        command.args(arguments).current_dir(stage::scratch(""));
        let mut check = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        check.stdin.take().unwrap().write_all(config.as_bytes()).unwrap();
        let output = check.wait_with_output().unwrap();
        (output.status.code(), text(&output.stdout).to_owned())
    };
    file("included.yaml", "upstreams: { users: http://127.0.0.1:8001 }\n");
    let including = "include: included.yaml\nendpoints: { GET /a: users /a }\n";
    assert_eq!(checked(including, &["check", "-"]), (Some(0), "-: good (1 endpoint, 1 upstream)\n".to_owned()));
    let (code, told) = checked("endpoints: { GET /a: shop /a }\n", &["check", "-"]);
    assert!(code == Some(1) && told.contains("--> -:1:22"), "{told}");
    // A warning is enough where a deployment wants none.
    let warned = "upstreams: { shop: http://127.0.0.1:8000 }\nendpoints: { GET /a: { pipeline: [ respond: { status: 204 } ] } }\n";
    assert_eq!(checked(warned, &["check", "-"]).0, Some(0));
    assert_eq!(checked(warned, &["check", "--strict", "-"]).0, Some(1));
}

#[test]
fn a_log_in_json_has_the_warnings_of_the_start_in_json() {
    let config =
        "listen: 127.0.0.1:0\nlog: { format: json }\nupstreams: { shop: http://127.0.0.1:8000 }\nendpoints: {}\n";
    let path = file("warned.yaml", config);
    let gateway = Gateway::run(&path);
    let line = gateway.logged("*nothing calls the upstream*").unwrap();
    let told = gateway.said();
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let first = format!("crocodile-pear {}, configuration {}", env!("CARGO_PKG_VERSION"), path.display());
    assert_eq!(lines[0]["message"], first, "{told}");
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["level"], "WARN");
}

#[test]
fn a_port_alone_is_every_address() {
    let path =
        file("every.yaml", "listen: :0\nendpoints: { GET /: { pipeline: [ respond: { body: $client.address } ] } }\n");
    let gateway = Gateway::run(&path);
    let port = gateway.address.port();
    for host in ["127.0.0.1", "::1"] {
        let address = SocketAddr::new(host.parse().unwrap(), port);
        // The address of a client of IPv4 is that of IPv4.
        assert_eq!(fetch(address, "GET", "/", "").unwrap(), format!("\"{host}\""));
    }
}

#[test]
fn operators_see_health_and_metrics() {
    let path = file("admin.yaml", &format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n{GOOD}"));
    let gateway = Gateway::run(&path);
    let admin = gateway.admin().unwrap();
    for (target, wanted) in [("/health", "ok"), ("/metrics", "crocodile_pear")] {
        let body = fetch(admin, "GET", target, "").unwrap();
        assert!(body.contains(wanted), "{target}: {body}");
    }
    assert!(fetch(admin, "GET", "/list", "").is_err(), "clients' endpoints are not the operators'");
    assert!(fetch(gateway.address, "GET", "/metrics", "").is_err(), "operators' pages are not the clients'");
}

#[test]
fn operators_call_by_names_that_are_written_and_with_the_token() {
    let admin = "admin: { address: '127.0.0.1:0', hosts: [gateway.internal], token: '${ADMIN_TOKEN}' }";
    let path = file("guarded.yaml", &format!("listen: 127.0.0.1:0\n{admin}\n{GOOD}"));
    let gateway = Gateway::start(
        ["run".as_ref(), path.as_os_str()],
        [("ADMIN_TOKEN".to_owned(), "s3cret-of-operators".to_owned())],
    )
    .unwrap();
    let admin = gateway.admin().unwrap();
    let status = |target: &str, fields: &str| {
        let mut client = Client::connect(admin).unwrap();
        client.ask("GET", format!("GET {target} HTTP/1.1\r\n{fields}\r\n").as_bytes()).unwrap();
        client.head().unwrap().status
    };
    let token = "authorization: Bearer s3cret-of-operators\r\n";
    for target in ["/", "/metrics", "/cache", "/nowhere"] {
        assert_eq!(status(target, "host: localhost\r\n"), 401, "{target}");
        assert_eq!(status(target, &format!("host: evil.example\r\n{token}")), 421, "{target}");
        let page = format!("host: gateway.internal\r\norigin: http://evil.example\r\n{token}");
        assert_eq!(status(target, &page), 403, "{target}");
    }
    assert_eq!(status("/metrics", &format!("host: gateway.internal\r\n{token}")), 200);
    for probe in ["/health", "/ready"] {
        assert_eq!(status(probe, "host: whatever.example\r\n"), 200, "{probe}");
    }
    assert!(!gateway.said().contains("s3cret-of-operators"));
}

#[test]
fn a_load_balancer_learns_of_the_end_before_clients_do() {
    let clients = "clients: { grace: 10m }";
    let text = format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n{clients}\n{GOOD}");
    let path = file("grace.yaml", &text);
    let mut gateway = Gateway::run(&path);
    let admin = gateway.admin().unwrap();
    assert_eq!(fetch(admin, "GET", "/ready", "").unwrap(), "ready\n");
    gateway.signal("TERM").unwrap();
    gateway.logged("*shutting down*").unwrap();
    assert_eq!(fetch(admin, "GET", "/ready", ""), Err("503".to_owned()));
    assert_eq!(fetch(admin, "GET", "/health", "").unwrap(), "ok\n");
    // Clients still connect, and are answered.
    assert_eq!(fetch(gateway.address, "GET", "/nothing", ""), Err("404".to_owned()));
    gateway.signal("TERM").unwrap();
    assert!(gateway.ended().unwrap().success());
}

/// The body of a good answer, or what it was instead.
fn fetch(address: SocketAddr, method: &str, target: &str, body: &str) -> Result<String, String> {
    let length = body.len();
    let mut client = Client::connect(address)?;
    let request = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    client.ask(method, request.as_bytes())?;
    let status = client.head()?.status;
    let mut bytes = Vec::new();
    loop {
        match client.piece()? {
            Piece::Data(data) => bytes.extend(data),
            Piece::End(_) if status == 200 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Piece::End(_) => return Err(format!("{status}")),
            Piece::Broken(how) => return Err(how),
        }
    }
}

#[test]
fn explain_multiplies_the_calls_out() {
    let steps = "request: shop /cases, each: { in: '.[]', limit: 500 }, follow: { link: .href, as: a }, \
        follow: { link: .a.b, as: b }, follow: { link: '.b.c[]', as: c, limit: 10 }, concatenate: {}";
    let steps: String = steps.split(", ").fold(String::new(), |all, part| match part.split_once(": ") {
        Some(("request" | "each" | "follow" | "concatenate", _)) => format!("{all}\n      - {part}"),
        _ => format!("{all}, {part}"),
    });
    file(
        "inbox.yaml",
        &format!("upstreams: {{ shop: http://127.0.0.1:8000 }}\nendpoints:\n  GET /a:\n    pipeline:{steps}\n"),
    );
    let told = run(&["explain", "inbox.yaml"]);
    assert_eq!(text(&told.stdout).lines().last(), Some("  calls: up to 1 + 500 x 12 = 6001"), "{}", text(&told.stderr));
}

fn schema() -> Schema {
    let output = run(&["schema"]);
    assert_eq!(output.status.code(), Some(0));
    Schema(serde_json::from_slice(&output.stdout).unwrap())
}

/// A configuration as the JSON that an editor's YAML reader makes of it.
fn as_json(path: &std::path::Path) -> Value {
    use crocodile_pear::unstable::config::spec::Decode;
    let text = std::fs::read_to_string(path).unwrap();
    let kept = |name: &str| Some(format!("${{{name}}}"));
    let (node, _, mut problems) = crocodile_pear_gateway::config::parse("example", &text, &kept);
    Value::decode(&node.unwrap(), &mut problems).unwrap()
}

#[test]
fn the_schema_takes_every_example() {
    let schema = schema();
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for example in std::fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()) {
        if example.extension().is_some_and(|extension| extension == "yaml") {
            assert_eq!(schema.check(&as_json(&example)), Ok(()), "{}", example.display());
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn the_schema_refuses_what_check_refuses() {
    let schema = schema();
    let problems = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/problems");
    for name in ["step_unknown", "field_unknown", "durations"] {
        assert!(schema.check(&as_json(&problems.join(name).with_extension("yaml"))).is_err(), "{name}");
    }
    assert_eq!(schema.check(&as_json(&file("schema.yaml", GOOD))), Ok(()));
}

#[test]
fn every_line_that_the_demo_prints_works() {
    let gateway =
        Gateway::start(["demo", "--listen", "127.0.0.1:0", "--upstreams", "127.0.0.1:0", "--latency", "1"], [])
            .unwrap();
    gateway.logged("*Ctrl-C stops*").unwrap();
    let said = gateway.said();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| line.starts_with("curl ")).collect();
    assert!(lines.len() >= 5, "{said}");
    for line in lines {
        let words = line.split(" | wc").next().unwrap().split_whitespace().map(|word| word.trim_matches('\''));
        let words: Vec<&str> = words.collect();
        let prefix = format!("http://{}", gateway.address);
        let target = words.iter().find_map(|word| word.strip_prefix(&prefix)).unwrap();
        let body = words.iter().position(|word| *word == "-d").map(|at| words[at + 1]);
        let method = if body.is_some() { "POST" } else { "GET" };
        let answer = fetch(gateway.address, method, target, body.unwrap_or_default());
        assert!(answer.as_ref().is_ok_and(|body| !body.is_empty()), "{line}: {answer:?}");
    }
}

/// A server that answers one request with `head`.
fn answering(head: &'static str) -> SocketAddr {
    use std::io::{Read, Write};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let length = socket.read(&mut request).unwrap();
        assert!(request[..length].starts_with(b"GET /up?a=b HTTP/1.1\r\nhost: "), "{}", text(&request[..length]));
        socket.write_all(head.as_bytes()).unwrap();
    });
    address
}

#[test]
fn health_is_the_status_of_an_answer() {
    for (head, code, told) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", 0, "204 No Content\n"),
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n", 1, "error: the server answers 503 Service Unavailable\n"),
        ("HTTP/1.1 301 Moved\r\n\r\n", 1, "error: the server answers 301 Moved\n"),
        ("SSH-2.0-OpenSSH\r\n", 1, "the answer is not HTTP/1\n"),
        ("", 1, "the answer is not HTTP/1\n"),
    ] {
        let output = run(&["health", &format!("http://{}/up?a=b", answering(head))]);
        let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{head}: {all}");
        assert!(all.ends_with(told), "{head}: {all}");
    }
}

#[test]
fn health_says_what_is_not_there() {
    // Bound, but nobody accepts: the port is nobody else's, and stays silent.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}/", silent.local_addr().unwrap());
    for (arguments, code, told) in [
        (&["health", "http://127.0.0.1:1/"][..], 1, "Connection refused"),
        (&["health", "unix:nowhere.sock"], 1, "nowhere.sock: No such file"),
        (&["health", "127.0.0.1"], 2, "write http://HOST:PORT/PATH"),
        (&["health", "--timeout", "30ms", &silent], 1, "error: http"),
        (&["health", "--timeout", "1ms", &silent], 2, "it is from"),
    ] {
        let output = run(arguments);
        let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.code() == Some(code) && all.contains(told), "{arguments:?}: {all}");
    }
}

#[test]
fn a_gateway_is_healthy_at_its_admin_listener() {
    let socket = stage::scratch("health.sock");
    let served = format!("listen: 127.0.0.1:0\nadmin: unix:{}\nendpoints: {{}}\n", socket.display());
    let _gateway = Gateway::run(file("health.yaml", &served));
    let output = run(&["health", &format!("unix:{}", socket.display())]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "200 OK\n"), "{}", text(&output.stderr));
}

/// The commands and their options, as `--help` names them.
fn known() -> Vec<(String, Vec<String>)> {
    let help = |arguments: &[&str]| text(&run(arguments).stdout).to_owned();
    let all = help(&["--help"]);
    let section = all.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = section.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let options = |name: &str| {
        let page = help(&[name, "--help"]);
        page.split_whitespace()
            .filter(|word| word.starts_with("--"))
            .map(|word| word.trim_end_matches([',', ']', '.']).to_owned())
            .collect()
    };
    names.map(|name| (name.to_owned(), options(name))).collect()
}

#[test]
fn completions_and_manual_pages_name_what_help_names() {
    let folder = stage::scratch("man");
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    assert_eq!(run(&["man", folder]).status.code(), Some(0));
    let shells = ["bash", "zsh", "fish"].map(|shell| text(&run(&["completions", shell]).stdout).to_owned());
    let known = known();
    assert!(known.len() >= 12, "{known:?}");
    for (name, options) in known {
        let page = std::fs::read_to_string(format!("{folder}/crocodile-pear-{name}.1")).unwrap().replace('\\', "");
        for option in &options {
            assert!(page.contains(option), "{option} is not on the manual page of {name}");
            let bare = option.trim_start_matches("--");
            assert!(shells.iter().all(|script| script.contains(bare)), "{option} of {name} is not completed");
        }
        assert!(shells.iter().all(|script| script.contains(&name)), "{name} is not completed");
    }
    let line = "COMP_WORDS=(crocodile-pear health --t); COMP_CWORD=2; _crocodile__pear crocodile-pear --t health; echo ${COMPREPLY[@]}";
    let bash = Command::new("bash").args(["-c", &format!("{}\n{line}", shells[0])]).output().unwrap();
    assert_eq!(text(&bash.stdout).trim(), "--timeout", "{}", text(&bash.stderr));
    let output = run(&["man", "nowhere/at/all"]);
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("cannot write to `nowhere/at/all`"));
    assert_eq!(run(&["completions", "csh"]).status.code(), Some(2));
}

#[test]
fn the_version_says_what_was_built() {
    let output = run(&["--version"]);
    let told = text(&output.stdout).trim().strip_prefix("crocodile-pear ").unwrap().to_owned();
    let rest = told.strip_prefix(env!("CARGO_PKG_VERSION")).unwrap();
    // A development build, or a commit and its date.
    assert!(rest.is_empty() || rest.starts_with(" (") && rest.ends_with(')'), "{told}");
}
