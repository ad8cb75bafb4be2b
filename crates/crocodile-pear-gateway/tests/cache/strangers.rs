//! No answer that was made for one client reaches another: random configurations of caches, fields, claims, cookies, hosts, choices,
//! mirrors, services that decide and links that are followed, and random clients. Each answer is compared with the one that the same client gets of the same pipeline without a cache.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cache::keys::write_keys;
use crate::stage::client::Client;
use crate::stage::front::{Answer, Scene, ask};
use crate::stage::shop::{Asked, Shop, answer};
use crate::stage::test_rng::TestRng;

/// `CONFIGURATIONS=10000 cargo test --test gateway cache::strangers` tries more.
fn configurations() -> usize {
    std::env::var("CONFIGURATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(100)
}

/// How many configurations one gateway serves side by side.
const TOGETHER: usize = 100;

/// Pairs of clients for each configuration.
const PAIRS: usize = 3;

fn some<'a>(dice: &mut TestRng, of: &[&'a str], most: usize) -> BTreeSet<&'a str> {
    (0..dice.below(most + 1)).map(|_| dice.of(of)).collect()
}

/// Fields that clients send, and configurations forward or write.
const NAMES: [&str; 11] = [
    "x-user",
    "x-real-ip",
    "x-request-id",
    "x-a",
    "accept-language",
    "cookie",
    "authorization",
    "user-agent",
    "x-forwarded-for",
    "x-forwarded-host",
    "forwarded",
];

const WRITTEN: [&str; 16] = [
    "fixed",
    "{$claims.sub}",
    "{$claims.team}",
    "u-{$claims.sub // \"\"}",
    "{$client.address}",
    "{$headers[\"x-a\"]}",
    "{$headers[\"x-request-id\"]}",
    "{$headers.cookie}",
    "{$headers.host}",
    "{if $claims.admin then \"anna\" else null end}",
    "{$headers | .[\"x-real-ip\"]}",
    "{$client | .address}",
    "{[$headers[\"x-a\", \"x-user\"] // \"none\"] | join(\"-\")}",
    "{$cookies.s}",
    "{$claims[\"x-role\"]}",
    "{$path.path}-{$query.q}",
];

/// The conditions for a choice between two upstreams.
const CHOICES: [&str; 7] = [
    "$headers[\"x-a\"] == \"a\"",
    "$claims.admin // false",
    "$claims.sub == \"anna\"",
    "$claims[\"x-role\"] == \"role-anna-\"",
    "$cookies.s == \"anna\"",
    "$client.address == \"192.0.2.1\"",
    "$headers.host == \"one.test\"",
];

/// How calls are made. `CALL` is one to the upstream of the case, `LINKS` one for a document with a link to it, `TO` is its name and
/// `FIELDS` are the fields of a call.
const FORMS: [&str; 9] = [
    "[ { request: CALL } ]",
    "[ { request: CALL } ]",
    "[ { request: CALL }, transform: '[.]' ]",
    "[ { requests: { a: CALL, b: LINKS } }, merge: '[$a]' ]",
    "[ { requests: { b: LINKS, a: CALL } }, merge: '$a' ]",
    "[ { request: LINKS }, follow: { link: .link } ]",
    "[ { request: LINKS }, follow: { link: .link, to: TO } ]",
    "[ { request: LINKS }, follow: { link: .link, to: TO, FIELDS } ]",
    "[ { request: LINKS }, follow: { link: .link, to: TO, as: x }, transform: '[.x]' ]",
];

/// The `cache-control` of a shop's answers.
const CONTROL: [&str; 9] = [
    "",
    "",
    "max-age=60",
    "max-age=60, must-revalidate",
    "s-maxage=60",
    "no-store",
    "private, max-age=60",
    "no-cache, must-revalidate",
    "public, max-age=60",
];

