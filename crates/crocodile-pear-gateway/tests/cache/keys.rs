//! The values that a configuration adds to a call for one client are part of the key, whatever their names.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Once;

use crate::stage::client::Client;
use crate::stage::front::{Scene, ask};
use crate::stage::shop::{Gate, Shop, answer};
use crate::stage::{scratch, until};

/// The keys `anna`, `bert`, `team` and `none`, with the claims of each.
pub const KEYS: &str = "\
- { sha256: 55579b557896d0ce1764c47fed644f9b35f58bad620674af23f356d80ed0c503, claims: { sub: anna, team: a, admin: false } }\n\
- { sha256: 32987c4b7a9fb90e729425fc63e7bb81ce2cb1f80140ddeddc968aa79a34e8f8, claims: { sub: bert, team: a, admin: true } }\n\
- { sha256: ca8b22d0db83a22db163b560b3e4e51527e533d31d067b614a0c33c4d2df8432, claims: { team: a } }\n\
- { sha256: 140bedbf9c3f6d56a9846d2ba7088798683f4da0c248231336e6a05679e4fdfe, claims: {} }\n\
";

/// Where the gateway finds them.
pub fn write_keys() {
    static WRITTEN: Once = Once::new();
    WRITTEN.call_once(|| std::fs::write(scratch("keys.yaml"), KEYS).unwrap());
}

/// A shop that answers with all fields that it was sent, as a list, and says that everybody may have it for a minute.
fn mirror() -> Shop {
    Shop::open(|asked, stream| {
        let fields = asked.fields.iter().map(|(name, value)| format!("\"{name}: {}\"", value.replace('"', "'")));
        let body = format!("[{}]", fields.collect::<Vec<_>>().join(","));
        stream.write_all(&answer(200, "cache-control: max-age=60\r\ncontent-type: application/json\r\n", body))
    })
}

/// The requests of two clients, and the part of itself that each must see in its answer.
struct Case {
    upstream: &'static str,
    call: &'static str,
    one: (&'static str, &'static str),
    other: (&'static str, &'static str),
}

const fn case(
    upstream: &'static str,
    call: &'static str,
    one: (&'static str, &'static str),
    other: (&'static str, &'static str),
) -> Case {
    Case { upstream, call, one, other }
}

const ANNA: &str = "x-api-key: anna\r\n";
const BERT: &str = "x-api-key: bert\r\n";

/// Anna and Bert ask for the same, in both orders and again: each sees only its own.
fn apart(scene: &mut Scene, case: &Case, target: &str) {
    for (turn, order) in [[&case.one, &case.other, &case.one], [&case.other, &case.one, &case.other]].iter().enumerate()
    {
        for (fields, own) in order {
            let host = if fields.lines().any(|line| line.starts_with("host:")) { "" } else { "host: test\r\n" };
            let seen = scene.get(&format!("{target}?turn={turn}"), &format!("{host}{fields}"));
            assert_eq!(seen.head.status, 200, "{} {}", case.upstream, seen.text());
            let wanted = own.trim_start_matches('!');
            let there = seen.text().contains(&format!("\"{wanted}\""));
            assert_eq!(there, !own.starts_with('!'), "{} {}: {fields:?} got {}", case.upstream, case.call, seen.text());
        }
    }
}

