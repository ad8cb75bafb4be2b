//! An error is never data: what `on_error` makes of each kind of failure, behind each step that writes or joins items.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};

use crate::stage::client::{Client, Piece};
use crate::stage::database::Database;
use crate::stage::front::{Scene, ask, get};
use crate::stage::in_parallel;
use crate::stage::shop::{Shop, answer, close};

/// How the shop answers the item in the middle.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// A status of 2xx.
    Good(u16),
    /// Another one, and what the gateway's answer says of it.
    Refused(u16, u16),
    /// No whole answer.
    Fails(u16),
}

const HOWS: [(&str, Does); 15] = [
    ("200", Does::Good(200)),
    ("201", Does::Good(201)),
    ("204", Does::Good(204)),
    ("301", Does::Refused(301, 502)),
    ("302-empty", Does::Refused(302, 502)),
    ("304", Does::Refused(304, 502)),
    ("400", Does::Refused(400, 400)),
    ("404", Does::Refused(404, 404)),
    ("404-empty", Does::Refused(404, 404)),
    ("410-text", Does::Refused(410, 410)),
    ("500-empty", Does::Refused(500, 502)),
    ("503", Does::Refused(503, 502)),
    ("cut", Does::Fails(502)),
    ("closed", Does::Fails(502)),
    ("timeout", Does::Fails(504)),
];

/// The steps before `concatenate`: three items, of which the one in the middle is the shop's answer to `/how/HOW`.
const STEPS: [(&str, &str); 12] = [
    ("for-each", "request: { to: shop, path: '/{.}', for_each: '\"good\", \"how/\\($path.how)\", \"last\"' }"),
    ("named", "requests: { a: shop /good, b: 'shop /how/{how}', c: shop /last }"),
    ("each-call", "request: 'shop /paths/{how}'\n      - each: .[]\n      - request: 'shop /{*.}'"),
    ("call-each", "request: 'shop /paths/{how}'\n      - request: { to: shop, path: '/{*.}', for_each: '.[]' }"),
    ("follow", "request: 'shop /paths/{how}'\n      - each: .[]\n      - follow: '\"/\" + .'"),
    (
        "follow-asked",
        "request: 'shop /paths/{how}'\n      - each: .[]\n      - follow: { link: ., request: 'shop /{*.}' }",
    ),
    ("transform", "requests: { a: shop /good, b: 'shop /how/{how}', c: shop /last }\n      - transform: ."),
    ("dedupe", "requests: { a: shop /good, b: 'shop /how/{how}', c: shop /last }\n      - dedupe: ."),
    (
        "dedupe-order",
        "requests: { a: shop /good, b: 'shop /how/{how}', c: shop /last }\n      - dedupe: { by: ., keep: request }",
    ),
    (
        "each-list",
        "requests: { a: shop /good, b: 'shop /how/{how}', c: shop /last }\n      - each: 'if type == \"array\" then .[] else . end'",
    ),
    ("timer", "requests: { a: shop /good, b: 'shop /how/{how}', c: shop /last }\n      - timer: there"),
    (
        "page",
        "request: 'shop /page/{how}'\n      - follow: { next: .next?, pages: 2, on_status: { 204: { n: 2 } } }\n      - transform: .n? // .",
    ),
];

/// How the items are written.
const FORMATS: [&str; 3] = ["json", "ndjson", "sse"];

const ON_ERROR: [&str; 5] = ["keep", "skip", "null", "fail", "strict"];

