//! Caches of other products in front of the gateway: random endpoints, several clients, and whether one gets what is another's.

mod case;

mod servers;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

pub use case::Case;
pub use servers::{Cache, Product};

use crate::client::Client;
use crate::front::{Answer, get};
use crate::gateway::Gateway;
use crate::shop::{Shop, answer};
use crate::test_rng::TestRng;
use crate::{scratch, until};

/// So many endpoints one gateway serves.
const TOGETHER: usize = 100;

/// The keys `anna` and `bert`, with the claims of each.
const KEYS: &str = "\
- { sha256: 55579b557896d0ce1764c47fed644f9b35f58bad620674af23f356d80ed0c503, claims: { sub: anna, team: a } }\n\
- { sha256: 32987c4b7a9fb90e729425fc63e7bb81ce2cb1f80140ddeddc968aa79a34e8f8, claims: { sub: bert, team: a } }\n";

/// The figures of all requests.
#[derive(Debug, Default)]
pub struct Figures {
    pub endpoints: usize,
    pub caches: Vec<(Product, Counts)>,
    /// Answers 304 of the gateway itself.
    pub unchanged: usize,
    /// Answers that were not what their client should have got.
    pub wrong: Vec<String>,
}

/// The counts of one cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub asked: usize,
    pub hits: usize,
    /// Answers 304 for clients that had one.
    pub unchanged: usize,
    /// Endpoints whose answers everybody may keep, and how many of them came from the cache when asked again.
    pub cacheable: usize,
    pub kept: usize,
}

/// Plays so many random endpoints with each cache that is installed.
pub fn play(binary: &Path, seed: u64, endpoints: usize, products: &[Product]) -> Figures {
    let mut figures = Figures {
        caches: products.iter().map(|&product| (product, Counts::default())).collect(),
        ..Figures::default()
    };
    let mut dice = TestRng(seed);
    while figures.endpoints < endpoints {
        let count = TOGETHER.min(endpoints - figures.endpoints);
        Batch::new(binary, count, &mut dice).play(&mut dice, &mut figures);
        figures.endpoints += count;
    }
    figures
}

struct Batch {
    cases: Arc<Vec<Case>>,
    gateway: Gateway,
    _shop: Shop,
}

/// A client: the fields that it sends.
struct Person(String);

/// An answer without what tells nothing of whom it is for.
#[derive(Clone, PartialEq, Debug)]
struct Told {
    status: u16,
    body: Value,
    cookies: Vec<String>,
}

impl Told {
    /// Whether a client may have it: some caches leave cookies out of what they keep.
    fn is(&self, wanted: &Told, hit: bool) -> bool {
        let cookies = self.cookies == wanted.cookies || hit && self.cookies.is_empty();
        (self.status, &self.body) == (wanted.status, &wanted.body) && cookies
    }
}

fn told(answer: &Answer) -> Told {
    let text = String::from_utf8_lossy(&answer.body);
    let body = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()));
    let cookies = answer.head.fields.iter().filter(|(name, _)| name == "set-cookie").map(|(_, value)| value.clone());
    Told { status: answer.head.status, body, cookies: cookies.collect() }
}

