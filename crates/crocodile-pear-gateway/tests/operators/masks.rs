//! Values of the environment in what commands print.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::stage::gateway::Gateway;
use crate::stage::scene::Client;
use crate::stage::shop::{self, Shop};
use crate::stage::{found, scratch};

/// Long enough to be no other word.
const SECRET: &str = "zq7-hunter2-zq7";

/// A configuration in a file, and a command on it, with `${SECRET}` and `${SHORT}` set.
fn run(name: &str, command: &[&str], config: &str) -> Output {
    let file: PathBuf = scratch(name).with_extension("yaml");
    std::fs::write(&file, config).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    let (first, rest) = command.split_first().unwrap();
    program.arg(first).arg(&file).args(rest).env("SECRET", SECRET).env("SHORT", "q7").env("ODD", "a \"b\" /ü{x}");
    program.output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const CONFIG: &str = r#"
upstreams:
  shop: { url: 'http://127.0.0.1:8000', health: '/${SECRET}' , cache: { key: '"${SECRET}"', tags: '["${SECRET}"]', private: { by: '"${SECRET}"' } } }
endpoints:
  GET /path: 'shop /a/${SECRET}'
  GET /query: 'shop /a?key=${SECRET}'
  GET /short: 'shop /a?key=${SHORT}&odd=${ODD}'
  GET /field:
    headers: { set: { x-key: '${SECRET}' } }
    pipeline: [ request: { to: shop, path: /a, headers: { authorization: 'Bearer ${SECRET}' } } ]
  POST /body:
    pipeline: [ request: { to: shop, path: /a, method: POST, body: '{key: "${SECRET}", short: "${SHORT}"}' } ]
  GET /respond:
    pipeline: [ respond: { status: '"${SECRET}" | 200', body: '{key: "${SECRET}", "short": "${SHORT}", odd: "${ODD}"}' } ]
  GET /many:
    allow: '$headers["x-key"] == "${SECRET}"'
    cache: { key: '"${SECRET}"', tags: '["${SECRET}"]' }
    rate_limit: { rate: 5/1s, by: '"${SECRET}"' }
    pipeline:
      - requests: { a: 'shop /a?key=${SECRET}', b: { to: shop, path: '/b?key={"${SECRET}"}' } }
      - merge: '{a: $a, b: $b, c: "${SECRET}"}'
  GET /list:
    pipeline:
      - request: 'shop /list'
      - each: '.["${SECRET}"][]'
      - follow: { link: '"/${SECRET}"' }
      - follow: { request: shop /x, link: '"${SECRET}"', as: x }
      - transform: '{a: "${SECRET}"}'
      - dedupe: '"${SECRET}"'
      - timer: 'after ${SECRET}'
      - concatenate: { as: json }
  GET /asked:
    pipeline: [ request: { to: shop, path: '/{.}', for_each: '["${SECRET}", "${SHORT}"][]' }, merge: . ]
"#;

#[test]
fn explain_shows_no_value_of_the_environment() {
    let output = run("explained", &["explain"], CONFIG);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("shop /a?key=${SECRET}") && said.contains("key=${SHORT}&odd=${ODD}"), "{said}");
    assert!(!said.contains(SECRET) && !said.contains("q7") && !said.contains("{x}"), "{said}");
    assert!(said.contains("${SECRET}\") == ") || said.contains("== \"${SECRET}\""), "{said}");
}