const CASES: &[Case] = &[
    // The value that another client sends is the one that is made for the first.
    case(
        "headers: { x-user: '{$claims.sub}' }",
        "",
        (ANNA, "x-user: anna"),
        ("x-api-key: bert\r\nx-user: bert\r\n", "x-user: bert"),
    ),
    case(
        "forward: [x-user], headers: { x-user: '{$claims.sub}' }",
        "",
        ("x-api-key: anna\r\nx-user: anna\r\n", "x-user: anna"),
        ("x-api-key: bert\r\nx-user: bert\r\n", "x-user: bert"),
    ),
    case(
        "forward: all, headers: { x-user: '{$claims.sub}' }",
        "",
        ("x-api-key: anna\r\nx-user: anna\r\n", "x-user: anna"),
        ("x-api-key: bert\r\nx-user: bert\r\n", "x-user: bert"),
    ),
    // Fields of a hop are fields.
    case(
        "headers: { x-real-ip: '{$client.address}' }",
        "",
        ("x-api-key: anna\r\nx-forwarded-for: 192.0.2.1\r\n", "x-real-ip: 192.0.2.1"),
        ("x-api-key: anna\r\nx-forwarded-for: 192.0.2.2\r\n", "x-real-ip: 192.0.2.2"),
    ),
    case(
        "headers: { x-forwarded-for: '{$client.address}' }",
        "",
        ("x-api-key: anna\r\nx-forwarded-for: 192.0.2.1\r\n", "x-forwarded-for: 192.0.2.1"),
        ("x-api-key: anna\r\nx-forwarded-for: 192.0.2.2\r\n", "x-forwarded-for: 192.0.2.2"),
    ),
    case(
        "headers: { x-request-id: '{$claims.sub}' }",
        "",
        (ANNA, "x-request-id: anna"),
        ("x-api-key: bert\r\nx-request-id: bert\r\n", "x-request-id: bert"),
    ),
    case(
        "headers: { traceparent: '00-{$claims.sub}' }",
        "",
        (ANNA, "traceparent: 00-anna"),
        (BERT, "traceparent: 00-bert"),
    ),
    case(
        "headers: { forwarded: 'for={$claims.sub}' }",
        "",
        (ANNA, "forwarded: for=anna"),
        (BERT, "forwarded: for=bert"),
    ),
    case(
        "forwarded: off",
        "headers: { x-real-ip: '{$claims.sub}' }",
        (ANNA, "x-real-ip: anna"),
        ("x-api-key: bert\r\nx-real-ip: bert\r\n", "x-real-ip: bert"),
    ),
    case(
        "forward: all",
        "headers: { X-Request-Id: '{$claims.sub}' }",
        (ANNA, "x-request-id: anna"),
        ("x-api-key: bert\r\nx-request-id: bert\r\n", "x-request-id: bert"),
    ),
    // Cookies and credentials that are written.
    case(
        "headers: { cookie: 'user={$claims.sub}' }",
        "",
        ("x-api-key: anna\r\ncookie: a=b\r\n", "cookie: user=anna"),
        ("x-api-key: bert\r\ncookie: a=b\r\n", "cookie: user=bert"),
    ),
    case(
        "headers: { authorization: 'Bearer {$claims.sub}' }",
        "",
        ("x-api-key: anna\r\nauthorization: Bearer anna\r\n", "authorization: Bearer anna"),
        ("x-api-key: bert\r\nauthorization: Bearer bert\r\n", "authorization: Bearer bert"),
    ),
    case(
        "headers: { x-session: '{$headers.cookie}' }",
        "",
        ("x-api-key: anna\r\ncookie: s=1\r\n", "x-session: s=1"),
        ("x-api-key: anna\r\ncookie: s=2\r\nx-session: s=2\r\n", "x-session: s=2"),
    ),
    case(
        "headers: { x-id: '{$headers[\"x-request-id\"]}' }",
        "",
        ("x-api-key: anna\r\nx-request-id: 1\r\n", "x-id: 1"),
        ("x-api-key: anna\r\nx-request-id: 2\r\nx-id: 2\r\n", "x-id: 2"),
    ),
    // Fields that are there for some clients only.
    case(
        "headers: { x-admin: '{if $claims.admin then \"yes\" else null end}' }",
        "",
        (ANNA, "!x-admin: yes"),
        (BERT, "x-admin: yes"),
    ),
    case(
        "forward: [x-admin], headers: { x-admin: '{if $claims.admin then \"yes\" else null end}' }",
        "",
        ("x-api-key: anna\r\nx-admin: yes\r\n", "!x-admin: yes"),
        ("x-api-key: bert\r\nx-admin: yes\r\n", "x-admin: yes"),
    ),
    case(
        "forward: [x-vip]",
        "headers: { x-vip: '{if $claims.admin then \"1\" else \"\" end}' }",
        ("x-api-key: anna\r\nx-vip: 1\r\n", "!x-vip: 1"),
        ("x-api-key: bert\r\nx-vip: 1\r\n", "x-vip: 1"),
    ),
    // Hosts: the client names one in several ways, and may name the one of another.
    case(
        "forwarded: x",
        "",
        ("x-api-key: anna\r\nhost: one.test\r\n", "x-forwarded-host: one.test"),
        ("x-api-key: anna\r\nhost: two.test\r\nx-forwarded-host: two.test\r\n", "x-forwarded-host: two.test"),
    ),
    case(
        "forwarded: rfc7239",
        "",
        (
            "x-api-key: anna\r\nhost: one.test\r\nx-forwarded-for: 192.0.2.1\r\n",
            "forwarded: for=192.0.2.1;host='one.test';proto=http",
        ),
        (
            "x-api-key: anna\r\nhost: two.test\r\nx-forwarded-for: 192.0.2.1\r\nx-forwarded-host: two.test\r\n",
            "forwarded: for=192.0.2.1;host='two.test';proto=http",
        ),
    ),
    case(
        "forwarded: x",
        "",
        ("x-api-key: anna\r\nx-forwarded-proto: https\r\n", "x-forwarded-proto: https"),
        ("x-api-key: anna\r\nx-forwarded-proto: http\r\n", "x-forwarded-proto: http"),
    ),
    case(
        "host: keep, forwarded: off",
        "",
        ("x-api-key: anna\r\nhost: one.test\r\nx-forwarded-host: same\r\n", "host: one.test"),
        ("x-api-key: anna\r\nhost: two.test\r\nx-forwarded-host: same\r\n", "host: two.test"),
    ),
    case(
        "host: keep, forwarded: off",
        "",
        ("x-api-key: anna\r\nhost: Shop.test\r\n", "host: Shop.test"),
        ("x-api-key: anna\r\nhost: shop.test\r\n", "host: shop.test"),
    ),
];