/// `--strict` calls all of it good: endpoints that it refuses are thrown again.
fn configure(binary: &Path, count: usize, shop: SocketAddr, dice: &mut TestRng) -> (Vec<Case>, PathBuf) {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let file = scratch(format!("downstream_{}.yaml", FILES.fetch_add(1, Ordering::Relaxed)));
    let keys = scratch("downstream_keys.yaml");
    std::fs::write(&keys, KEYS).unwrap();
    let (keys, shop) = (keys.display().to_string(), shop.to_string());
    let mut cases: Vec<Case> = (0..count).map(|_| Case::random(dice)).collect();
    loop {
        let mut lines = vec!["listen: 127.0.0.1:0".to_owned(), "threads: 1".to_owned()];
        lines.push("clients: { trust: [127.0.0.0/8] }".to_owned());
        lines.push("upstreams:".to_owned());
        lines.push(format!("  sentinel: {{ url: 'http://{shop}/sentinel' }}"));
        let mut of_line: Vec<Option<usize>> = vec![None; lines.len()];
        let mut add = |lines: &mut Vec<String>, number: Option<usize>, line: String| {
            lines.push(line);
            of_line.push(number);
        };
        for (number, case) in cases.iter().enumerate() {
            for twin in ["kept", "plain"] {
                add(&mut lines, Some(number), case.upstream(number, twin, &shop));
            }
        }
        add(&mut lines, None, "endpoints:".to_owned());
        add(&mut lines, None, "  GET /sentinel: sentinel /".to_owned());
        for (number, case) in cases.iter().enumerate() {
            for twin in ["kept", "plain"] {
                add(&mut lines, Some(number), case.endpoint(number, twin, &keys));
            }
        }
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        let checked = Command::new(binary).args(["check", "--strict"]).arg(&file).output().unwrap();
        if checked.status.success() {
            return (cases, file);
        }
        let said = String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
        let refused: BTreeSet<usize> = said
            .lines()
            .filter_map(|line| line.split_once("--> ")?.1.rsplit(':').nth(1)?.parse::<usize>().ok())
            .filter_map(|line| of_line.get(line - 1).copied().flatten())
            .collect();
        assert!(!refused.is_empty(), "{said}");
        for number in refused {
            cases[number] = Case::random(dice);
        }
    }
}

impl Batch {
    fn new(binary: &Path, count: usize, dice: &mut TestRng) -> Self {
        // The shop knows its cases once the check calls them good.
        let known: Arc<std::sync::OnceLock<Arc<Vec<Case>>>> = Arc::default();
        let (cases, sentinels) = (known.clone(), AtomicUsize::new(0));
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let shop = Shop::open(move |asked, stream| {
            if asked.target.starts_with("/sentinel") {
                let number = sentinels.fetch_add(1, Ordering::SeqCst).to_string();
                return stream.write_all(&answer(200, "cache-control: max-age=1\r\n", number));
            }
            let mut numbers = asked.target.split('/').skip(1).map(str::parse::<usize>);
            let (Some(Ok(case)), Some(Ok(part))) = (numbers.next(), numbers.next()) else {
                return stream.write_all(&answer(500, "", &*asked.target));
            };
            stream.write_all(&cases.get().expect("the gateway runs")[case].answer(asked, part, began))
        });
        let (cases, file) = configure(binary, count, shop.address, dice);
        let cases = Arc::new(cases);
        known.set(cases.clone()).expect("it is set once");
        let mut command = Command::new(binary);
        command.arg("run").arg(&file);
        Batch { cases, gateway: Gateway::begin(command).unwrap(), _shop: shop }
    }

