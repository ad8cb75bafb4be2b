//! The bytes that the caches count and those that the process takes: a store of 256 MiB takes less than 300, but for
//! the seconds in which entries of one size give way to entries of another. One test, so that it is alone in its process;
//! with the allocator of the gateway.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test measures it prints.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use crocodile_pear::unstable::cache::rules::policy::ReuseTerms;
use crocodile_pear::unstable::cache::{Entry, Key, SharedBody, Store, Tags};
use http::{HeaderMap, HeaderValue, StatusCode};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BOUND: usize = 256 << 20;

/// The memory that a process has besides its caches, and the part that the allocator adds.
const BESIDE: usize = 44 << 20;

/// The memory of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

fn entry(size: usize, number: u64) -> Arc<Entry> {
    let mut headers = HeaderMap::new();
    for name in ["content-type", "etag", "cache-control", "date", "x-request"] {
        headers.append(name, HeaderValue::from_str(&format!("\"value-{number}\"")).unwrap());
    }
    let body = if size < 64 << 10 {
        SharedBody::from(Bytes::from(vec![1; size]))
    } else {
        let (body, writer) = SharedBody::arriving(None);
        for _ in 0..size / (32 << 10) {
            writer.push(Bytes::from(vec![1; 32 << 10]));
        }
        writer.finish(None);
        body
    };
    Arc::new(Entry {
        status: StatusCode::OK,
        headers: crocodile_pear::unstable::cache::store::entry::compact(&headers),
        selector: Box::default(),
        tags: Tags::new([format!("item:{number}"), "items".to_owned()]),
        terms: ReuseTerms::default(),
        body,
        copies: Default::default(),
    })
}

/// Keeps entries of sizes on two threads, each a part of the numbers, and gives the most memory that was seen.
fn pass(store: &Store, count: u64, name: &str, size: impl Fn(u64) -> usize + Sync) -> usize {
    let work = |worker: u64| {
        let mut most = 0;
        for number in (worker..count).step_by(2) {
            let key = Key::new(&format!("http://shop.example/{name}/{number}?and=more"), b"GET endpoint");
            store.insert(store.mark(), &key, entry(size(number), number));
            if number % 1024 < 2 {
                most = most.max(resident());
            }
        }
        most
    };
    let most = thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        work(0).max(other.join().unwrap())
    });
    let counters = store.counters();
    let mebi = |bytes: u64| bytes >> 20;
    println!(
        "{name}: {} entries, counted {} MiB, resident at most {} MiB",
        counters.entries,
        mebi(counters.bytes),
        most >> 20
    );
    assert!(counters.bytes <= BOUND as u64);
    most
}

#[test]
fn a_store_takes_the_memory_that_it_counts() {
    let store = Store::new(BOUND);
    let before = resident();
    // Ten gigabytes where it is asked for; it takes longer without optimisation.
    let times = if std::env::var_os("CACHE_10_GB").is_some() { 10 } else { 1 };
    let small = pass(&store, if times == 10 { 1_000_000 } else { 300_000 }, "small", size_of_small);
    // Small ones give their place to large ones, and the other way round.
    let mixed = pass(&store, 34_000 * times, "mixed", |number| match number % 40 {
        0 => 400_000,
        1..10 => 30_000,
        _ => (number * 7919 % 15_000) as usize,
    });
    let mut again = pass(&store, 100_000 * times, "again", size_of_small);
    // While ones of one size give their place to ones of another, pages of the allocator are half empty for some seconds.
    for most in [mixed, again] {
        assert!(most < before + BOUND + BOUND / 2 + BESIDE, "{} MiB", most >> 20);
    }
    // It gives them back as the work goes on.
    let given_back = Instant::now() + Duration::from_secs(30);
    while again >= before + BOUND + BESIDE && Instant::now() < given_back {
        again = pass(&store, 50_000, "further", size_of_small);
    }
    for most in [small, again] {
        assert!(most < before + BOUND + BESIDE, "{} MiB", most >> 20);
    }
    // What is counted is there: the bound is used.
    assert!(small > BOUND * 8 / 10, "{} MiB", small >> 20);
}

fn size_of_small(number: u64) -> usize {
    (number % 600) as usize
}