fn shop() -> Shop {
    Shop::open(|asked, stream| {
        const JSON: &str = "content-type: application/json\r\n";
        let how = |target: &str| target.rsplit('/').next().unwrap_or_default().to_owned();
        let whole = |status, body: &str| answer(status, if body.is_empty() { "" } else { JSON }, body);
        let target = asked.target.replace("%2F", "/");
        let bytes = match target.split('?').next().unwrap_or_default() {
            "/good" => whole(200, "1"),
            "/last" => whole(200, "3"),
            target if target.starts_with("/paths/") => {
                whole(200, &format!("[\"good\", \"how/{}\", \"last\"]", how(target)))
            }
            target if target.starts_with("/page/") => {
                whole(200, &format!("{{\"n\": 1, \"next\": \"/how/{}\"}}", how(target)))
            }
            target => match &*how(target) {
                "200" => whole(200, "2"),
                "201" => whole(201, "2"),
                "204" => b"HTTP/1.1 204 Said\r\n\r\n".to_vec(),
                "304" => b"HTTP/1.1 304 Said\r\n\r\n".to_vec(),
                "301" => answer(301, "location: http://10.0.0.1/\r\ncontent-type: application/json\r\n", "\"data\""),
                "302-empty" => answer(302, "location: http://10.0.0.1/elsewhere\r\n", ""),
                "410-text" => answer(410, "content-type: text/plain\r\n", "data"),
                "404-empty" => whole(404, ""),
                "500-empty" => answer(500, JSON, ""),
                "cut" => {
                    let _ = stream.write_all(
                        b"HTTP/1.1 200 Said\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n\"dat",
                    );
                    return close();
                }
                "closed" => return close(),
                "timeout" => return Ok(()),
                status => whole(status.parse().unwrap(), "\"data\""),
            },
        };
        stream.write_all(&bytes)
    })
}

/// Two names of the shop. A call to `late` times out soon; the others have time also on a busy machine.
const UPSTREAMS: [&str; 2] = ["shop", "late"];

const CONFIG: &str = "upstreams:\n\
    \x20 shop: { url: 'http://${SHOP}', retry: { attempts: 1 } }\n\
    \x20 late: { url: 'http://${SHOP}', timeout: 1s, retry: { attempts: 1 } }\n\
    endpoints:\n";

/// The upstream to ask for `/how/HOW`.
fn upstream(how: &str) -> &'static str {
    UPSTREAMS[usize::from(how == "timeout")]
}

fn config() -> String {
    let mut config = CONFIG.to_owned();
    for ((name, steps), format) in STEPS.into_iter().flat_map(|step| FORMATS.map(|format| (step, format))) {
        for (on_error, bodies) in ON_ERROR.into_iter().flat_map(|on_error| [(on_error, true), (on_error, false)]) {
            for upstream in UPSTREAMS {
                let steps = steps.replace("shop", upstream);
                writeln!(
                    config,
                    "  GET /{upstream}/{name}/{format}/{on_error}/{bodies}/{{how}}:\n    pipeline:\n      - {steps}\n      - concatenate: {{ as: {format}, body_only: {bodies}, order: request, on_error: '{on_error}' }}"
                )
                .unwrap();
            }
        }
    }
    config
}

/// The items of an answer, however they are written.
fn items(format: &str, text: &str, told: &str) -> Vec<Value> {
    let parse = |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {told}"));
    match format {
        "json" => serde_json::from_str(text).expect(told),
        "ndjson" => text.lines().map(parse).collect(),
        _ => text.lines().filter_map(|line| line.strip_prefix("data: ")).map(parse).collect(),
    }
}

/// The answer as far as it came, and whether it ended.
fn listen(client: &mut Client, target: &str) -> (u16, String, bool) {
    ask(client, target, "host: test\r\n");
    let head = client.head().unwrap();
    let mut body = Vec::new();
    loop {
        match client.piece().unwrap() {
            Piece::Data(data) => body.extend(data),
            Piece::End(_) => return (head.status, String::from_utf8(body).unwrap(), true),
            Piece::Broken(_) => return (head.status, String::from_utf8(body).unwrap(), false),
        }
    }
}

/// Whether the item says that it is no data: a problem document, or an answer with its status.
fn tells(item: &Value, bodies: bool, does: Does) -> bool {
    match (does, bodies) {
        (Does::Refused(_, told), true) => item["status"] == json!(told) && item["title"].is_string(),
        (Does::Refused(own, told), false) => item["status"] == json!(own) || item["status"] == json!(told),
        (Does::Fails(told), true) => item["status"] == json!(told) && item["kind"].is_string(),
        (Does::Fails(told), false) => item["status"] == json!(told) && item["body"]["kind"].is_string(),
        (Does::Good(_), _) => false,
    }
}

