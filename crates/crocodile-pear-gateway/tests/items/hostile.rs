//! Two thousand hostile values through every parameter: stored exactly, or refused with a problem that says nothing of the database.

use std::fmt::Write;

use crocodile_pear_demo::postgres::Postgres;
use serde_json::{Value, json};

use crate::stage::database::launch;
use crate::stage::scene::{Client, Reply, Scene};
use crate::stage::test_rng::TestRng;

/// The columns of the table, and the types of their parameters.
const COLUMNS: [(&str, &str); 15] = [
    ("t", "text"),
    ("v", "varchar(50)"),
    ("i2", "int2"),
    ("i4", "int4"),
    ("i8", "int8"),
    ("n", "numeric"),
    ("f", "float8"),
    ("b", "boolean"),
    ("u", "uuid"),
    ("z", "timestamptz"),
    ("d", "date"),
    ("j", "jsonb"),
    ("y", "bytea"),
    ("a", "text[]"),
    ("m", "mood"),
];

/// The words that no client may read.
const SECRETS: [&str; 16] = [
    "sql",
    "postgres",
    "syntax",
    "relation",
    "column",
    "table",
    "kept",
    "varchar",
    "int4",
    "select",
    "insert",
    "constraint",
    "duplicate",
    "sqlstate",
    "encoding",
    "cast",
];

/// Texts that have broken other programs.
const TEXTS: [&str; 44] = [
    "",
    "'",
    "''",
    "\"",
    "\\",
    "\\'",
    "\\\\'",
    "`",
    "$1",
    "$$",
    "$$;drop table kept;$$",
    "%",
    "%s%n",
    "?",
    ":id",
    "--",
    "/*",
    "*/",
    ";",
    "'; drop table kept; --",
    "' or '1'='1",
    "1; select pg_sleep(10)",
    "') on conflict do nothing --",
    "\\x00",
    "E'\\000'",
    "U&'\\0000'",
    "null",
    "NULL",
    "true",
    "NaN",
    "Infinity",
    "-0",
    "1e999",
    "{\"a\":1}",
    "[1,2]",
    "{1,2}",
    "{\"a\",NULL}",
    "(1,2)",
    "\u{0}",
    "a\u{0}b",
    "\u{202e}\u{feff}",
    "e\u{301}\u{1f468}\u{200d}\u{1f469}",
    "\u{fffd}\u{10ffff}",
    "\r\n\t\u{b}\u{1b}[2J",
];

const NUMBERS: [&str; 28] = [
    "0",
    "-0",
    "1",
    "-1",
    "0.1",
    "1.0",
    "1e2",
    "1E-7",
    "32767",
    "32768",
    "-32769",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "123456789012345678901234567890.123456789",
    "1e308",
    "1e309",
    "-1e309",
    "1e-400",
    "0.30000000000000004",
    "5e-324",
    "3.4028236e38",
    "1.7976931348623157e308",
];

fn values() -> Vec<String> {
    let mut values: Vec<String> = TEXTS.iter().map(|text| json!(text).to_string()).collect();
    values.extend(NUMBERS.map(str::to_owned));
    values.extend(NUMBERS.iter().map(|number| json!(number).to_string()));
    let others = [
        "null",
        "true",
        "false",
        "[]",
        "{}",
        "[null]",
        "[\"a\",null,\"{}\"]",
        "[[\"a\"],[\"b\"]]",
        "{\"a\":{\"b\":[1,null]}}",
    ];
    values.extend(others.map(str::to_owned));
    let moments = [
        "2024-02-30",
        "2024-05-31T12:00:00Z",
        "0000-00-00",
        "294277-01-01T00:00:00Z",
        "4714-11-24 BC",
        "infinity",
        "now",
        "happy",
    ];
    values.extend(moments.map(|text| json!(text).to_string()));
    let coded = [
        "00000000-0000-0000-0000-000000000000",
        "{550e8400e29b41d4a716446655440000}",
        "AAEC/w==",
        "AAEC/w",
        "\\xdeadbeef",
    ];
    values.extend(coded.map(|text| json!(text).to_string()));
    values.push(json!("x".repeat(51)).to_string());
    values.push(json!("'".repeat(100_000)).to_string());
    values.push(format!("{}1{}", "[".repeat(100), "]".repeat(100)));
    // Any characters, half of them such as mean something somewhere.
    let mut dice = TestRng(7);
    values.extend((0..10).map(|_| json!(text(&mut dice)).to_string()));
    values
}

fn text(dice: &mut TestRng) -> String {
    let meaning: Vec<char> = "'\"\\;$%-/*(){}[]:,\0\n\u{85}\u{2028}".chars().collect();
    let one = |dice: &mut TestRng| match dice.rare(2) {
        true => dice.of(&meaning),
        false => char::from_u32(dice.below(0x11_0000) as u32).unwrap_or('\u{fffd}'),
    };
    (0..dice.below(40)).map(|_| one(dice)).collect()
}

fn configuration(url: &str) -> String {
    let mut text = format!("databases:\n  it: {{ url: '{url}', connections: 4 }}\nendpoints:\n");
    for (name, _) in COLUMNS {
        let _ = write!(
            text,
            "  POST /{name}:\n    max_body: 32MiB\n    pipeline:\n      - sql: {{ to: it, query: 'insert into kept ({name}) values ($1) returning id, {name} as value', values: [$body.value], one: true }}\n      - respond: {{ status: 201 }}\n  GET /{name}/{{id}}:\n    pipeline:\n      - sql: {{ to: it, query: 'select {name} as value from kept where id = $1', values: ['$path.id | tonumber'], one: true }}\n"
        );
    }
    text + "  GET /path/{value}:
    pipeline:
      - sql: { to: it, query: 'select $1::text as value', values: [$path.value], one: true }
  GET /query:
    pipeline:
      - sql: { to: it, query: 'select $1::text as value', values: [$query.value], one: true }
"
}