/// A configuration, and how the shop answers its calls.
struct Case {
    upstream: String,
    cached: String,
    call: String,
    endpoint: String,
    form: &'static str,
    /// The condition of the choice that the upstream is, if it is one.
    choice: Option<&'static str>,
    mirrored: bool,
    /// The fields by which a service decides who the client is; none where its key says that.
    decided_by: Option<&'static [&'static str]>,
    /// The fields that are written: the shop takes them for the gateway's.
    written: BTreeSet<&'static str>,
    /// The client's own fields that it gets.
    forwarded: BTreeSet<&'static str>,
    control: &'static str,
    /// Whether its answers depend on the client's address, and say so.
    by_address: bool,
    sets_cookie: bool,
}

fn headers(names: &BTreeSet<&'static str>, dice: &mut TestRng) -> String {
    let fields = names.iter().map(|name| format!("{name}: '{}'", dice.of(&WRITTEN).replace('\'', "''")));
    format!("headers: {{ {} }}", fields.collect::<Vec<_>>().join(", "))
}

/// A cache that a check calls good, whatever a pipeline reads.
fn cache(dice: &mut TestRng) -> String {
    let time = dice.of(&["for: 1h", "force: 1h", "for: 1h, stale: 1h", "for: 1h, negative: 1h"]);
    let key = dice.of(&["$query.q", "$claims.team", "'$query.q, $claims.admin'", "'$headers[\"x-a\"]'"]);
    let private = dice.of(&[
        "",
        "",
        "",
        ", private: { by: $claims.sub }",
        ", private: { by: '$claims.sub, $claims.team' }",
        ", private: { by: '$claims.team, $claims.sub' }",
        ", private: { by: '[$claims.sub, $headers[\"x-user\"]]' }",
    ]);
    let more = dice.of(&["", "", ", query: sorted", ", vary: [x-a]", ", vary: [accept-language]"]);
    format!("{{ {time}, key: {key}{private}{more} }}")
}

fn case(dice: &mut TestRng) -> Case {
    let all = dice.rare(4);
    let mut forwarded = if all { NAMES.into_iter().collect() } else { some(dice, &NAMES, 4) };
    let (of_upstream, of_call) = (some(dice, &NAMES, 2), some(dice, &NAMES, 2));
    let names: Vec<&str> = forwarded.iter().copied().collect();
    let mut upstream = if all { "forward: all".to_owned() } else { format!("forward: [{}]", names.join(", ")) };
    let facts = dice.of(&["", "", "x", "rfc7239", "off"]);
    if !facts.is_empty() {
        write!(upstream, ", forwarded: {facts}").unwrap();
    }
    if all || !["", "off"].contains(&facts) {
        // The gateway's own, or of nobody.
        forwarded.retain(|name| !["x-forwarded-for", "x-forwarded-host", "forwarded"].contains(name));
        forwarded.retain(|name| !all || *name != "x-real-ip");
    }
    if dice.rare(3) {
        upstream.push_str(", host: keep");
    }
    let upstream = format!("{upstream}, {}", headers(&of_upstream, dice));
    let place = dice.below(3);
    let (cached, endpoint) = match place {
        0 => (dice.of(&["on", "1h", "{ force: 1h }"]).to_owned(), "off".to_owned()),
        1 => ("off".to_owned(), cache(dice)),
        _ => (cache(dice), cache(dice)),
    };
    let cached = if place == 0 && dice.rare(2) { cache(dice) } else { cached };
    let form = dice.of(&FORMS);
    let calls = form.contains("CALL") || form.contains("FIELDS");
    let written: BTreeSet<&str> = of_upstream.iter().chain(of_call.iter().filter(|_| calls)).copied().collect();
    forwarded.retain(|name| !written.contains(name));
    Case {
        upstream,
        cached,
        call: headers(&of_call, dice),
        endpoint,
        form,
        choice: (dice.rare(3)).then(|| dice.of(&CHOICES)),
        mirrored: dice.rare(4),
        decided_by: match dice.below(6) {
            0 => Some(&["x-user"]),
            1 => Some(&["x-user", "cookie"]),
            _ => None,
        },
        written,
        forwarded,
        control: dice.of(&CONTROL),
        by_address: dice.rare(4),
        sets_cookie: dice.rare(6),
    }
}

