//! The log itself, while nobody reads it.

use crate::stage::found;
use crate::stage::gateway::Gateway;
use crate::stage::logs::{Folder, metric};
use crate::stage::scene::Client;

/// Each request has some lines, and all of them are for the one stream that nobody reads.
const NOISY: &str = "
listen: 127.0.0.1:0
admin: 127.0.0.1:0
threads: 2
log: { level: debug, timers: true, access: { to: stderr, format: combined } }
endpoints:
  GET /noisy:
    pipeline:
      - respond: { body: '\"hello\"' }
      - timer: this is a label that makes each line of the timer a long one, and there are several for each request
  GET /hello/{name}: { pipeline: [{ respond: { body: '\"hello\"' } }] }
";

const REQUEST: &str = "GET /noisy HTTP/1.1\r\nhost: h\r\n\r\n";

/// The lines of the log of which none was written, as the metric says.
const DROPPED: &str = "crocodile_pear_log_dropped_total";

fn unread(name: &str) -> (Folder, Gateway) {
    let folder = Folder::new(name);
    std::fs::write(folder.path("gateway.yaml"), NOISY).unwrap();
    let gateway = Gateway::run(folder.path("gateway.yaml"));
    gateway.admin().unwrap();
    gateway.stop_reading();
    (folder, gateway)
}

/// Asks until lines were dropped: the pipe is full, and what is held for it, too.
fn fill(gateway: &Gateway) {
    let mut client = Client::connect(gateway.address);
    found(
        || {
            (0..500).for_each(|_| assert_eq!(client.send(REQUEST).status, 200));
            (metric(gateway, DROPPED) > 0.0).then_some(())
        },
        || "no line was dropped".to_owned(),
    );
}

#[test]
fn a_log_that_nobody_reads_stops_no_request_and_says_so_when_it_is_read_again() {
    let (_folder, gateway) = unread("unread");
    fill(&gateway);
    // Every core goes on.
    for _ in 0..8 {
        assert_eq!(Client::connect(gateway.address).send(REQUEST).status, 200);
    }
    gateway.read();
    gateway.logged("*log lines were dropped*").unwrap();
}

#[test]
fn a_log_that_nobody_reads_does_not_hold_the_end() {
    let (_folder, mut gateway) = unread("stuck");
    fill(&gateway);
    gateway.signal("TERM").unwrap();
    assert!(gateway.ended().unwrap().success());
}
