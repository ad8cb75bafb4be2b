//! TLS of an upstream: certificates that are none, handshakes that do not end.

use std::time::Duration;

use rcgen::date_time_ymd;
use rustls::ServerConfig;

use super::{Ask, Config, Fault, FaultScene, Meanwhile, Staged};
use crate::authority::{Authority, Identity};
use crate::changing::{Changing, Manner};
use crate::gateway::Gateway;
use crate::relay::{Relay, Way};
use crate::{scratch, secure};

const NAME: &str = "127.0.0.1";

/// Nobody is called who is not trusted; after some handshakes the breaker is open.
const DISTRUSTED: Meanwhile = Meanwhile { statuses: &[502, 503], within: Duration::from_secs(1), right: 0 };

/// The connect timeout where the server is silent.
const QUICK: &str = "500ms";

/// The connect timeout where the gateway must see the certificate, also on a busy machine.
const PATIENT: &str = "10s";

/// The time to connect is over.
const LATE: Meanwhile = Meanwhile { statuses: &[502, 503, 504], within: Duration::from_secs(2), right: 0 };

const fn fault(
    name: &'static str,
    meanwhile: Meanwhile,
    told: &'static str,
    set: fn(&str) -> Option<Box<dyn FaultScene>>,
) -> Fault {
    Fault { name, meanwhile, whole: Duration::from_secs(3), told, short: false, set }
}

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        short: true,
        ..fault("tls/expired", DISTRUSTED, "expired", |letter| {
            secured(letter, PATIENT, |own| {
                own.show(own.authority.sign_with(&[NAME], |params| {
                    (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
                }));
            })
        })
    },
    fault("tls/not_valid_yet", DISTRUSTED, "cannot connect", |letter| {
        secured(letter, PATIENT, |own| {
            own.show(own.authority.sign_with(&[NAME], |params| {
                (params.not_before, params.not_after) = (date_time_ymd(2901, 1, 1), date_time_ymd(2902, 1, 1));
            }));
        })
    }),
    fault("tls/foreign", DISTRUSTED, "cannot connect", |letter| {
        secured(letter, PATIENT, |own| own.show(Authority::new().sign(&[NAME])))
    }),
    fault("tls/another_name", DISTRUSTED, "cannot connect", |letter| {
        secured(letter, PATIENT, |own| own.show(own.authority.sign(&["other.test"])))
    }),
    fault("tls/clear", LATE, "cannot connect", |letter| secured(letter, QUICK, |own| own.server.behave(Manner::Clear))),
    fault("tls/handshake_silent", LATE, "cannot connect", |letter| {
        secured(letter, QUICK, |own| own.server.behave(Manner::Silent))
    }),
    fault("tls/handshake_reset", LATE, "cannot connect", |letter| {
        secured(letter, QUICK, |own| own.relay.set(Way::Reset))
    }),
    fault("tls/slow", Meanwhile { statuses: &[], within: Duration::from_secs(1), right: 100 }, "", |letter| {
        secured(letter, QUICK, |own| own.relay.set(Way::Slow(Duration::from_millis(20))))
    }),
];

/// A server behind TLS, and the way to it.
struct Own {
    authority: Authority,
    server: Changing,
    relay: Relay,
    strike: fn(&Own),
}

impl Own {
    /// Shows this certificate from now on.
    fn show(&self, identity: Identity) {
        self.server.secure(config(&identity));
    }
}

fn config(identity: &Identity) -> ServerConfig {
    identity.server(secure::ALL_VERSIONS)
}

fn secured(letter: &str, connect: &str, strike: fn(&Own)) -> Option<Box<dyn FaultScene>> {
    let authority = Authority::new();
    let server = Changing::new(config(&authority.sign(&[NAME])));
    let relay = Relay::to(server.address);
    let file = scratch(format!("faults_{}_{}.pem", std::process::id(), relay.address.port()));
    std::fs::write(&file, authority.pem()).unwrap();
    let config = Config {
        upstreams: format!(
            "  {letter}: {{ url: 'https://{}', tls: {{ ca: '{}' }}, timeout: {{ connect: {connect} }}, \
             breaker: {{ open: 500ms, probes: 1 }} }}\n",
            relay.address,
            file.display()
        ),
        endpoints: format!("  GET /{letter}/{{n}}: {letter} /{{n}}\n"),
        ..Config::default()
    };
    let letter = letter.to_owned();
    let mend = |own: &mut Own, _: &Gateway| {
        own.relay.set(Way::Open);
        own.show(own.authority.sign(&[NAME]));
    };
    Some(Box::new(Staged {
        servers: Own { authority, server, relay, strike },
        config,
        ask: Box::new(move |number| Ask::get(format!("/{letter}/{number}"), "ok")),
        strike: |own: &mut Own, _| (own.strike)(own),
        mend,
    }))
}