#[test]
fn each_failure_is_what_on_error_says_behind_each_step() {
    let shop = shop();
    let scene = Scene::new(&config(), &shop);
    let address = scene.gateway.address;
    let rows = STEPS.iter().flat_map(|(name, _)| ON_ERROR.map(|on_error| (*name, on_error)));
    let rows = rows.flat_map(|(name, on_error)| FORMATS.map(|format| (name, on_error, format))).collect();
    // With more at the same time, a busy machine does not answer within the timeout of the upstream.
    in_parallel(36, rows, |(name, on_error, format)| {
        for (bodies, (how, does)) in [true, false].into_iter().flat_map(|bodies| HOWS.map(|how| (bodies, how))) {
            let target = format!("/{}/{name}/{format}/{on_error}/{bodies}/{how}", upstream(how));
            let heard = listen(&mut Client::connect(address).unwrap(), &target);
            check(Cell { name, format, on_error, bodies, does }, &format!("{target}: {heard:?}"), heard);
        }
    });
    println!("{} cells", STEPS.len() * FORMATS.len() * ON_ERROR.len() * 2 * HOWS.len());
}

/// A cell of the table.
struct Cell {
    name: &'static str,
    format: &'static str,
    on_error: &'static str,
    bodies: bool,
    does: Does,
}

fn check(cell: Cell, told: &str, (status, text, ended): (u16, String, bool)) {
    let Cell { name, format, on_error, bodies, does } = cell;
    let failed = !matches!(does, Does::Good(_));
    if let (Does::Refused(_, wanted) | Does::Fails(wanted), "strict") = (does, on_error) {
        assert!(ended && status == wanted, "{told}");
        assert!(serde_json::from_str::<Value>(&text).unwrap()["kind"].is_string(), "{told}");
        return;
    }
    if failed && on_error == "fail" {
        assert!(!ended || status >= 400, "{told}");
        assert!(!text.contains("\"data\""), "{told}");
        return;
    }
    assert!(ended && status == 200, "{told}");
    let items = items(format, &text, told);
    // The last page is the one in question.
    let after = usize::from(name != "page");
    let middle = usize::from(!failed || on_error != "skip");
    assert_eq!(items.len(), 1 + middle + after, "{told}");
    let body = |item: &Value| if bodies { item.clone() } else { item["body"].clone() };
    assert_eq!(body(&items[0]), json!(1), "{told}");
    assert!(after == 0 || body(&items[items.len() - 1]) == json!(3), "{told}");
    match (does, on_error) {
        (Does::Good(204), _) if name != "page" => assert_eq!(body(&items[1]), Value::Null, "{told}"),
        (Does::Good(_), _) => assert_eq!(body(&items[1]), json!(2), "{told}"),
        (_, "skip") => {}
        (_, "null") => assert_eq!(items[1], Value::Null, "{told}"),
        _ => assert!(tells(&items[1], bodies, does), "{told}"),
    }
}

