//! Values on their way there and back: without loss, or refused in plain words.

use crate::databases::database::Database;
use crate::databases::{echo, gateway};

/// Types, with JSON that must come back as it went.
const SAME: &[(&str, &[&str])] = &[
    ("bool", &["true", "false", "null"]),
    ("int2", &["-32768", "32767"]),
    ("int4", &["-2147483648", "2147483647"]),
    ("int8", &["-9223372036854775808", "9223372036854775807", "9007199254740993"]),
    ("float8", &["0.1", "-2.5", "\"NaN\"", "\"-Infinity\"", "123456789"]),
    ("float4", &["0.1", "16777216"]),
    ("numeric", &["123456789012345678901234567890.123456789", "1.500", "-0.000001", "0", "10000", "\"NaN\""]),
    ("numeric(10,2)", &["12345678.90"]),
    ("text", &[r#""""#, r#""' or 1=1; --""#, r#""\\ \"quoted\" ünï 🐊""#, r#""$1 %s {} \n""#]),
    ("varchar(20)", &[r#""twenty characters ok""#]),
    ("uuid", &[r#""6a2f41a3-c54c-fce8-32d2-0324e1c32e22""#]),
    ("timestamptz", &[r#""2024-05-31T12:00:00.123456Z""#, r#""infinity""#, r#""0044-03-15T00:00:00Z BC""#]),
    ("timestamp", &[r#""2024-02-29T23:59:59.5""#]),
    ("date", &[r#""1999-12-31""#, r#""12345-01-01""#]),
    ("time", &[r#""04:05:06.789""#, r#""24:00:00""#]),
    ("timetz", &[r#""04:05:06-03:30""#]),
    ("interval", &[r#""P1Y2M3DT4H5M6.5S""#, r#""PT0S""#, r#""P-1DT-0.5S""#]),
    ("bytea", &[r#""AAECA/8=""#, r#""""#]),
    ("json", &[r#"{"a": [1.10, {"b":null}]}"#]),
    ("jsonb", &[r#"{"a": [1.10, {"b": null}]}"#, r#""text""#, "12345678901234567890.1"]),
    ("inet", &[r#""192.168.0.1""#, r#""10.0.0.0/8""#, r#""2001:db8::1""#]),
    ("cidr", &[r#""10.0.0.0/8""#]),
    ("macaddr", &[r#""08:00:2b:01:02:03""#]),
    ("bit(4)", &[r#""1010""#]),
    ("mood", &[r#""it's fine""#, r#""sad""#]),
    ("small", &["5"]),
    ("int4[]", &["[1,null,3]", "[]", "[[1,2],[3,4]]"]),
    ("text[]", &[r#"["a,b","{}","\"","NULL",null,""]"#]),
    ("mood[]", &[r#"["sad"]"#]),
    ("jsonb[]", &[r#"[{"a": 1},null,[1]]"#]),
    ("place", &[r#"{"name":"a \"b\", (c)","x":1.5,"tags":["u","v"]}"#, r#"{"name":null,"x":null,"tags":[]}"#]),
];

const TYPES: &str = "create type mood as enum ('sad', 'it''s fine');
    create domain small as int4 check (value < 10);
    create type place as (name text, x float8, tags text[])";

#[test]
fn values_come_back_as_they_went() {
    let Some(database) = Database::shared() else { return };
    database.connect().run(TYPES).unwrap();
    let path = |at: usize| format!("/t{at}");
    let endpoint = |(at, (kind, _)): (usize, &(&str, _))| echo(&path(at), &format!("select $1::{kind} as v"));
    let endpoints: String = SAME.iter().enumerate().map(endpoint).collect();
    let scene = gateway("same", &database, "", &endpoints);
    let mut client = scene.client();
    for (at, (kind, values)) in SAME.iter().enumerate() {
        for value in *values {
            let reply = client.ask("POST", &path(at), &[], value);
            assert_eq!((reply.status, reply.body.as_str()), (200, &*format!("{{\"v\":{value}}}")), "{kind} {value}");
        }
    }
}

/// A type, a JSON value that does not fit it, and words that must stand in the answer to the client.
const REFUSED: &[(&str, &[&str], &str)] = &[
    ("int4", &["2147483648", "\"5\"", "1.5", "true", "[1]", "{}", "1e100"], "must be a whole number from -2147483648"),
    ("bool", &["\"true\"", "1", "\"t\""], "must be true or false"),
    ("text", &["5", "[\"a\"]"], "must be text"),
    ("text", &["\"a\\u0000b\""], "without the character U+0000"),
    ("uuid", &["\"zz\"", "\"{6a2f41a3-c54c-fce8-32d2-0324e1c32e22}\"", "5"], "must be a UUID"),
    ("timestamptz", &["\"now\"", "\"2024-05-31T12:00:00\"", "1717156800"], "must be a date and time with an offset"),
    ("timestamptz", &["\"2024-02-30T12:00:00Z\"", "\"2024-05-31T25:00:00Z\""], "no such date or time"),
    ("date", &["\"today\"", "\"05/31/2024\""], "must be a date"),
    ("interval", &["\"1 day\"", "60"], "must be a length of time"),
    ("bytea", &["\"not base64!\"", "\"\\\\x00\""], "must be bytes as Base64"),
    ("mood", &["\"glad\"", "0"], "must be one of `sad`, `it's fine`"),
    ("int4[]", &["[1,\"2\"]", "5"], "must be a list"),
    ("int4[]", &["[[1],[2,3]]"], "does not fit"),
    ("varchar(3)", &["5"], "must be text"),
    ("float4", &["1e300"], "must be a smaller number"),
    ("numeric(4,2)", &["12345"], "out of range"),
    ("jsonb", &["\"\\u0000\""], "cannot be stored"),
    ("place", &["{\"nam\":1}"], "without `nam`"),
    ("place", &["{\"x\":\"1px\"}"], "whose `x` must be a number"),
    ("inet", &["\"999.0.0.1\""], "does not fit"),
];

#[test]
fn what_does_not_fit_is_refused_without_a_word_of_sql() {
    let Some(database) = Database::shared() else { return };
    database.connect().run(TYPES).unwrap();
    let path = |at: usize| format!("/t{at}");
    let endpoint = |(at, (kind, ..)): (usize, &(&str, _, _))| echo(&path(at), &format!("select $1::{kind} as v"));
    let endpoints: String = REFUSED.iter().enumerate().map(endpoint).collect();
    let scene = gateway("refused", &database, "", &endpoints);
    let mut client = scene.client();
    for (at, (kind, values, wanted)) in REFUSED.iter().enumerate() {
        for value in *values {
            let reply = client.ask("POST", &path(at), &[], value);
            assert_eq!(reply.status, 400, "{kind} {value}: {}", reply.body);
            assert!(reply.body.contains(wanted), "{kind} {value}: {}", reply.body);
            assert!(!reply.body.contains("select") && !reply.body.contains("::"), "{}", reply.body);
        }
    }
}

#[test]
fn a_value_is_never_read_as_sql() {
    let Some(database) = Database::shared() else { return };
    database.connect().run("create table items (id int primary key, value text)").unwrap();
    let endpoints = "  POST /items/{id}:
    pipeline:
      - sql: { to: main, query: 'insert into items values ($1, $2) returning *', values: ['$path.id | tonumber', $body.value], one: true }
";
    let scene = gateway("bound", &database, "", endpoints);
    let mut client = scene.client();
    let hostile = ["'); drop table items; --", "\\'; select 1", "$$; $1", "\u{fffd}\u{202e}'\"", "a\tb\r\nc"];
    for (id, value) in hostile.iter().enumerate() {
        let body = serde_json::json!({ "value": value }).to_string();
        let reply = client.ask("POST", &format!("/items/{id}"), &[], &body);
        let row: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!((reply.status, row["value"].as_str()), (200, Some(*value)));
    }
    let session = database.connect();
    assert_eq!(session.one("select count(*) from items").as_deref(), Some("5"));
    let reply = client.ask("POST", "/items/x;drop", &[], "{}");
    assert_eq!(reply.status, 400, "{}", reply.body);
}
