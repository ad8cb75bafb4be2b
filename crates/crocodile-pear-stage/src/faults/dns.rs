//! DNS: silent, refusing, wrong, moving. Names that were resolved once stay usable.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::{Ask, Config, Fault, FaultScene, Meanwhile, Staged, UNNOTICED};
use crate::gateway::Gateway;
use crate::moody::Server;
use crate::names::{Manner, Names};

/// The second address of the server; behind the third nobody listens.
const OTHER: &str = "127.0.0.2";
const NOBODY: &str = "127.0.0.9";

/// A fault that no client notices, with what the log says.
const fn unnoticed(name: &'static str, told: &'static str, set: fn(&str) -> Option<Box<dyn FaultScene>>) -> Fault {
    Fault { name, meanwhile: UNNOTICED, whole: Duration::from_secs(4), told, short: false, set }
}

pub(super) const FAULTS: &[Fault] = &[
    // A lookup without an answer takes longer than the short form.
    unnoticed("dns/silent", "DNS lookup failed", |letter| named(letter, |own| own.both(&Manner::Silence))),
    Fault {
        short: true,
        ..unnoticed("dns/fails", "DNS lookup failed", |letter| named(letter, |own| own.both(&Manner::Code(2))))
    },
    unnoticed("dns/no_such_name", "DNS lookup failed", |letter| named(letter, |own| own.both(&Manner::Code(3)))),
    unnoticed("dns/refuses", "DNS lookup failed", |letter| named(letter, |own| own.both(&Manner::Code(5)))),
    unnoticed("dns/garbage", "DNS lookup failed", |letter| named(letter, |own| own.both(&Manner::Garbage))),
    unnoticed("dns/truncated", "DNS lookup failed", |letter| named(letter, |own| own.both(&Manner::Truncated))),
    unnoticed("dns/no_address", "DNS lookup failed", |letter| {
        named(letter, |own| own.both(&Manner::Addresses(Vec::new())))
    }),
    unnoticed("dns/slow", "DNS lookup failed", |letter| {
        named(letter, |own| own.all().for_each(|names| names.delay(Duration::from_secs(5))))
    }),
    unnoticed("dns/first_of_two_silent", "", |letter| named(letter, |own| own.first.behave(Manner::Silence))),
    unnoticed("dns/first_of_two_fails", "", |letter| named(letter, |own| own.first.behave(Manner::Code(2)))),
    unnoticed("dns/first_of_two_garbage", "", |letter| named(letter, |own| own.first.behave(Manner::Garbage))),
    unnoticed("dns/moved", "the addresses have changed", |letter| named(letter, |own| own.resolve(&[OTHER]))),
    unnoticed("dns/second_address", "the addresses have changed", |letter| {
        named(letter, |own| own.resolve(&[OTHER, "127.0.0.1"]))
    }),
    unnoticed("dns/address_without_a_server", "", |letter| named(letter, |own| own.resolve(&[NOBODY, "127.0.0.1"]))),
    // The first connections try many addresses.
    Fault {
        meanwhile: Meanwhile { within: Duration::from_secs(2), ..UNNOTICED },
        ..unnoticed("dns/one_of_fifty_has_a_server", "", |letter| {
            named(letter, |own| {
                let all: Vec<String> = (0..50).map(|at| Ipv4Addr::new(127, 0, 1, at + 1).to_string()).collect();
                let all: Vec<&str> = all.iter().map(String::as_str).chain(["127.0.0.1"]).collect();
                own.resolve(&all);
            })
        })
    },
    Fault {
        meanwhile: Meanwhile { statuses: &[502], right: 0, ..UNNOTICED },
        ..unnoticed("dns/only_an_address_without_a_server", "cannot connect", |letter| {
            named(letter, |own| own.resolve(&[NOBODY]))
        })
    },
];

/// Two name servers, and a server at two addresses.
struct Own {
    first: Names,
    second: Names,
    _servers: [Server; 2],
}

impl Own {
    fn all(&self) -> impl Iterator<Item = &Names> {
        [&self.first, &self.second].into_iter()
    }

    fn both(&self, manner: &Manner) {
        self.all().for_each(|names| names.behave(manner.clone()));
    }

    fn resolve(&self, addresses: &[&str]) {
        self.all().for_each(|names| names.set(addresses));
    }
}

/// A server that is called by its name, and closes a connection after some answers: names are needed all the time.
fn named(letter: &str, strike: fn(&Own)) -> Option<Box<dyn FaultScene>> {
    let server = Server::new();
    let port = server.address.port();
    let servers = [server, Server::at(SocketAddr::new(OTHER.parse().unwrap(), port))];
    servers.iter().for_each(|server| server.mood.closes.store(5, std::sync::atomic::Ordering::SeqCst));
    let own = Own { first: Names::new(&["127.0.0.1"]), second: Names::new(&["127.0.0.1"]), _servers: servers };
    let config = Config {
        document: format!("resolver: ['{}', '{}']\n", own.first.address, own.second.address),
        upstreams: format!("  {letter}: 'http://shop.test:{port}'\n"),
        endpoints: format!("  GET /{letter}/{{n}}: {letter} /{{n}}\n"),
        ..Config::default()
    };
    let letter = letter.to_owned();
    let mend = |own: &mut Struck, _: &Gateway| {
        own.own.resolve(&["127.0.0.1"]);
        own.own.all().for_each(|names| names.delay(Duration::ZERO));
    };
    Some(Box::new(Staged {
        servers: Struck { own, strike },
        config,
        ask: Box::new(move |number| Ask::get(format!("/{letter}/{number}"), "ok")),
        strike: |own: &mut Struck, _| (own.strike)(&own.own),
        mend,
    }))
}

struct Struck {
    own: Own,
    strike: fn(&Own),
}