#[test]
fn hostile_values_are_stored_exactly_or_refused() {
    let Some(postgres) = launch(&[]) else { return };
    let columns: Vec<String> = COLUMNS.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
    let schema = format!(
        "create type mood as enum ('happy', 'it''s'); create table kept (id serial primary key, {})",
        columns.join(", ")
    );
    postgres.run(&schema).unwrap();
    let scene = Scene::new("hostile", &configuration(&postgres.url()));
    let values = values();
    let (mut stored, mut refused) = (0, 0);
    for (name, kind) in COLUMNS {
        let mut client = scene.client();
        for value in &values {
            match column(&mut client, &postgres, name, kind, value) {
                true => stored += 1,
                false => refused += 1,
            }
        }
    }
    for value in values.iter().filter_map(|value| serde_json::from_str::<String>(value).ok()) {
        // A target has its bounds, whatever is behind.
        if value.len() > 1_000 {
            continue;
        }
        for place in ["/path/", "/query?value="] {
            match target(&mut scene.client(), place, &value) {
                true => stored += 1,
                false => refused += 1,
            }
        }
    }
    println!("{} values: {stored} stored exactly, {refused} refused", stored + refused);
    assert!(stored + refused >= 2_000 && stored > 400 && refused > 400);
    // What would have been done, had a value been read as a statement.
    let rows: usize = postgres.run("select count(*) from kept").unwrap().parse().unwrap();
    assert!(rows > 0 && rows <= stored);
    assert!(!scene.gateway.said().contains("panicked"), "{}", scene.gateway.said());
}

#[test]
fn a_text_of_ten_million_bytes_is_stored_exactly() {
    let Some(postgres) = launch(&[]) else { return };
    postgres.run("create table kept (id serial primary key, t text)").unwrap();
    let text = configuration(&postgres.url());
    let first = text.find("  POST /v:").unwrap();
    let scene = Scene::new("long", &text[..first]);
    let long = "a'\u{e9}\\\"".repeat(1_700_000);
    assert!(column(&mut scene.client(), &postgres, "t", "text", &json!(long).to_string()));
}

/// Whether a value was stored, and then exactly, through this column.
fn column(client: &mut Client, postgres: &Postgres, name: &str, kind: &str, value: &str) -> bool {
    let fields = [("content-type", "application/json")];
    let reply = client.ask("POST", &format!("/{name}"), &fields, &format!("{{\"value\":{value}}}"));
    let shown: String = value.chars().take(60).collect();
    if reply.status != 201 {
        refused(&reply, &format!("{kind}: {shown}"));
        return false;
    }
    let (id, told) = reply.body.strip_prefix("{\"id\":").and_then(|rest| rest.split_once(",\"value\":")).unwrap();
    let told = told.strip_suffix('}').unwrap();
    let again = client.get(&format!("/{name}/{id}")).body;
    assert_eq!(again, format!("{{\"value\":{told}}}"), "{kind}: {shown} is read otherwise than it was told");
    let became: String = told.chars().take(60).collect();
    assert!(same(postgres, kind, value, told), "{kind}: {shown} became {became}");
    true
}

/// Whether what is stored is what was sent, as far as the type goes; both as JSON.
fn same(postgres: &Postgres, kind: &str, sent: &str, stored: &str) -> bool {
    // Digits beyond what a float has count, too: the server itself compares.
    let number = |kind: &str| {
        let (sent, stored) = (sent.trim_matches('"'), stored.trim_matches('"'));
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || ".+-".contains(c));
        let equal = format!("select '{sent}'::{kind} = '{stored}'::{kind}");
        plain(sent) && plain(stored) && postgres.run(&equal).unwrap() == "t"
    };
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    match kind {
        _ if sent == "null" || stored == "null" => sent == stored,
        "int2" | "int4" | "int8" | "numeric" | "float8" => {
            number(if kind.starts_with("int") { "numeric" } else { kind })
        }
        "jsonb" if sent.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => number("numeric"),
        // Other ways to write the same are taken; what is read is the usual one.
        "uuid" | "timestamptz" | "date" | "bytea" => sent.starts_with('"') && stored.starts_with('"'),
        _ => value(sent).is_some() && value(sent) == value(stored),
    }
}

/// Whether a text came through the target as it was sent.
fn target(client: &mut Client, place: &str, value: &str) -> bool {
    let coded: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let reply = client.get(&format!("{place}{coded}"));
    if reply.status != 200 {
        refused(&reply, &format!("{place}: {value:?}"));
        return false;
    }
    let told: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(told["value"], json!(value), "{place}");
    true
}

/// A refusal is the client's to mend, and says nothing of what is behind.
fn refused(reply: &Reply, what: &str) {
    assert!(matches!(reply.status, 400 | 404 | 413 | 422), "{what}: {} {}", reply.status, reply.body);
    let problem: Value = serde_json::from_str(&reply.body).unwrap();
    for part in ["title", "detail"] {
        let said = problem[part].as_str().unwrap_or_default().to_lowercase();
        let secret = SECRETS.iter().find(|secret| said.contains(*secret));
        assert!(secret.is_none(), "{what}: `{}` in {}", secret.unwrap_or(&""), reply.body);
    }
}