    fn play(&self, dice: &mut TestRng, figures: &mut Figures) {
        let caches: Vec<Option<Cache>> =
            figures.caches.iter().map(|(product, _)| Cache::start(*product, self.gateway.address)).collect();
        let mut direct = Connection::new(self.gateway.address);
        let mut fronts: Vec<Option<Connection>> =
            caches.iter().map(|cache| cache.as_ref().map(|cache| Connection::new(cache.address))).collect();
        let people: Vec<[Person; 2]> = self.cases.iter().map(|_| [(); 2].map(|()| Person::random(dice))).collect();
        let queries: Vec<usize> = self.cases.iter().map(|_| dice.below(2)).collect();
        let target = |twin: &str, number: usize| format!("/{twin}/{number}/x?q={}", queries[number]);
        // What each client got of each front, to ask with its validators.
        let mut had: Vec<Vec<Option<Answer>>> = Vec::new();
        for (number, both) in people.iter().enumerate() {
            let own = both.each_ref().map(|person| told(&direct.get(&target("plain", number), &person.0)));
            let mut answers: Vec<Option<Answer>> = Vec::new();
            for (place, front) in fronts.iter_mut().enumerate() {
                answers.push(None);
                let Some(front) = front else { continue };
                let (product, counts) = &mut figures.caches[place];
                for (again, turn) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
                    let answer = front.get(&target("kept", number), &both[turn].0);
                    let hit = product.hit(&answer);
                    counts.asked += 1;
                    counts.hits += usize::from(hit);
                    if again && turn == 0 && self.cases[number].cacheable() && people[number][0].is_nobody() {
                        counts.cacheable += 1;
                        counts.kept += usize::from(hit);
                    }
                    if !told(&answer).is(&own[turn], hit) {
                        let who = (&people[number], turn);
                        figures.wrong.push(self.report(product.name(), "another's", number, who, &answer, &own[turn]));
                    }
                    if turn == 0 {
                        answers[place] = Some(answer);
                    }
                }
            }
            answers.push(Some(direct.get(&target("kept", number), &people[number][0].0)));
            had.push(answers);
        }
        // What does not change may be answered with 304.
        for case in self.cases.iter() {
            if !dice.rare(4) {
                case.change(dice);
            }
        }
        let news: Vec<[Told; 2]> = (0..self.cases.len())
            .map(|number| {
                people[number].each_ref().map(|person| told(&direct.get(&target("plain", number), &person.0)))
            })
            .collect();
        // The gateway itself says 304 only of what has not changed.
        for (number, case) in self.cases.iter().enumerate() {
            if !case.passes() {
                continue;
            }
            let old = had[number].last().and_then(Option::as_ref).expect("the gateway's own");
            let Some(conditions) = conditions(old, dice) else { continue };
            let answer = direct.get(&target("kept", number), &format!("{}{conditions}", people[number][0].0));
            if answer.head.status == 304 {
                figures.unchanged += 1;
                if told(old) != news[number][0] {
                    let report = self.report(
                        "the gateway",
                        "a stale 304",
                        number,
                        (&people[number], 0),
                        &answer,
                        &news[number][0],
                    );
                    figures.wrong.push(format!("{report}\n{conditions}"));
                }
            }
        }
        fronts.iter_mut().flatten().for_each(expire);
        for number in 0..self.cases.len() {
            for (place, front) in fronts.iter_mut().enumerate() {
                let Some(front) = front else { continue };
                let (product, name) = (figures.caches[place].0, figures.caches[place].0.name());
                let old = had[number][place].as_ref();
                let asked = [(0, old.and_then(|old| conditions(old, dice))), (1, None), (0, None)];
                for (turn, conditions) in asked {
                    let condition = conditions.clone().unwrap_or_default();
                    let answer = front.get(&target("kept", number), &format!("{}{condition}", people[number][turn].0));
                    let counts = &mut figures.caches[place].1;
                    let hit = product.hit(&answer);
                    counts.asked += 1;
                    counts.hits += usize::from(hit);
                    let mut got = told(&answer);
                    if answer.head.status == 304 {
                        counts.unchanged += 1;
                        got = told(old.expect("it was asked with its validators"));
                    }
                    let mut wanted = news[number][turn].clone();
                    self.cases[number].normalize(&mut got.body);
                    self.cases[number].normalize(&mut wanted.body);
                    if answer.head.status == 304 {
                        // It has no cookies of its own.
                        got.cookies.clone_from(&wanted.cookies);
                    }
                    if !got.is(&wanted, hit) {
                        let kind = if answer.head.status == 304 { "a stale 304" } else { "stale or another's" };
                        let report = self.report(name, kind, number, (&people[number], turn), &answer, &wanted);
                        figures.wrong.push(format!("{report}\n{condition}"));
                    }
                }
            }
        }
        for front in fronts.iter().flatten() {
            figures.wrong.extend(front.broken.iter().cloned());
        }
    }

    fn report(
        &self,
        at: &str,
        kind: &str,
        number: usize,
        (people, turn): (&[Person; 2], usize),
        got: &Answer,
        wanted: &Told,
    ) -> String {
        let mut text = format!("{at}: {kind}: client {turn} of\n");
        for person in people {
            writeln!(text, "  {:?}", person.0).unwrap();
        }
        let case = &self.cases[number];
        let body = String::from_utf8_lossy(&got.body);
        write!(
            text,
            "got {:?} {body}\nnot {wanted:?}\n{}\n{}\n{case:?}",
            got.head,
            case.upstream(number, "kept", "SHOP"),
            case.endpoint(number, "kept", "KEYS")
        )
        .unwrap();
        text
    }
}

