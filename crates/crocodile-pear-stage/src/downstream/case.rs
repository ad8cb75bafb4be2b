//! A random endpoint, and the shop behind it, which says honestly what its answers depend on.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use crate::shop::{Asked, answer};
use crate::test_rng::TestRng;

/// Fields that clients send, and configurations forward or write.
const NAMES: [&str; 6] = ["x-a", "x-q", "accept-language", "cookie", "authorization", "x-user"];

/// Values that configurations write into calls: the first ones have nothing of a client.
const SHARED: [&str; 4] = ["fixed", "{$query.q}", "{$headers[\"x-a\"]}", "{$headers[\"x-q\"] // \"-\"}"];
const PERSONAL: [&str; 3] = ["{$client.address}", "{$cookies.s}", "{$headers.authorization // \"-\"}"];
const CLAIMED: [&str; 2] = ["{$claims.sub}", "{$claims.team // \"\"}"];

/// How the calls become one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Call,
    Transform,
    Merge,
    MergeThree,
    Concatenate,
    ForEach,
    ForEachConcatenate,
    Follow,
    Chain,
}

const FORMS: [Form; 9] = [
    Form::Call,
    Form::Transform,
    Form::Merge,
    Form::MergeThree,
    Form::Concatenate,
    Form::ForEach,
    Form::ForEachConcatenate,
    Form::Follow,
    Form::Chain,
];

impl Form {
    /// Whether its head leaves before its parts are known.
    fn streams(self) -> bool {
        matches!(self, Form::Concatenate | Form::ForEachConcatenate)
    }
}

/// How long an answer lives by its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Longer than a test.
    Long,
    /// A second, or no time at all.
    Short,
}

/// The shop's statements about one of its documents.
#[derive(Debug)]
struct Part {
    control: &'static str,
    life: Life,
    etag: bool,
    modified: bool,
    sets_cookie: bool,
    version: AtomicUsize,
}

/// An endpoint.
#[derive(Debug)]
pub struct Case {
    form: Form,
    parts: Vec<Part>,
    upstream: String,
    /// Whether the calls' answers are cached, and the endpoint's.
    cached: String,
    endpoint: String,
    call: String,
    /// The text that an expression adds to the answer.
    adds: String,
    authenticated: bool,
    written: BTreeSet<&'static str>,
    forwarded: BTreeSet<&'static str>,
    /// Fields that change its answers although its `vary` does not name them.
    unnamed: BTreeSet<&'static str>,
    friendly: bool,
}

const LONG: [&str; 4] =
    ["max-age=3600", "public, max-age=3600", "s-maxage=3600, max-age=1", "max-age=3600, must-revalidate"];
const BRIEF: [&str; 3] = ["max-age=1", "public, max-age=1", "max-age=1, must-revalidate"];
const NONE: [&str; 6] = ["", "", "no-store", "no-cache", "private, max-age=1", "private, no-cache"];

fn part(dice: &mut TestRng, friendly: bool, life: Life) -> Part {
    let life = if friendly || dice.below(2) == 0 { life } else { dice.of(&[Life::Long, Life::Short]) };
    let control = match life {
        Life::Long if !friendly && dice.rare(6) => "private, max-age=3600",
        Life::Long => dice.of(&LONG),
        Life::Short if friendly || dice.rare(2) => dice.of(&BRIEF),
        Life::Short => dice.of(&NONE),
    };
    Part {
        control,
        life,
        etag: dice.rare(2),
        modified: dice.rare(2),
        sets_cookie: !friendly && dice.rare(12),
        version: AtomicUsize::new(1),
    }
}