/// A gateway with these cases; each call goes through the cache of the upstream, of the endpoint, or of both.
fn scene(shop: &Shop) -> Scene {
    write_keys();
    let (mut upstreams, mut endpoints) = (String::new(), String::new());
    for (number, case) in CASES.iter().enumerate() {
        let (settings, call) = (case.upstream, case.call);
        let call = if call.is_empty() { String::new() } else { format!(", {call}") };
        writeln!(upstreams, "  kept{number}: {{ url: 'http://${{SHOP}}', cache: on, {settings} }}").unwrap();
        writeln!(upstreams, "  plain{number}: {{ url: 'http://${{SHOP}}', {settings} }}").unwrap();
        for (name, upstream, cache) in [
            ("upstream", "kept", "off"),
            ("endpoint", "plain", "{ for: 1m, key: $query.turn }"),
            ("both", "kept", "{ for: 1m, key: $query.turn }"),
        ] {
            let request = format!("request: {{ to: {upstream}{number}, path: '/{number}?*'{call} }}");
            for (form, pipeline) in [("proxy", "[ CALL ]"), ("composed", "[ CALL, transform: . ]")] {
                let pipeline = pipeline.replace("CALL", &format!("{{ {request} }}"));
                writeln!(endpoints, "  GET /{name}/{form}/{number}: {{ cache: {cache}, pipeline: {pipeline} }}")
                    .unwrap();
            }
        }
    }
    Scene::new(
        &format!(
            "clients: {{ trust: [127.0.0.0/8] }}\nauthenticate: [ {{ api_key: {{ header: x-api-key, keys: keys.yaml }} }} ]\n\
             upstreams:\n{upstreams}endpoints:\n{endpoints}"
        ),
        shop,
    )
}

#[test]
fn what_is_added_for_one_client_is_seen_by_no_other() {
    let shop = mirror();
    let mut scene = scene(&shop);
    for place in ["upstream", "endpoint", "both"] {
        for form in ["proxy", "composed"] {
            for (number, case) in CASES.iter().enumerate() {
                apart(&mut scene, case, &format!("/{place}/{form}/{number}"));
            }
        }
    }
}