impl Case {
    /// Whether a cache says who is the same client.
    fn is_private(&self) -> bool {
        self.cached.contains("private") || self.endpoint.contains("private")
    }

    /// The answer of an honest shop: what it takes from fields of the client that are forwarded it says in `vary`, but for
    /// credentials whose answers it does not allow to share.
    fn answer(&self, asked: &Asked) -> Vec<u8> {
        let mut vary: BTreeSet<&str> = self.forwarded.clone();
        let lives = self.control.contains("max-age") || self.control.contains("s-maxage");
        let allows = self.control.contains("public") || lives && self.control != "max-age=60";
        if !allows {
            vary.remove("authorization");
        }
        if !lives {
            vary.remove("cookie");
        }
        let address = ["x-forwarded-for", "forwarded"];
        if self.by_address {
            vary.extend(address);
        }
        // The same place, with a cache and without.
        let mut seen: Vec<String> = vec![asked.target.replacen("/kept", "", 1).replacen("/plain", "", 1)];
        for (name, value) in &asked.fields {
            let ours =
                self.written.contains(name.as_str()) || self.forwarded.contains(name.as_str()) || self.by_address;
            let value = if address.contains(&name.as_str()) && !ours { placed(value) } else { value.clone() };
            if !["connection", "via", "accept-encoding", "if-none-match", "if-modified-since", "x-api-key"]
                .contains(&name.as_str())
            {
                seen.push(format!("{name}: {}", value.replace('"', "'")));
            }
        }
        seen.sort();
        let own = seen.join(" | ");
        let mut fields =
            format!("content-type: application/json\r\nvary: {}\r\n", vary.into_iter().collect::<Vec<_>>().join(", "));
        if !self.control.is_empty() {
            write!(fields, "cache-control: {}\r\n", self.control).unwrap();
        }
        if self.sets_cookie {
            write!(fields, "set-cookie: seen={}\r\n", own.len()).unwrap();
        }
        answer(200, &fields, format!("{own:?}"))
    }
}

/// The parts of `forwarded` besides the client's address.
fn placed(value: &str) -> String {
    value
        .split(';')
        .filter(|part| !part.trim().starts_with("for="))
        .filter(|part| part.contains('='))
        .collect::<Vec<_>>()
        .join(";")
}

/// `/links/REST` is a document that links to `/REST`, the same for all; `/auth` says who somebody is; `/mirror` takes copies. Everything
/// else is for whom it is.
fn shop(cases: Arc<Vec<Case>>) -> Shop {
    Shop::open(move |asked, stream| {
        if let Some(rest) = asked.target.strip_prefix("/links") {
            let fields = "content-type: application/json\r\ncache-control: public, max-age=60\r\n";
            return stream.write_all(&answer(200, fields, format!("{{\"link\": {rest:?}}}")));
        }
        if asked.target.starts_with("/auth") {
            let role = format!("x-role: role-{}-{}\r\n", asked.field("x-user"), asked.field("cookie"));
            return stream.write_all(&answer(200, &role, ""));
        }
        if asked.target.starts_with("/mirror") {
            return stream.write_all(&answer(200, "cache-control: public, max-age=60\r\n", "\"a copy\""));
        }
        let number: usize = asked.target[1..].split('/').next().and_then(|number| number.parse().ok()).unwrap();
        stream.write_all(&cases[number].answer(asked))
    })
}