/// So many names at most.
fn some(dice: &mut TestRng, of: &[&'static str], most: usize) -> BTreeSet<&'static str> {
    (0..dice.below(most + 1)).map(|_| dice.of(of)).collect()
}

fn headers(names: &BTreeSet<&'static str>, values: &[&'static str], dice: &mut TestRng) -> String {
    let fields = names.iter().map(|name| format!("{name}: '{}'", dice.of(values).replace('\'', "''")));
    format!("headers: {{ {} }}", fields.collect::<Vec<_>>().join(", "))
}

impl Case {
    pub fn random(dice: &mut TestRng) -> Self {
        // Many must be cacheable: a front that keeps nothing shows nothing.
        let friendly = dice.below(5) < 3;
        let authenticated = !friendly && dice.rare(3);
        let form = dice.of(&FORMS);
        let life = dice.of(&[Life::Long, Life::Long, Life::Short]);
        let parts: Vec<Part> = (0..3).map(|_| part(dice, friendly, life)).collect();
        let shared = ["x-a", "x-q", "accept-language"];
        let all = !friendly && dice.rare(4);
        let mut forwarded = match (friendly, all) {
            (true, _) => some(dice, &shared, 2),
            (_, true) => NAMES.into_iter().collect(),
            _ => some(dice, &NAMES, 3),
        };
        let mut values = SHARED.to_vec();
        if !friendly {
            values.extend(PERSONAL);
        }
        if authenticated {
            values.extend(CLAIMED);
        }
        let (of_upstream, of_call) = (some(dice, &NAMES[..3], 1), some(dice, &["x-user", "x-made"], 1));
        let listed: Vec<&str> = forwarded.iter().copied().collect();
        let forward = if all { "all".to_owned() } else { format!("[{}]", listed.join(", ")) };
        let upstream = format!("forward: {forward}, {}", headers(&of_upstream, &values, dice));
        let call = headers(&of_call, &values, dice);
        let written: BTreeSet<&str> = of_upstream.union(&of_call).copied().collect();
        // A followed call does not have the fields that the first call sets, so the client's own may be sent.
        forwarded.retain(|name| !of_upstream.contains(name) && (form == Form::Follow || !of_call.contains(name)));
        let cached = if dice.rare(3) { dice.of(&["on", "1s"]) } else { "off" }.to_owned();
        let endpoint = endpoint(dice, form, friendly, authenticated, &parts);
        let mut adds: Vec<&str> = vec!["null", "null", "$query.q", "$headers[\"x-q\"]"];
        if !friendly {
            adds.extend(["$cookies.s", "$client.address"]);
        }
        if authenticated {
            adds.push("$claims.sub");
        }
        // Where answers are made of several, or no cache is asked, the rule of the answer has to do without the shop's word.
        let careless = !friendly && cached == "off" && form != Form::Call;
        let unnamed =
            if careless { some(dice, &["cookie", "authorization", "x-a", "x-q"], 2) } else { BTreeSet::new() };
        let adds = dice.of(&adds).to_owned();
        Case {
            form,
            parts,
            upstream,
            cached,
            endpoint,
            call,
            adds,
            authenticated,
            written,
            forwarded,
            unnamed,
            friendly,
        }
    }

    /// The lines of its upstreams. `twin` is `kept`, or `plain` without a cache.
    pub fn upstream(&self, number: usize, twin: &str, shop: &str) -> String {
        let cached = if twin == "kept" { &*self.cached } else { "off" };
        format!("  {twin}{number}: {{ url: 'http://{shop}/{number}', {}, cache: {cached} }}", self.upstream)
    }

    pub fn endpoint(&self, number: usize, twin: &str, keys: &str) -> String {
        let cache = if twin == "kept" { &*self.endpoint } else { "off" };
        let authenticate = match self.authenticated {
            true => format!("[ {{ api_key: {{ header: x-api-key, keys: '{keys}' }} }} ]"),
            false => "off".to_owned(),
        };
        let call = &self.call;
        let adds = self.adds.replace('\'', "''");
        let to = format!("to: {twin}{number}");
        let one = |part: usize| format!("{{ {to}, path: '/{part}/{{*path}}?*', {call} }}");
        let every = format!("request: {{ {to}, path: '/{{.}}/{{*path}}?*', for_each: '0, 1', {call} }}");
        let (first, second, third) = (one(0), one(1), one(2));
        let pipeline = match self.form {
            Form::Call => format!("request: {first}"),
            Form::Transform => format!("request: {first}, transform: '{{t: ., me: {adds}}}'"),
            Form::Merge => format!("requests: {{ a: {first}, b: {second} }}, merge: '{{a: $a, b: $b, me: {adds}}}'"),
            Form::MergeThree => format!(
                "requests: {{ a: {first}, b: {second}, c: {third} }}, merge: '{{a: $a, b: [$b, $c.seen], c: $c, me: {adds}}}'"
            ),
            Form::Concatenate => {
                format!("requests: {{ a: {first}, b: {second} }}, concatenate: {{ body_only: true, order: request }}")
            }
            Form::ForEach => format!("{every}, merge: ."),
            Form::ForEachConcatenate => format!("{every}, concatenate: {{ body_only: true, order: request }}"),
            Form::Follow => format!("request: {first}, follow: {{ link: .link, as: more }}"),
            Form::Chain => format!("request: {first}, request: {{ {to}, path: '/{{.next}}/{{*path}}?*', {call} }}"),
        };
        format!(
            "  GET /{twin}/{number}/{{*path}}: {{ authenticate: {authenticate}, cache: {cache}, pipeline: [ {pipeline} ] }}"
        )
    }

    fn used(&self) -> &[Part] {
        let count = match self.form {
            Form::Call | Form::Transform => 1,
            Form::MergeThree => 3,
            _ => 2,
        };
        &self.parts[..count]
    }

    /// Whether a cache in front can keep its answers: for everybody, or for those who send the same fields.
    pub fn cacheable(&self) -> bool {
        let told = !self.form.streams() || self.endpoint.contains("public");
        self.friendly && told && self.used().iter().all(|part| part.life == Life::Long)
    }

    /// Whether the gateway itself keeps nothing of it.
    pub fn passes(&self) -> bool {
        self.cached == "off" && self.endpoint == "off"
    }

    /// Keeps the parts that may not be older than the newest one: all of it, or nothing of it, or the parts that live shortly.
    pub fn normalize(&self, value: &mut Value) {
        let used = self.used();
        let all_long = used.iter().all(|part| part.life == Life::Long);
        let kept = self.cached != "off";
        let may_be_old =
            |number: usize| all_long || kept && self.parts.get(number).is_some_and(|part| part.life == Life::Long);
        forget(value, &may_be_old);
    }

    /// Some of its documents change.
    pub fn change(&self, dice: &mut TestRng) {
        let used = self.used();
        let first = dice.below(used.len());
        for (number, part) in used.iter().enumerate() {
            if number == first || dice.rare(3) {
                part.version.store(2, Ordering::SeqCst);
            }
        }
    }

    /// The answer of the shop. `began` is when the test began, in seconds.
    pub fn answer(&self, asked: &Asked, part: usize, began: u64) -> Vec<u8> {
        let number = part;
        let part = &self.parts[part];
        let version = part.version.load(Ordering::SeqCst);
        let mut seen: Vec<String> = Vec::new();
        for (name, value) in &asked.fields {
            if self.written.contains(name.as_str()) || self.forwarded.contains(name.as_str()) {
                seen.push(format!("{name}={}", value.replace('"', "'")));
            }
        }
        seen.sort();
        let seen = seen.join("|");
        let mut hasher = DefaultHasher::new();
        (&seen, &asked.target, version, number).hash(&mut hasher);
        let etag = format!("\"{:x}\"", hasher.finish());
        let modified = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(began - 8 + 4 * version as u64));
        let vary: Vec<&str> = self.forwarded.difference(&self.unnamed).copied().collect();
        let mut fields = "content-type: application/json\r\n".to_owned();
        if !vary.is_empty() {
            write!(fields, "vary: {}\r\n", vary.join(", ")).unwrap();
        }
        if !part.control.is_empty() {
            write!(fields, "cache-control: {}\r\n", part.control).unwrap();
        }
        if part.etag {
            write!(fields, "etag: {etag}\r\n").unwrap();
        }
        if part.modified {
            write!(fields, "last-modified: {modified}\r\n").unwrap();
        }
        if part.sets_cookie {
            write!(fields, "set-cookie: seen={}\r\n", seen.len()).unwrap();
        }
        let same = match asked.find("if-none-match") {
            Some(tag) => part.etag && tag == etag,
            None => part.modified && seen.is_empty() && asked.field("if-modified-since") == modified,
        };
        if same {
            return format!("HTTP/1.1 304 Said\r\n{fields}\r\n").into_bytes();
        }
        let rest =
            asked.target.splitn(4, '/').nth(3).and_then(|rest| rest.split_once('/')).map_or("", |(_, rest)| rest);
        let case = asked.target.split('/').nth(1).unwrap_or_default();
        let link = format!("/{case}/{}/{rest}", number + 1);
        let body = serde_json::json!({ "part": number, "version": version, "seen": seen, "link": link, "next": "1" });
        answer(200, &fields, body.to_string())
    }
}