/// The rows of CSV that become of an item between two others.
#[test]
fn no_failure_is_a_row_of_a_table() {
    let shop = Shop::open(|asked, stream| {
        let number = match &*asked.target {
            "/first" => "1",
            "/last" => "3",
            "/how/200" => "2",
            target => {
                return match target.rsplit('/').next().unwrap_or_default() {
                    "301" => stream.write_all(&answer(301, "location: /\r\n", "")),
                    "404" => stream.write_all(&answer(404, "content-type: application/json\r\n", "{\"n\":\"data\"}")),
                    "404-empty" => stream.write_all(&answer(404, "", "")),
                    "503" => stream.write_all(&answer(503, "content-type: application/json\r\n", "{\"n\":\"data\"}")),
                    "timeout" => Ok(()),
                    _ => close(),
                };
            }
        };
        stream.write_all(&answer(200, "content-type: application/json\r\n", format!("{{\"n\":{number}}}")))
    });
    let mut config = CONFIG.to_owned();
    for (upstream, on_error) in UPSTREAMS.into_iter().flat_map(|upstream| ON_ERROR.map(|on_error| (upstream, on_error)))
    {
        writeln!(
            config,
            "  GET /{upstream}/{on_error}/{{how}}: {{ pipeline: [ {{ requests: {{ a: shop /first, b: '{upstream} /how/{{how}}', c: shop /last }} }}, \
             {{ concatenate: {{ body_only: true, order: request, on_error: '{on_error}' }} }}, {{ convert: csv }} ] }}"
        )
        .unwrap();
    }
    let scene = Scene::new(&config, &shop);
    for (how, wanted) in
        [("200", 200), ("301", 502), ("404", 404), ("404-empty", 404), ("503", 502), ("cut", 502), ("timeout", 504)]
    {
        for on_error in ON_ERROR {
            let target = format!("/{}/{on_error}/{how}", upstream(how));
            let (status, text, ended) = listen(&mut Client::connect(scene.gateway.address).unwrap(), &target);
            let told = format!("{how}, {on_error}: {status} {text:?} {ended}");
            assert!(!text.contains("data"), "{told}");
            let rows: Vec<&str> = text.lines().collect();
            match (on_error, how) {
                (_, "200") => assert_eq!((status, &*rows), (200, &["n", "1", "2", "3"][..]), "{told}"),
                ("fail" | "strict", _) => assert!(status == wanted && text.contains("\"kind\""), "{told}"),
                ("skip", _) => assert_eq!((status, &*rows), (200, &["n", "1", "3"][..]), "{told}"),
                ("null", _) => assert_eq!((status, &*rows), (200, &["n", "1", "", "3"][..]), "{told}"),
                _ => {
                    let middle = rows.get(2).copied().unwrap_or_default();
                    let columns = rows[0].starts_with("n,title,status,kind");
                    assert!(status == 200 && columns && middle.starts_with(','), "{told}");
                    assert!(middle.contains(&format!(",{wanted},")), "{told}");
                }
            }
        }
    }
}

#[test]
fn a_statement_is_not_run_for_what_failed() {
    let Some(database) = Database::start() else { return };
    let mut config = format!("databases: {{ main: {{ url: '{}' }} }}\n{CONFIG}", database.url());
    for (upstream, on_error) in UPSTREAMS.into_iter().flat_map(|upstream| ON_ERROR.map(|on_error| (upstream, on_error)))
    {
        writeln!(
            config,
            "  GET /{upstream}/{on_error}/{{how}}: {{ pipeline: [ {{ requests: {{ a: shop /good, b: '{upstream} /how/{{how}}', c: shop /last }} }}, \
             {{ sql: {{ to: main, query: 'select $1::int * 10 as n', values: [.], one: true }} }}, \
             {{ transform: 'if type == \"object\" then .n else . end' }}, \
             {{ concatenate: {{ body_only: true, order: request, on_error: '{on_error}' }} }} ] }}"
        )
        .unwrap();
    }
    let shop = shop();
    let scene = Scene::new(&config, &shop);
    for (how, does) in HOWS {
        for on_error in ON_ERROR {
            let target = format!("/{}/{on_error}/{how}", upstream(how));
            let (status, text, ended) = listen(&mut Client::connect(scene.gateway.address).unwrap(), &target);
            let told = format!("{how}, {on_error}: {status} {text:?} {ended}");
            assert!(!text.contains("\"data\""), "{told}");
            let wanted = match does {
                // No number is there for the statement.
                Does::Good(204) => continue,
                Does::Good(_) => {
                    assert_eq!((status, &*text), (200, "[10,20,30]"), "{told}");
                    continue;
                }
                Does::Refused(_, wanted) | Does::Fails(wanted) => wanted,
            };
            match on_error {
                "strict" => assert_eq!(status, wanted, "{told}"),
                "fail" => assert!(!ended || status == wanted, "{told}"),
                "skip" => assert_eq!(text, "[10,30]", "{told}"),
                "null" => assert_eq!(text, "[10,null,30]", "{told}"),
                _ => {
                    let items = items("json", &text, &told);
                    assert!(items[0] == 10 && items[2] == 30 && tells(&items[1], true, does), "{told}");
                }
            }
        }
    }
}