#[test]
fn check_tells_a_wrong_value_by_the_name_of_its_variable() {
    let lines = [
        "listen: ${SECRET}",
        "listen: ${SHORT}",
        "threads: ${SECRET}",
        "threads: ${SHORT}",
        "admin: ${SECRET}",
        "clients: { head: '${SHORT}', trust: [ '${SECRET}' ] }",
        "log: { level: '${SECRET}', format: '${SHORT}' }",
        "log: { access: { to: 'syslog:${SECRET}' } }",
        "upstreams: { a: '${SECRET}', b: 'http://${SECRET}@h', c: { url: 'http://h', tls: { ca: '${SECRET}' } } }",
        "databases: { a: '${SECRET}' }",
        "store: { redis: '${SECRET}' }",
        "store: { memory: '${SECRET}' }",
        "events: [ { redis: '${SECRET}', channel: '${SHORT}', purge: '${SECRET}' } ]",
        "include: '${SECRET}'",
        "cors: { origins: [ '${SECRET}' ], headers: [ 'a ${SHORT}' ] }",
        "headers: { set: { x-a: '{${SECRET}' } }",
        "traces: { to: '${SECRET}' }",
        "endpoints: { GET /a: '${SECRET} /a' }",
        "endpoints: { GET /a: '${SHORT} /a' }",
        "endpoints: { GET /a: '${SECRET}' }",
        "endpoints: { GET /a: { pipeline: [ '${SECRET}' ] } }",
        "endpoints: { GET /a: { pipeline: [ { transform: '.a | ${SECRET}' } ] } }",
        "endpoints: { GET /a: { pipeline: [ { transform: '.a | ${SHORT}' } ] } }",
        "endpoints: { GET /a: { timeout: '${SHORT}', max_body: '${SECRET}', pipeline: [ respond: {} ] } }",
        "endpoints: { GET /a: { authenticate: [ { jwt: { issuer: a, audience: b, keys: '${SECRET}', algorithms: ['${SHORT}'] } } ], pipeline: [ respond: {} ] } }",
        "endpoints: { GET /a: { authenticate: [ { api_key: { keys: '${SECRET}' } } ], pipeline: [ respond: {} ] } }",
        "endpoints: { GET /a: { rate_limit: '${SECRET}', pipeline: [ respond: {} ] } }",
        "endpoints: { GET /a: { addresses: { allow: [ '${SECRET}' ] }, pipeline: [ respond: {} ] } }",
        "endpoints: { GET /a: { validate: { body: '${SECRET}' }, pipeline: [ respond: {} ] } }",
        "endpoints: { GET /a: { pipeline: [ respond: { status: '${SHORT}', headers: { '${SECRET}': a } } ] } }",
        "endpoints: { GET /a: { pipeline: [ { convert: '${SECRET}' } ] } }",
    ];
    for (at, line) in lines.iter().enumerate() {
        for format in ["text", "json"] {
            let output = run(&format!("checked-{at}-{format}"), &["check", "--format", format], &format!("{line}\n"));
            let said = said(&output);
            assert_eq!(output.status.code(), Some(1), "{line}\n{said}");
            assert!(!said.contains("hunter2") && !said.contains("q7"), "{line}\n{said}");
        }
    }
}

#[test]
fn a_secret_in_a_line_of_a_problem_is_starred() {
    for line in [
        "admin: { address: 'x', token: hunter2 }",
        "headers: { set: { authorization: 'Bearer hunter2 {', x-api-key: 'hunter2' } }",
        "upstreams: { a: { url: 'h', headers: { api_key: hunter2 } } }",
        "upstreams: { a: 'ftp://ada:hunter2@h' }",
        "databases: { a: 'postgres://ada:hunter2@h/d?sslmode=on' }",
        "store: { redis: 'http://:hunter2@h' }",
    ] {
        let output = run(
            "starred",
            &["check"],
            &format!("{line}\nendpoints: {{ GET /a: {{ pipeline: [ respond: {{}} ] }} }}\n"),
        );
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{line}\n{said}");
        assert!(!said.contains("hunter2"), "{line}\n{said}");
    }
}

#[test]
fn a_name_in_a_problem_does_not_move_the_cursor() {
    let evil = "a\u{9b}2J\u{202e}b\u{2066}\u{200f}\u{1b}[2J";
    let config = format!("upstreams: {{ shop: 'http://127.0.0.1' }}\nendpoints: {{ GET /a: \"{evil} /x\" }}\n");
    for format in ["text", "json"] {
        let said = said(&run("hidden", &["check", "--format", format], &config));
        let hidden = |c: char| c != '\n' && (c.is_control() || ('\u{200e}'..='\u{206f}').contains(&c));
        assert!(!said.contains(hidden) && said.contains('a'), "{said:?}");
    }
}

#[test]
fn the_page_shows_no_value_of_the_environment_in_calls() {
    let shop = Shop::open(|_, stream| stream.write_all(&shop::answer(200, "", "1")));
    let config = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstreams: {{ shop: 'http://{}' }}\nendpoints:\n  \
         GET /a/{{id}}: 'shop /bot${{SECRET}}/{{id}}/${{SHORT}}?key=${{SECRET}}'\n  \
         GET /b: {{ pipeline: [ request: 'shop /{{\"${{ODD}}\"}}' ] }}\n",
        shop.address
    );
    let file = scratch("page-masks.yaml");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    command.arg("run").arg(&file).env("SECRET", SECRET).env("SHORT", "q7").env("ODD", "a b/ü");
    let gateway = Gateway::begin(command).unwrap();
    let admin = gateway.admin().unwrap();
    let mut client = Client::connect(gateway.address);
    for (path, wanted) in [("/a/5", "/bot${SECRET}/5/${SHORT}"), ("/b", "/${ODD}")] {
        assert_eq!(client.get(path).status, 200);
        // A request is kept after its answer has left.
        let look = || {
            let list = Client::connect(admin).get("/requests").body;
            let list: serde_json::Value = serde_json::from_str(&list).unwrap();
            let kept = list["requests"].as_array().unwrap().iter().find(|kept| kept["path"] == path)?;
            kept["id"].as_str().map(str::to_owned)
        };
        let id = found(look, || format!("{path} is not kept"));
        let told = Client::connect(admin).get(&format!("/requests/{id}")).body;
        assert!(told.contains(wanted) && !told.contains("hunter2") && !told.contains("q7"), "{told}");
    }
}