#[test]
fn an_endpoint_is_kept_apart_by_what_any_upstream_that_links_lead_to_adds() {
    write_keys();
    let shop = Shop::open(|asked, stream| {
        let body = match &*asked.target {
            "/list" => "{\"link\": \"/people/1\"}".to_owned(),
            _ => format!("{:?}", asked.field("x-user")),
        };
        stream.write_all(&answer(200, "content-type: application/json\r\ncache-control: max-age=60\r\n", body))
    });
    let config = "authenticate: [ { api_key: { header: x-api-key, keys: keys.yaml } } ]\n\
        upstreams:\n\
        \x20 lists: { url: 'http://${SHOP}' }\n\
        \x20 people: { url: 'http://${SHOP}/people', headers: { x-user: '{$claims.sub}' } }\n\
        endpoints:\n\
        \x20 GET /list: { cache: 1h, pipeline: [ request: lists /list, follow: { link: .link, to: people } ] }\n";
    let mut scene = Scene::new(config, &shop);
    for (key, wanted) in [(ANNA, "\"anna\""), (BERT, "\"bert\""), (ANNA, "\"anna\""), (BERT, "\"bert\"")] {
        assert_eq!(scene.get("/list", &format!("host: test\r\n{key}")).text(), wanted);
    }
    assert_eq!(shop.calls(), 4);
}

#[test]
fn an_endpoint_is_kept_apart_by_each_part_of_a_request_that_its_pipeline_reads() {
    for (cache, reads) in [
        ("{ for: 1h, vary: [accept-language] }", "$headers[\"x-a\"]"),
        ("{ for: 1h, key: '$headers[\"x-b\"]' }", "$headers[\"x-a\"]"),
        ("{ for: 1h, key: $query.q }", "$headers | .[\"x-a\"]"),
        ("{ for: 1h, key: $query.q }", "$headers | to_entries | map(select(.key == \"x-a\").value)"),
        ("{ for: 1h, key: $query.q }", "\"x-a\" as $name | $headers[$name]"),
        ("{ for: 1h, key: $query.q }", "$headers as {$host, \"x-a\": $a} | $a"),
        ("{ for: 1h, private: { by: $query.q } }", "\"\\($headers[\"x-a\"])\""),
        ("{ for: 1h, vary: [x-a] }", "$headers[\"x-a\"]"),
    ] {
        let shop = Shop::open(|_, stream| stream.write_all(&answer(200, "content-type: application/json\r\n", "1")));
        let config = format!(
            "upstreams: {{ shop: {{ url: 'http://${{SHOP}}' }} }}\n\
             endpoints: {{ GET /a: {{ cache: {cache}, pipeline: [ request: shop /a, transform: '{reads}' ] }} }}\n"
        );
        let mut scene = Scene::new(&config, &shop);
        for value in ["one", "two", "one", "two"] {
            let answer = scene.get("/a", &format!("host: test\r\nx-a: {value}\r\n"));
            assert!(answer.text().contains(value), "{cache} {reads}: {}", answer.text());
        }
        assert_eq!(shop.calls(), 2, "{cache} {reads}");
    }
}

#[test]
fn clients_that_wait_for_one_path_at_once_each_get_their_own_answer() {
    write_keys();
    let gate = Gate::default();
    let shop = Shop::open({
        let gate = gate.clone();
        move |asked, stream| {
            gate.wait();
            stream.write_all(&answer(200, "cache-control: max-age=60\r\n", asked.field("x-user")))
        }
    });
    let config = "authenticate: [ { api_key: { header: x-api-key, keys: keys.yaml } } ]\n\
        upstreams:\n\
        \x20 kept: { url: 'http://${SHOP}', forward: [x-user], headers: { x-user: '{$claims.sub}' }, cache: on }\n\
        endpoints: { GET /mine: kept /mine }\n";
    let scene = Scene::new(config, &shop);
    // Each sends the name of the other, too.
    let clients = [ANNA, BERT, ANNA, BERT].map(|key| {
        let mut client = Client::connect(scene.gateway.address).unwrap();
        ask(&mut client, "/mine", &format!("host: test\r\nx-user: anna\r\n{key}"));
        client
    });
    until("both have called", || shop.calls() == 2);
    gate.open();
    let answers = clients.map(|mut client| {
        client.head().unwrap();
        String::from_utf8(client.rest().unwrap()).unwrap()
    });
    assert_eq!(answers, ["anna", "bert", "anna", "bert"]);
    assert_eq!(shop.calls(), 2);
}