#[test]
fn a_whole_of_which_a_part_failed_fails() {
    const ROUTES: &str = "\
        \x20 GET /shop/merge/{how}: { pipeline: [ requests: { a: shop /good, b: 'shop /how/{how}' }, merge: '[$a, $b]' ] }\n\
        \x20 GET /shop/list/{how}: { pipeline: [ requests: { a: shop /good, b: 'shop /how/{how}' }, merge: . ] }\n\
        \x20 GET /shop/follow/{how}: { pipeline: [ request: 'shop /paths/{how}', follow: { link: '\"/\" + .[1]', as: it } ] }\n\
        \x20 GET /shop/follows/{how}: { pipeline: [ request: 'shop /paths/{how}', follow: { link: '\"/\" + .[]', limit: 3 } ] }\n\
        \x20 GET /shop/chained/{how}: { pipeline: [ request: 'shop /how/{how}', request: 'shop /good?{.}' ] }\n\
        \x20 GET /shop/several/{how}: { pipeline: [ request: { to: shop, path: '/{.}', for_each: '\"how/\\($path.how)\", \"how/\\($path.how)\"' } ] }\n";
    let shop = shop();
    let scene = Scene::new(&format!("{CONFIG}{ROUTES}{}", ROUTES.replace("shop", "late")), &shop);
    for step in ["merge", "list", "follow", "follows", "chained", "several"] {
        for (how, does) in HOWS {
            let (Does::Refused(own, wanted) | Does::Fails(wanted @ own)) = does else { continue };
            let target = format!("/{}/{step}/{how}", upstream(how));
            let (status, text, ended) = listen(&mut Client::connect(scene.gateway.address).unwrap(), &target);
            let told = format!("{target}: {status} {text} {ended}");
            if step == "several" && !ended {
                continue;
            }
            // A first call that is refused ends a chain with its own answer.
            let alone = step == "chained" && status == own;
            assert!(ended && (alone || status == wanted), "{told}");
            assert!(alone || serde_json::from_str::<Value>(&text).unwrap()["kind"].is_string(), "{told}");
        }
    }
}

#[test]
fn a_list_that_ends_early_says_so_whatever_becomes_of_its_items() {
    let config = "upstreams: { shop: { url: 'http://${SHOP}', timeout: 2s } }\n\
        endpoints:\n\
        \x20 GET /pages/{how}: { pipeline: [ request: shop /loop, follow: { next: .next, pages: 2 }, transform: .n, concatenate: { body_only: true, on_error: HOW } ] }\n\
        \x20 GET /limit/{how}: { pipeline: [ request: shop /list, each: { in: '.[]', limit: 2 }, concatenate: { body_only: true, on_error: HOW } ] }\n\
        \x20 GET /whole/{how}: { pipeline: [ request: shop /list, each: { in: '.[] | select(. > 0)', limit: 2 }, concatenate: { body_only: true, on_error: HOW } ] }\n\
        \x20 GET /cut/{how}: { pipeline: [ request: shop /cut, each: '.[]', concatenate: { body_only: true, on_error: HOW } ] }\n\
        \x20 GET /broken/{how}: { pipeline: [ request: shop /broken, each: '.[]', concatenate: { body_only: true, on_error: HOW } ] }\n";
    for on_error in ["keep", "skip", "'null'"] {
        let shop = Shop::open(|asked, stream| match &*asked.target {
            "/list" => stream.write_all(&answer(200, "content-type: application/json\r\n", "[1, 2, 3]")),
            "/broken" => stream.write_all(&answer(200, "content-type: application/json\r\n", "[1, 2 3]")),
            "/cut" => {
                let _ = stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n[1, 2, 3",
                );
                close()
            }
            target => {
                let next = target.split_once('?').map_or(1, |(_, number)| number.parse().unwrap());
                let body = format!("{{\"n\": {next}, \"next\": \"/loop?{}\"}}", next + 1);
                stream.write_all(&answer(200, "content-type: application/json\r\n", body))
            }
        });
        let scene = Scene::new(&config.replace("HOW", on_error), &shop);
        for list in ["pages", "limit", "whole", "cut", "broken"] {
            let mut client = Client::connect(scene.gateway.address).unwrap();
            let answer = get(&mut client, &format!("/{list}/x"), "host: test\r\n");
            let items: Vec<Value> = serde_json::from_str(answer.text()).unwrap();
            let last = items.last().unwrap();
            assert!(last["kind"].is_string() && last["status"] == 502, "{list} {on_error}: {}", answer.text());
            assert_eq!(items[0], json!(1), "{list} {on_error}: {}", answer.text());
        }
    }
}
