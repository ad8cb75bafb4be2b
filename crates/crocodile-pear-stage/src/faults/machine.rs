//! The machine, its operators and clients that misbehave: others are served on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::SockRef;

use super::{Ask, Config, Fault, FaultScene, Meanwhile, Staged, UNNOTICED};
use crate::gateway::Gateway;
use crate::moody::{Mood, Server};
use crate::relay::{Relay, Way};
use crate::{Program, pause};

/// Others have to wait for their turn, and all are served.
const SLOWER: Meanwhile = Meanwhile { statuses: &[], within: Duration::from_secs(2), right: 100 };

/// The time for which a process is stopped. It is longer than the timeouts of the upstream.
const FREEZE: Duration = Duration::from_secs(3);

/// All are served when the process runs again.
const FROZEN: Meanwhile = Meanwhile { within: Duration::from_secs(5), ..SLOWER };

const fn fault(
    name: &'static str,
    meanwhile: Meanwhile,
    told: &'static str,
    set: fn(&str) -> Option<Box<dyn FaultScene>>,
) -> Fault {
    Fault { name, meanwhile, whole: Duration::from_secs(4), told, short: false, set }
}

pub(super) const FAULTS: &[Fault] = &[
    fault("machine/frozen", FROZEN, "", |letter| scene(letter, "", freeze, Own::rest)),
    Fault {
        short: true,
        ..fault("machine/frozen_while_answers_come", FROZEN, "", |letter| {
            let strike = |own: &mut Own, gateway: &Gateway| {
                own.relay.set(Way::Slow(Duration::from_millis(100)));
                // Calls are on their way.
                pause(Duration::from_millis(200));
                freeze(own, gateway);
            };
            scene(letter, "", strike, Own::rest)
        })
    },
    Fault {
        short: true,
        ..fault("machine/log_unread", UNNOTICED, "", |letter| {
            scene(letter, "log: { level: debug }\n", |_, gateway| gateway.stop_reading(), |_, gateway| gateway.read())
        })
    },
    fault("machine/descriptors_run_out", SLOWER, "file descriptors run out", |letter| {
        Some(Box::new(Few(stage(letter, "", |own, gateway| own.hold(gateway.address, 150, WHOLE), Own::rest))))
    }),
    fault("machine/idle_clients", UNNOTICED, "", |letter| {
        scene(letter, "", |own, gateway| own.hold(gateway.address, 300, WHOLE), Own::rest)
    }),
    fault("machine/half_requests", UNNOTICED, "", |letter| {
        scene(letter, "", |own, gateway| own.hold(gateway.address, 300, b"GET /half HTTP/1.1\r\nho"), Own::rest)
    }),
    fault("machine/clients_that_reset", UNNOTICED, "", |letter| {
        scene(
            letter,
            "",
            |own, gateway| own.repeat(gateway.address, b"GET /none HTTP/1.1\r\nhost: a\r\n\r\n"),
            Own::rest,
        )
    }),
    fault("machine/clients_that_send_garbage", UNNOTICED, "", |letter| {
        scene(letter, "", |own, gateway| own.repeat(gateway.address, &[0xff; 64]), Own::rest)
    }),
    fault("machine/operators_idle", UNNOTICED, "", |letter| scene(letter, "", operators, Own::rest)),
    fault("machine/busy", SLOWER, "", |letter| {
        scene(letter, "", |own, _| own.busy = (0..4).map(|_| spin()).collect(), Own::rest)
    }),
    fault("machine/reloads", UNNOTICED, "configuration reloaded", |letter| {
        scene(letter, "", |_, gateway| often(gateway, "HUP"), Own::rest)
    }),
    fault("machine/log_files_reopened", UNNOTICED, "", |letter| {
        scene(letter, "", |_, gateway| often(gateway, "USR1"), Own::rest)
    }),
    fault("machine/signals_without_a_meaning", UNNOTICED, "", |letter| {
        scene(
            letter,
            "",
            |_, gateway| ["PIPE", "WINCH", "URG", "CHLD", "CONT"].iter().for_each(|name| often(gateway, name)),
            Own::rest,
        )
    }),
    fault(
        "machine/upstream_mute",
        Meanwhile { statuses: &[504], within: Duration::from_secs(3), right: 0 },
        "",
        |letter| {
            scene(
                letter,
                "",
                |own, _| own.server.mood.set(|mood: &Mood| &mood.mute, true),
                |own, gateway| {
                    own.server.mood.set(|mood: &Mood| &mood.mute, false);
                    own.rest(gateway);
                },
            )
        },
    ),
    fault("machine/upstream_fails", Meanwhile { statuses: &[500, 502], ..UNNOTICED_BUT_WRONG }, "", |letter| {
        scene(
            letter,
            "",
            |own, _| own.server.mood.set(|mood: &Mood| &mood.fails, true),
            |own, gateway| {
                own.server.mood.set(|mood: &Mood| &mood.fails, false);
                own.rest(gateway);
            },
        )
    }),
    fault("machine/upstream_hangs_up", Meanwhile { statuses: &[502], ..UNNOTICED_BUT_WRONG }, "", |letter| {
        scene(
            letter,
            "",
            |own, _| own.server.mood.set(|mood: &Mood| &mood.hangs_up, true),
            |own, gateway| {
                own.server.mood.set(|mood: &Mood| &mood.hangs_up, false);
                own.rest(gateway);
            },
        )
    }),
];