#[test]
fn a_body_is_kept_apart_by_all_its_types() {
    let shop = Shop::open(|asked, stream| {
        let types = asked.fields.iter().filter(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
        let types = types.collect::<Vec<_>>().join(" ");
        stream.write_all(&answer(200, "cache-control: max-age=60\r\n", types))
    });
    for (upstream, endpoint) in [("{ methods: [POST] }", "off"), ("off", "{ methods: [POST] }")] {
        let config = format!(
            "upstreams: {{ shop: {{ url: 'http://${{SHOP}}', forward: [content-type], cache: {upstream} }} }}\n\
             endpoints: {{ POST /a: {{ cache: {endpoint}, pipeline: [ request: shop /a ] }} }}\n"
        );
        let mut scene = Scene::new(&config, &shop);
        for types in ["text/csv", "text/html", "text/csv"] {
            let fields = format!("host: test\r\ncontent-type: {types}\r\n");
            assert_eq!(scene.send("POST /a", &fields, "x").text(), types);
        }
    }
}

#[test]
fn a_field_that_ends_at_the_gateway_leaves_no_answer_for_those_who_send_it_on() {
    for (cache, composed) in [("on", ""), ("on", ", transform: ."), ("{ methods: [GET, QUERY] }", "")] {
        let shop = Shop::open(|asked, stream| {
            let fields = "content-type: application/json\r\ncache-control: max-age=60\r\nvary: accept-language\r\n";
            stream.write_all(&answer(200, fields, format!("{:?}", asked.field("accept-language"))))
        });
        let config = format!(
            "upstreams: {{ shop: {{ url: 'http://${{SHOP}}', forward: [accept-language] }} }}\n\
             endpoints: {{ /a: {{ cache: {cache}, pipeline: [ request: shop /a{composed} ] }} }}\n"
        );
        let mut scene = Scene::new(&config, &shop);
        for method in if cache == "on" { &["GET"][..] } else { &["GET", "QUERY"] } {
            let mut said = |connection: &str| {
                let fields = format!("host: test\r\naccept-language: sv\r\n{connection}");
                scene.send(&format!("{method} /a"), &fields, "").text().to_owned()
            };
            assert_eq!(said("connection: accept-language\r\n"), "\"\"");
            assert_eq!(said("connection: keep-alive, Accept-Language\r\n"), "\"\"");
            assert_eq!(said(""), "\"sv\"");
            assert_eq!(said("connection: Accept-Language\r\n"), "\"\"");
            let calls = shop.calls();
            assert_eq!(said("connection: keep-alive, TE\r\n"), "\"sv\"");
            assert_eq!(shop.calls(), calls, "it is kept");
        }
    }
}

#[test]
fn a_token_that_is_refused_is_refused_to_its_client_alone() {
    let gate = Gate::default();
    let shop = Shop::open({
        let gate = gate.clone();
        move |asked, stream| {
            let good = asked.field("authorization") == "Bearer good";
            if !good {
                gate.wait();
            }
            let fields = "content-type: application/json\r\n";
            stream.write_all(&answer(if good { 200 } else { 401 }, fields, "1"))
        }
    });
    let config = "upstreams: { shop: { url: 'http://${SHOP}', forward: [authorization] } }\n\
        endpoints: { GET /a: { cache: 1h, pipeline: [ requests: { one: shop /a }, merge: '[$one]' ] } }\n";
    let scene = Scene::new(config, &shop);
    let begin = |token: &str| {
        let mut client = Client::connect(scene.gateway.address).unwrap();
        ask(&mut client, "/a", &format!("host: test\r\nauthorization: Bearer {token}\r\n"));
        client
    };
    let mut first = begin("bad");
    until("it was called", || shop.calls() == 1);
    let others: Vec<Client> = (0..20).map(|_| begin("good")).collect();
    gate.open();
    assert_eq!(first.head().unwrap().status, 401);
    for mut client in others {
        assert_eq!(client.head().unwrap().status, 200);
    }
}