/// The validators of an answer, as a client sends them; nothing if it has none.
fn conditions(answer: &Answer, dice: &mut TestRng) -> Option<String> {
    let (tag, modified) = (answer.field("etag"), answer.field("last-modified"));
    let (mut by_tag, mut by_time) = (!tag.is_empty(), !modified.is_empty());
    if by_tag && by_time {
        by_tag = dice.rare(2);
        by_time = !by_tag || dice.rare(2);
    }
    let mut text = String::new();
    if by_tag {
        write!(text, "if-none-match: {tag}\r\n").unwrap();
    }
    if by_time {
        write!(text, "if-modified-since: {modified}\r\n").unwrap();
    }
    (!text.is_empty()).then_some(text)
}

/// Waits until everything that was stored before, and lives for a second, is too old.
fn expire(front: &mut Connection) {
    let fields = "host: shop.test\r\n";
    let first = front.get("/sentinel", fields).body;
    until("an answer is too old", || front.get("/sentinel", fields).body != first);
}

/// A kept connection, opened again where its server closes it.
struct Connection {
    address: SocketAddr,
    client: Client,
    broken: Vec<String>,
}

impl Connection {
    fn new(address: SocketAddr) -> Self {
        Connection { address, client: Client::connect(address).unwrap(), broken: Vec::new() }
    }

    fn get(&mut self, target: &str, fields: &str) -> Answer {
        let request = format!("GET {target} HTTP/1.1\r\n{fields}\r\n");
        let attempt = |client: &mut Client| {
            client.ask("GET", request.as_bytes())?;
            let head = client.head()?;
            Ok::<_, String>(Answer { head, body: client.rest()? })
        };
        match attempt(&mut self.client) {
            Ok(answer) => {
                if let Some(twice) = answer.head.twice() {
                    self.broken.push(format!("{}: {request:?}: {twice} twice in {:?}", self.address, answer.head));
                }
                if answer.field("connection").eq_ignore_ascii_case("close") {
                    self.client = Client::connect(self.address).unwrap();
                }
                answer
            }
            Err(error) => {
                self.broken.push(format!("{}: {request:?}: {error}", self.address));
                self.client = Client::connect(self.address).unwrap();
                get(&mut self.client, target, fields)
            }
        }
    }
}

impl Person {
    /// Values are few, so that one client sends what is made for another.
    fn random(dice: &mut TestRng) -> Self {
        let mut fields = "host: shop.test\r\n".to_owned();
        write!(fields, "x-forwarded-for: 192.0.2.{}\r\n", 1 + dice.below(2)).unwrap();
        let values: [(&str, &[&str]); 7] = [
            ("x-api-key", &["anna", "anna", "bert", "bert", "nobody"]),
            ("x-a", &["one", "two"]),
            ("x-q", &["one", "two"]),
            ("accept-language", &["en", "de"]),
            ("cookie", &["s=anna", "s=bert"]),
            ("authorization", &["Bearer anna", "Bearer bert"]),
            ("x-user", &["anna", "bert"]),
        ];
        for (name, values) in values {
            if dice.below(5) < if name.len() > 5 && name != "x-api-key" { 2 } else { 4 } {
                write!(fields, "{name}: {}\r\n", dice.of(values)).unwrap();
            }
        }
        Person(fields)
    }

    /// Whether it sends nothing for which some caches keep no answer.
    fn is_nobody(&self) -> bool {
        !self.0.contains("\r\ncookie:") && !self.0.contains("\r\nauthorization:")
    }
}