impl Case {
    /// Its upstreams and its endpoint, with these settings of caches.
    fn write(&self, number: usize, (name, cached, kept): (&str, &str, &str)) -> (String, String) {
        let Case { upstream, call, .. } = self;
        // Each has its origin and its path, so that links lead to it.
        let url = format!("http://${{SHOP}}/{number}/{name}");
        let mirror = if self.mirrored { ", mirror: copies" } else { "" };
        let mut upstreams = match self.choice {
            None => format!("  {name}{number}: {{ url: '{url}', {upstream}, cache: {cached}{mirror} }}\n"),
            Some(when) => format!(
                "  {name}{number}a: {{ url: '{url}/a', {upstream}, cache: {cached}{mirror} }}\n  \
                   {name}{number}b: {{ url: '{url}', {upstream}, cache: {cached} }}\n  \
                   {name}{number}: {{ choose: [ {{ when: '{when}', to: {name}{number}a }}, {{ to: {name}{number}b }} ]{mirror} }}\n"
            ),
        };
        writeln!(upstreams, "  links-{name}{number}: {{ url: 'http://${{SHOP}}/links/{number}/{name}' }}").unwrap();
        // A link is not led by a choice: it names its server.
        let to = format!("{name}{number}{}", if self.choice.is_some() { "b" } else { "" });
        let pipeline = self
            .form
            .replace("CALL", &format!("{{ to: {name}{number}, path: '/{{*path}}?*', {call} }}"))
            .replace("LINKS", &format!("{{ to: links-{name}{number}, path: '/{{*path}}?*' }}"))
            .replace("TO", &to)
            .replace("FIELDS", call);
        let decided = self.decided_by.map(|fields| {
            let (list, by) = (fields.join(", "), fields.iter().map(|name| format!("$headers[\"{name}\"]")));
            let again = if name == "kept" {
                format!(", cache: {{ for: 1h, by: '[{}]' }}", by.collect::<Vec<_>>().join(", "))
            } else {
                String::new()
            };
            format!("authenticate: [ {{ forward: {{ to: deciding, path: /who, headers: [{list}], keep: [x-role]{again} }} }} ], ")
        });
        let decided = decided.unwrap_or_default();
        (upstreams, format!("  GET /{name}/{number}/{{*path}}: {{ {decided}cache: {kept}, pipeline: {pipeline} }}\n"))
    }
}

fn scene(cases: &Arc<Vec<Case>>) -> (Scene, Shop) {
    write_keys();
    let shop = shop(cases.clone());
    let mut upstreams = "  deciding: http://${SHOP}/auth\n  copies: http://${SHOP}/mirror\n".to_owned();
    let mut endpoints = String::new();
    for (number, case) in cases.iter().enumerate() {
        for caches in [("kept", &*case.cached, &*case.endpoint), ("plain", "off", "off")] {
            let (its, endpoint) = case.write(number, caches);
            upstreams.push_str(&its);
            endpoints.push_str(&endpoint);
        }
    }
    let config = format!(
        "clients: {{ trust: [127.0.0.0/8] }}\nauthenticate: [ {{ api_key: {{ header: x-api-key, keys: keys.yaml }} }} ]\n\
         upstreams:\n{upstreams}endpoints:\n{endpoints}"
    );
    (Scene::new(&config, &shop), shop)
}

/// The fields of a random client. Values are few, so that one client sends what is made for another.
fn client(dice: &mut TestRng) -> String {
    let mut fields = format!("host: {}\r\n", dice.of(&["one.test", "two.test", "One.test", "one.test:80"]));
    write!(fields, "x-api-key: {}\r\n", dice.of(&["anna", "bert", "team", "none"])).unwrap();
    for name in some(dice, &NAMES, 5) {
        let value = match name {
            "x-forwarded-for" => dice.of(&["192.0.2.1", "192.0.2.2", "192.0.2.1, 192.0.2.2"]),
            "x-forwarded-host" => dice.of(&["one.test", "two.test"]),
            "forwarded" => dice.of(&["for=192.0.2.1", "for=192.0.2.2;host=two.test", "for=192.0.2.1;proto=https"]),
            "cookie" => dice.of(&["s=anna", "s=bert", "a"]),
            "authorization" => dice.of(&["Bearer anna", "Bearer bert", "anna"]),
            _ => dice.of(&[
                "anna",
                "bert",
                "a",
                "u-anna",
                "u-",
                "fixed",
                "192.0.2.1",
                "192.0.2.2",
                "127.0.0.1",
                "one.test",
                "a-anna",
            ]),
        };
        write!(fields, "{name}: {value}\r\n").unwrap();
    }
    // A field that ends at the gateway.
    if dice.rare(8) {
        write!(fields, "connection: {}\r\n", dice.of(&NAMES)).unwrap();
    }
    fields
}