/// A request after which the connection is idle.
const WHOLE: &[u8] = b"GET /none HTTP/1.1\r\nhost: gateway\r\n\r\n";

const UNNOTICED_BUT_WRONG: Meanwhile = Meanwhile { right: 0, ..UNNOTICED };

/// An upstream, and what makes trouble beside the load.
struct Own {
    server: Server,
    relay: Relay,
    held: Vec<TcpStream>,
    busy: Vec<Program>,
    over: Arc<AtomicBool>,
    repeating: Vec<JoinHandle<()>>,
}

/// A process that does nothing else than to be busy.
fn spin() -> Program {
    Program(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
}

impl Own {
    /// Ends all trouble.
    fn rest(&mut self, _: &Gateway) {
        self.relay.set(Way::Open);
        self.held.clear();
        self.busy.clear();
        self.over.store(true, Ordering::SeqCst);
        self.repeating.drain(..).for_each(|thread| thread.join().unwrap());
    }

    /// Holds connections that have sent this.
    fn hold(&mut self, address: SocketAddr, count: usize, sent: &[u8]) {
        for _ in 0..count {
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            // It may have been closed to make room.
            let _ = stream.write_all(sent);
            self.held.push(stream);
        }
    }

    /// Opens connection after connection, sends this, and resets it.
    fn repeat(&mut self, address: SocketAddr, sent: &'static [u8]) {
        let over = self.over.clone();
        self.repeating.push(std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                if let Ok(mut stream) = TcpStream::connect(address) {
                    let _ = stream.write_all(sent);
                    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                }
                pause(Duration::from_millis(3));
            }
        }));
    }
}

/// The process does not run for a while.
fn freeze(_: &mut Own, gateway: &Gateway) {
    gateway.signal("STOP").unwrap();
    pause(FREEZE);
    gateway.signal("CONT").unwrap();
}

fn often(gateway: &Gateway, signal: &str) {
    for _ in 0..20 {
        gateway.signal(signal).unwrap();
        pause(Duration::from_millis(20));
    }
}

/// Many operators do nothing, and health is answered all the same.
fn operators(own: &mut Own, gateway: &Gateway) {
    let admin = gateway.admin().unwrap();
    own.hold(admin, 200, b"");
    let mut health = TcpStream::connect(admin).unwrap();
    health.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    health.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    health.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

fn scene(
    letter: &str,
    document: &str,
    strike: fn(&mut Own, &Gateway),
    mend: fn(&mut Own, &Gateway),
) -> Option<Box<dyn FaultScene>> {
    Some(Box::new(stage(letter, document, strike, mend)))
}

fn stage(letter: &str, document: &str, strike: fn(&mut Own, &Gateway), mend: fn(&mut Own, &Gateway)) -> Staged<Own> {
    let server = Server::new();
    let relay = Relay::to(server.address);
    let config = Config {
        document: document.to_owned(),
        upstreams: format!(
            "  {letter}: {{ url: 'http://{}', timeout: {{ connect: 2s, first_byte: 2s }} }}\n",
            relay.address
        ),
        endpoints: format!("  GET /{letter}/{{n}}: {letter} /{{n}}\n"),
        ..Config::default()
    };
    let letter = letter.to_owned();
    let (held, busy, over, repeating) = (Vec::new(), Vec::new(), Arc::default(), Vec::new());
    Staged {
        servers: Own { server, relay, held, busy, over, repeating },
        config,
        ask: Box::new(move |number| Ask::get(format!("/{letter}/{number}"), "ok")),
        strike,
        mend,
    }
}

/// A gateway with few file descriptors.
struct Few(Staged<Own>);

impl FaultScene for Few {
    fn config(&self) -> Config {
        self.0.config()
    }

    fn ask(&self, number: u64) -> Ask {
        self.0.ask(number)
    }

    fn command(&self, command: &mut Command) {
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -n 128; exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
        *command = limited;
    }

    fn strike(&mut self, gateway: &Gateway) {
        self.0.strike(gateway);
    }

    fn mend(&mut self, gateway: &Gateway) {
        self.0.mend(gateway);
    }
}
