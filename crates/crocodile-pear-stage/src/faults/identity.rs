//! Services that say who a client is, or take traces: introspection, keys, forward authentication, tokens for upstreams,
//! a collector.

use std::io::Write;
use std::time::Duration;

use super::{Ask, Config, Fault, FaultScene, Meanwhile, Staged, UNNOTICED};
use crate::gateway::Gateway;
use crate::relay::{Relay, Way};
use crate::shop::{Shop, answer};

/// A token that is new is not known, and nobody can be asked.
const UNKNOWN: Meanwhile = Meanwhile { statuses: &[503], within: Duration::from_secs(1), right: 0 };

/// How long the gateway waits for a service that is silent. It is longer than a busy machine takes to answer.
const TIMEOUT: &str = "2s";

/// The time within which a client has its answer when the service is silent: `TIMEOUT`, and a second more.
const SILENT: Duration = Duration::from_secs(3);

/// The service decides each time.
const UNDECIDED: Meanwhile = Meanwhile { statuses: &[502, 503, 504], within: SILENT, right: 0 };

const SLOW: Way = Way::Slow(Duration::from_millis(10));

const fn fault(
    name: &'static str,
    meanwhile: Meanwhile,
    told: &'static str,
    set: fn(&str) -> Option<Box<dyn FaultScene>>,
) -> Fault {
    Fault { name, meanwhile, whole: Duration::from_secs(7), told, short: false, set }
}

/// The faults of identity, and of the collector, whose batches are sent five times before a line says that they are lost.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        short: true,
        ..fault(
            "identity/introspection_silent",
            Meanwhile { within: SILENT, ..UNKNOWN },
            "cannot check a token",
            |letter| introspected(letter, Way::Silent),
        )
    },
    fault("identity/introspection_reset", UNKNOWN, "cannot check a token", |letter| introspected(letter, Way::Reset)),
    fault("identity/introspection_garbage", UNKNOWN, "cannot check a token", |letter| {
        introspected(letter, Way::Garbage)
    }),
    fault("identity/introspection_slow", UNNOTICED, "", |letter| introspected(letter, SLOW)),
    fault("identity/keys_silent", UNNOTICED, "the old keys stay in use", |letter| keyed(letter, Way::Silent)),
    fault("identity/keys_garbage", UNNOTICED, "the old keys stay in use", |letter| keyed(letter, Way::Garbage)),
    fault("identity/forward_silent", UNDECIDED, "", |letter| forwarded(letter, Way::Silent)),
    fault("identity/forward_reset", UNDECIDED, "cannot connect", |letter| forwarded(letter, Way::Reset)),
    fault("identity/token_endpoint_silent", UNNOTICED, "", |letter| credited(letter, Way::Silent)),
    fault("identity/token_endpoint_reset", UNNOTICED, "", |letter| credited(letter, Way::Reset)),
    fault("identity/collector_silent", UNNOTICED, "", |letter| collected(letter, Way::Silent)),
    fault("identity/collector_reset", UNNOTICED, "", |letter| collected(letter, Way::Reset)),
];

/// The shops that are asked, and the way to them.
struct Own {
    relay: Relay,
    way: Way,
    _shops: Vec<Shop>,
}

/// Answers everything with this JSON.
fn json(body: &'static str) -> Shop {
    Shop::open(move |_, stream| stream.write_all(&answer(200, "content-type: application/json\r\n", body)))
}

/// A service that says `body` behind a way that breaks; `config` learns where it is.
fn staged(
    letter: &str,
    way: Way,
    body: &'static str,
    config: impl Fn(&str, &str) -> Config,
    ask: impl Fn(&str, u64) -> Ask + Send + 'static,
) -> Option<Box<dyn FaultScene>> {
    let shops = vec![json(body)];
    let relay = Relay::to(shops[0].address);
    let config = config(letter, &format!("http://{}", relay.address));
    let letter = letter.to_owned();
    Some(Box::new(Staged {
        servers: Own { relay, way, _shops: shops },
        config,
        ask: Box::new(move |number| ask(&letter, number)),
        strike: |own: &mut Own, _: &Gateway| own.relay.set(own.way),
        mend: |own: &mut Own, _: &Gateway| own.relay.set(Way::Open),
    }))
}