/// Forgets the versions of these parts.
fn forget(value: &mut Value, may_be_old: &dyn Fn(usize) -> bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| forget(item, may_be_old)),
        Value::Object(fields) => {
            let part = fields.get("part").and_then(Value::as_u64).and_then(|part| usize::try_from(part).ok());
            if part.is_some_and(may_be_old) {
                fields.remove("version");
            }
            fields.values_mut().for_each(|field| forget(field, may_be_old));
        }
        _ => {}
    }
}

/// A cache of the endpoint that fits what is known of it.
fn endpoint(dice: &mut TestRng, form: Form, friendly: bool, authenticated: bool, parts: &[Part]) -> String {
    let all_long = parts.iter().all(|part| part.life == Life::Long);
    if form.streams() && friendly && dice.rare(2) {
        return format!("{{ public: on, for: {} }}", if all_long { "1h" } else { "1s" });
    }
    if dice.below(5) < 3 {
        return "off".to_owned();
    }
    let mut caches = vec![
        "on",
        "1s",
        "{ for: 1s, vary: [x-a] }",
        "{ for: 1s, key: '$headers[\"x-a\"]' }",
        "{ for: 1s, key: $query.q, query: sorted }",
    ];
    if authenticated {
        caches.extend(["{ for: 1s, private: { by: $claims.sub } }", "{ for: 1s, key: $claims.team }"]);
    }
    dice.of(&caches).to_owned()
}