/// The parts of an answer that tell for whom it was made.
fn told(answer: &Answer) -> (u16, String, String) {
    (answer.head.status, answer.text().to_owned(), answer.field("set-cookie").to_owned())
}

impl Case {
    /// Whether a client may have an answer: its own, or one that was made without any credentials of a client. One who is
    /// `known` by its key may have what it got itself with other credentials.
    fn is_for(&self, got: &(u16, String, String), own: &(u16, String, String), known: bool) -> bool {
        let sent = |name: &str| !self.written.contains(name) && ["cookie", "authorization"].contains(&name);
        let credential = |part: &str| part.split_once(": ").is_some_and(|(name, _)| sent(name));
        let split = |text: &str| -> [Vec<String>; 2] {
            let parts = text.trim_matches(['[', ']', '"']).split(" | ").map(str::to_owned);
            let (credentials, others) = parts.partition(|part| credential(part));
            [credentials, others]
        };
        let ([credentials, got_others], [_, own_others]) = (split(&got.1), split(&own.1));
        let same = got.0 == own.0 && got_others == own_others;
        got == own || same && (known && self.is_private() || credentials.is_empty() && got.2.is_empty())
    }
}

#[test]
fn no_answer_made_for_one_client_reaches_another() {
    let (most, hits) = (configurations(), AtomicUsize::new(0));
    let mut dice = TestRng(0x9e37_79b9_7f4a_7c15);
    let mut asked = 0;
    for _ in 0..most.div_ceil(TOGETHER) {
        let cases: Arc<Vec<Case>> = Arc::new((0..TOGETHER).map(|_| case(&mut dice)).collect());
        let (mut scene, _shop) = scene(&cases);
        let mut second = Client::connect(scene.gateway.address).unwrap();
        for number in 0..TOGETHER {
            for pair in 0..PAIRS {
                let clients = [client(&mut dice), client(&mut dice)];
                let path = format!("{number}/{pair}?q={}&b=1", dice.below(2));
                let alone = clients.each_ref().map(|fields| told(&scene.get(&format!("/plain/{path}"), fields)));
                let target = format!("/kept/{path}");
                let keys = clients.each_ref().map(|fields| fields.lines().nth(1).unwrap_or_default());
                let known = keys[0] == keys[1] && cases[number].decided_by.is_none();
                let check = |answer: &Answer, who: usize, turn: &str| {
                    hits.fetch_add(usize::from(answer.field("cache-status").contains("; hit")), Ordering::Relaxed);
                    let case = &cases[number];
                    assert!(
                        case.is_for(&told(answer), &alone[who], known),
                        "client {who} {turn} got {:?}\ninstead of {:?}\nof {clients:?}\nupstream: {} cache: {}\ncall: {}\nendpoint: {} {}\n\
                         shop: {:?} choice: {:?} decided by: {:?}",
                        told(answer),
                        alone[who],
                        case.upstream,
                        case.cached,
                        case.call,
                        case.endpoint,
                        case.form,
                        (case.control, case.by_address, case.sets_cookie),
                        case.choice,
                        case.decided_by,
                    );
                };
                // Both at once wait for one call, if they may have one answer.
                if dice.rare(2) {
                    ask(&mut second, &target, &clients[1]);
                    let first = scene.get(&target, &clients[0]);
                    let head = second.head().unwrap();
                    check(&first, 0, "at once");
                    check(&Answer { head, body: second.rest().unwrap() }, 1, "at once");
                }
                for who in [0, 1, 0, 1] {
                    check(&scene.get(&target, &clients[who]), who, "in turn");
                    asked += 1;
                }
            }
        }
    }
    // A cache that keeps nothing shows nothing.
    let hits = hits.into_inner();
    assert!(hits * 6 > asked, "only {hits} of {asked} answers came from a cache");
    println!("{hits} of {asked} answers in turn came from a cache");
}
