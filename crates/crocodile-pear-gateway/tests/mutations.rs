//! Messages that are almost HTTP, thousands of them, from clients and from upstreams, through the real binary: nothing hangs,
//! nothing panics, and no connection is used again after a doubt.
//!
//! `SEED=7 MUTATIONS=100000 cargo test --test gateway mutations:: -- --nocapture` runs others, and more.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]
// It prints its seed.
#![allow(clippy::print_stdout)]

mod client;
mod mutate;
mod upstream;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::mutations::upstream::Upstream;
use crate::stage::gateway::Gateway;

/// How many clients ask at once.
const CLIENTS: u64 = 32;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn messages_that_are_almost_http_do_no_harm() {
    let (seed, count) = (number("SEED", 1), number("MUTATIONS", 8_000));
    println!("SEED={seed} MUTATIONS={count}");
    let upstream = Upstream::new(seed);
    let config = format!(
        "listen: 127.0.0.1:0\nclients: {{ head: 300ms, body: 300ms, keep: 300ms }}\n\
         upstreams:\n  shop: {{ url: 'http://{}', timeout: {{ first_byte: 200ms, idle: 200ms }} }}\n\
         endpoints:\n  '/{{*path}}': shop /{{*path}}?*\n",
        upstream.address
    );
    let gateway = Gateway::of(config);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    match id {
                        id if id >= count => return,
                        id if id % 2 == 0 => client::ask_oddly(gateway.address, seed, id),
                        id => client::ask_for_oddity(gateway.address, seed, id),
                    }
                }
            });
        }
    });
    assert_eq!(upstream.faults(), [""; 0]);
    assert!(!gateway.said().contains("panicked"), "{}", gateway.said());
    client::ask_plainly(gateway.address);
    assert!(upstream.seen() > count / 2, "only {} requests came through", upstream.seen());
}