/// An endpoint that says `1` to those who pass.
fn guarded(letter: &str, method: &str) -> String {
    format!("  GET /{letter}/{{n}}:\n    authenticate: [ {{ {method} }} ]\n    pipeline: [respond: {{ body: '1' }}]\n")
}

fn with(field: String, ask: Ask) -> Ask {
    Ask { fields: field, ..ask }
}

fn introspected(letter: &str, way: Way) -> Option<Box<dyn FaultScene>> {
    let config = |letter: &str, url: &str| {
        let method =
            format!("introspection: {{ url: '{url}/i', client_id: me, client_secret: hush, timeout: {TIMEOUT} }}");
        Config { endpoints: guarded(letter, &method), ..Config::default() }
    };
    staged(letter, way, r#"{"active":true,"sub":"ada"}"#, config, |letter, number| {
        with(format!("authorization: Bearer t{number}\r\n"), Ask::get(format!("/{letter}/{number}"), "1"))
    })
}

/// `{"iss":"i","sub":"ada","exp":4102444800}`, signed with the key below.
const SIGNED: &str = "eyJhbGciOiAiSFMyNTYiLCAidHlwIjogIkpXVCJ9.eyJpc3MiOiAiaSIsICJzdWIiOiAiYWRhIiwgImV4cCI6IDQxMDI0NDQ4MDB9.-VWWkc0PuyUw28hGuJABnS6j7MEWjHTMuu9J3K9iQGM";

fn keyed(letter: &str, way: Way) -> Option<Box<dyn FaultScene>> {
    let config = |letter: &str, url: &str| {
        let method = format!("jwt: {{ issuer: i, audience: any, keys: '{url}/k', algorithms: [HS256], refresh: 1s }}");
        Config { endpoints: guarded(letter, &method), ..Config::default() }
    };
    let keys = r#"{"keys":[{"kty":"oct","k":"aGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8","alg":"HS256"}]}"#;
    staged(letter, way, keys, config, |letter, number| {
        with(format!("authorization: Bearer {SIGNED}\r\n"), Ask::get(format!("/{letter}/{number}"), "1"))
    })
}

fn forwarded(letter: &str, way: Way) -> Option<Box<dyn FaultScene>> {
    let config = |letter: &str, url: &str| Config {
        upstreams: format!("  {letter}: {{ url: '{url}', timeout: {{ connect: {TIMEOUT} }} }}\n"),
        endpoints: guarded(letter, &format!("forward: {{ to: {letter}, timeout: {TIMEOUT} }}")),
        ..Config::default()
    };
    staged(letter, way, "{}", config, |letter, number| Ask::get(format!("/{letter}/{number}"), "1"))
}

/// Tokens for an upstream, which are good for an hour. The upstream is the service itself, without a fault.
fn credited(letter: &str, way: Way) -> Option<Box<dyn FaultScene>> {
    const TOKEN: &str = r#"{"access_token":"abc","token_type":"bearer","expires_in":3600}"#;
    let shop = json(TOKEN);
    let address = shop.address;
    // It ends with the process.
    std::mem::forget(shop);
    let config = move |letter: &str, url: &str| Config {
        upstreams: format!(
            "  {letter}:\n    url: 'http://{address}'\n    credentials:\n      \
             oauth2: {{ token_url: '{url}/t', client_id: me, client_secret: hush }}\n"
        ),
        endpoints: format!("  GET /{letter}/{{n}}: {letter} /{{n}}\n"),
        ..Config::default()
    };
    staged(letter, way, TOKEN, config, |letter, number| Ask::get(format!("/{letter}/{number}"), TOKEN))
}

fn collected(letter: &str, way: Way) -> Option<Box<dyn FaultScene>> {
    let config = |letter: &str, url: &str| Config {
        document: format!("traces: {{ to: '{url}', sample: 100% }}\n"),
        endpoints: format!("  GET /{letter}/{{n}}:\n    pipeline: [respond: {{ body: '1' }}]\n"),
        ..Config::default()
    };
    staged(letter, way, "{}", config, |letter, number| Ask::get(format!("/{letter}/{number}"), "1"))
}
