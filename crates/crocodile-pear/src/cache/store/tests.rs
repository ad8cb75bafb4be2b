//! The store, from outside.

use bytes::Bytes;
use crocodile_pear_peers::test_rng::TestRng;
use http::{HeaderMap, StatusCode};

use super::shard::VARIANTS;
use super::*;
use crate::cache::rules::policy::ReuseTerms;
use crate::cache::{Entry, Kept, SharedBody, Tags};

fn entry(body: &[u8], tags: &[&str]) -> Arc<Entry> {
    Arc::new(Entry {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        selector: Box::default(),
        tags: Tags::new(tags),
        terms: ReuseTerms::default(),
        body: SharedBody::from(Bytes::copy_from_slice(body)),
        copies: Default::default(),
    })
}

fn key(path: &str) -> Key {
    Key::new(&format!("http://shop.example{path}"), b"GET")
}

fn put(store: &Store, path: &str, tags: &[&str]) {
    assert!(store.insert(store.mark(), &key(path), entry(b"body", tags)));
}

/// `None` if it is not there, else whether it is stale.
fn state(store: &Store, path: &str) -> Option<bool> {
    store.find(&key(path), |_| true).map(|found| found.stale)
}

fn tag(tag: &str) -> Purge {
    Purge::Tag(tag.into())
}

#[test]
fn a_tag_purges_what_has_it_and_nothing_else() {
    let store = Store::new(1 << 20);
    put(&store, "/1", &["item:1", "items"]);
    put(&store, "/2", &["item:2", "items"]);
    store.purge(&tag("item:1"), PurgeMode::Soft);
    assert_eq!((state(&store, "/1"), state(&store, "/2")), (Some(true), Some(false)));
    store.purge(&tag("items"), PurgeMode::Hard);
    assert_eq!((state(&store, "/1"), state(&store, "/2")), (None, None));
}

#[test]
fn urls_and_prefixes_purge_with_a_host_and_without() {
    let of = [
        Purge::Url("http://shop.example/a/1".into()),
        Purge::Url("/a/1".into()),
        Purge::Prefix("http://shop.example/a/".into()),
        Purge::Prefix("/a".into()),
    ];
    for purge in of {
        let store = Store::new(1 << 20);
        put(&store, "/a/1", &[]);
        put(&store, "/b/1", &[]);
        assert_eq!(store.purge_counted(&purge, PurgeMode::Hard), 1, "{purge:?}");
        assert_eq!((state(&store, "/a/1"), state(&store, "/b/1")), (None, Some(false)), "{purge:?}");
    }
}

#[test]
fn what_was_being_fetched_when_a_purge_came_is_not_kept() {
    let purges = [tag("t"), Purge::Url("/1".into()), Purge::Prefix("/".into()), Purge::All];
    for purge in purges {
        let store = Store::new(1 << 20);
        let mark = store.mark();
        store.purge(&purge, PurgeMode::Soft);
        assert!(!store.insert(mark, &key("/1"), entry(b"old", &["t"])), "{purge:?}");
        assert!(store.insert(store.mark(), &key("/1"), entry(b"new", &["t"])), "{purge:?}");
        assert_eq!(state(&store, "/1"), Some(false));
    }
}

#[test]
fn what_was_being_fetched_when_a_purge_came_takes_the_place_of_what_is_older() {
    for (mode, body) in [(PurgeMode::Soft, Some("newer")), (PurgeMode::Hard, None)] {
        let store = Store::new(1 << 20);
        put(&store, "/1", &["t"]);
        let older = store.mark();
        store.purge(&tag("other"), mode);
        let mark = store.mark();
        store.purge(&tag("t"), mode);
        // Its client has it before the purge is heard of: nobody is given what is older from then on.
        assert!(!store.insert(mark, &key("/1"), entry(b"newer", &["t"])));
        assert!(!store.insert(older, &key("/1"), entry(b"a little older", &["t"])));
        assert_eq!(state(&store, "/1"), body.map(|_| true), "{mode:?}");
        let found = store.find(&key("/1"), |_| true).map(|found| found.entry.body.length());
        assert_eq!(found, body.map(|body| Some(body.len() as u64)), "{mode:?}");
    }
}

#[test]
fn forgotten_purges_forbid_what_was_being_fetched() {
    let store = Store::new(1 << 20);
    let mark = store.mark();
    put(&store, "/kept", &["kept"]);
    put(&store, "/first", &["0"]);
    for number in 0..200_000 {
        store.purge(&tag(&number.to_string()), PurgeMode::Soft);
    }
    assert!(!store.insert(mark, &key("/1"), entry(b"old", &["0"])));
    assert_eq!((state(&store, "/kept"), state(&store, "/first")), (Some(false), Some(true)));
}

#[test]
fn what_has_tags_is_stale_while_their_source_is_lost() {
    let store = Store::new(1 << 20);
    put(&store, "/tagged", &["t"]);
    put(&store, "/plain", &[]);
    store.distrust();
    put(&store, "/meanwhile", &["t"]);
    let states = |paths: [&str; 3]| paths.map(|path| state(&store, path));
    assert_eq!(states(["/tagged", "/meanwhile", "/plain"]), [Some(true), Some(true), Some(false)]);
    store.trust();
    put(&store, "/anew", &["t"]);
    assert_eq!(states(["/tagged", "/meanwhile", "/anew"]), [Some(true), Some(true), Some(false)]);
}

#[test]
fn a_coded_copy_is_kept_once_and_counted() {
    let store = Arc::new(Store::new(1 << 20));
    let entry = entry(&[0; 5000], &[]);
    assert!(store.insert(store.mark(), &key("/1"), entry.clone()));
    let before = store.counters().bytes;
    let kept = Kept::new(store.clone(), key("/1"), entry.clone());
    make(&kept, 1000);
    assert!(kept.begin("gzip").is_none());
    assert!(matches!(kept.copy("gzip"), Some(Copy::Made(copy)) if copy.length() == Some(1000)));
    assert!(store.counters().bytes >= before + 1000);
    store.remove(&key("/1"));
    assert!(store.counters().bytes < before);
    // It is not kept any more.
    let mut late = kept.begin("br").expect("nobody makes it");
    late.push(&Bytes::from(vec![0; 1000]));
    late.finish(None);
    assert!(kept.copy("br").is_none() && store.counters().bytes < before);
}

/// Makes a copy of so many bytes.
fn make(kept: &Kept, length: usize) {
    if let Some(mut making) = kept.begin("gzip") {
        making.push(&Bytes::from(vec![0; length]));
        making.finish(None);
    }
}

#[test]
fn a_copy_that_is_given_up_takes_nothing_and_is_begun_again() {
    let store = Arc::new(Store::new(1 << 20));
    let entry = entry(&[0; 5000], &[]);
    assert!(store.insert(store.mark(), &key("/1"), entry.clone()));
    let before = store.counters().bytes;
    let kept = Kept::new(store.clone(), key("/1"), entry);
    let mut making = kept.begin("gzip").expect("nobody makes it");
    assert!(kept.begin("gzip").is_none());
    making.push(&Bytes::from(vec![0; 4000]));
    assert!(store.counters().bytes >= before + 4000);
    drop(making);
    assert_eq!(store.counters().bytes, before);
    // One that is as long as the body is of no use; that is known from then on.
    make(&kept, 5000);
    assert!(matches!(kept.copy("gzip"), Some(Copy::Useless)));
    // One that is too large for the store is not kept.
    let mut large = kept.begin("br").expect("nobody makes it");
    (0..100).for_each(|_| large.push(&Bytes::from(vec![0; 10_000])));
    large.finish(None);
    assert!(kept.copy("br").is_none() && store.counters().bytes < before + 1000);
}

/// An answer for those who ask for this language.
fn variant(language: &str, body: &[u8]) -> Arc<Entry> {
    let selector = vec![(http::header::ACCEPT_LANGUAGE, Some(language.as_bytes().into()))].into();
    let plain = entry(body, &[]);
    let body = plain.body.clone();
    Arc::new(Entry {
        selector,
        terms: ReuseTerms::default(),
        body,
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        tags: Tags::default(),
        copies: Default::default(),
    })
}

fn of_language(store: &Store, language: &str) -> Option<u64> {
    let matches = |entry: &Entry| entry.selector[0].1.as_deref() == Some(language.as_bytes());
    store.find(&key("/1"), matches).and_then(|found| found.entry.body.length())
}

#[test]
fn one_key_has_a_variant_for_each_selector() {
    let store = Store::new(1 << 20);
    for (language, body) in [("sv", "ett"), ("en", "one"), ("sv", "två")] {
        assert!(store.insert(store.mark(), &key("/1"), variant(language, body.as_bytes())));
    }
    assert_eq!(store.counters().entries, 2);
    let of = |language: &str| of_language(&store, language);
    assert_eq!((of("sv"), of("en"), of("da")), (Some(4), Some(3), None));
}

#[test]
fn no_client_makes_a_key_slow_by_asking_in_many_ways() {
    let store = Store::new(256 << 20);
    assert!(store.insert(store.mark(), &key("/1"), variant("sv", b"ett")));
    for language in 0..2_000 {
        assert!(store.insert(store.mark(), &key("/1"), variant(&language.to_string(), b"x")));
        // What is used stays.
        assert_eq!(of_language(&store, "sv"), Some(3));
    }
    assert_eq!(store.counters().entries, VARIANTS as u64);
    assert_eq!(store.counters().evictions, 2_001 - VARIANTS as u64);
    assert!(store.insert(store.mark(), &key("/2"), variant("sv", b"ett")));
    assert_eq!(store.counters().entries, VARIANTS as u64 + 1);
}

#[test]
fn the_counted_bytes_never_pass_the_bound() {
    const BOUND: usize = 2 << 20;
    let store = Arc::new(Store::new(BOUND));
    let mut dice = TestRng(7);
    for round in 0..30_000_u64 {
        let path = format!("/{}", dice.number(20_000));
        let size = match dice.number(20) {
            0 => dice.number(BOUND as u64 / 3),
            1..5 => dice.number(20_000),
            _ => dice.number(400),
        };
        let tags = [format!("t{}", dice.number(50))];
        let entry = entry(&vec![0; size as usize], &[&tags[0]]);
        match round % 16 {
            3 => store.remove(&key(&path)),
            5 => store.purge(&tag(&tags[0]), PurgeMode::Hard),
            7 => drop(store.find(&key(&path), |_| true)),
            9 => {
                if let Some(found) = store.find(&key(&path), |_| true) {
                    make(&Kept::new(store.clone(), key(&path), found.entry), 300);
                }
            }
            _ => drop(store.insert(store.mark(), &key(&path), entry)),
        }
        assert!(store.counters().bytes <= BOUND as u64, "{} in round {round}", store.counters().bytes);
    }
    assert!(store.counters().entries > 100 && store.counters().evictions > 1000, "{:?}", store.counters());
    // What is counted is what is there: without entries only the index is left.
    store.purge(&Purge::All, PurgeMode::Hard);
    let left: usize = store.shards.iter().map(|part| part.lock().overhead()).sum();
    assert_eq!((store.counters().entries, store.counters().bytes), (0, left as u64));
}

#[test]
fn a_smaller_bound_holds_at_once() {
    let store = Store::new(4 << 20);
    (0..3000).for_each(|number| put(&store, &format!("/{number}"), &[]));
    store.resize(1 << 20);
    let counters = store.counters();
    assert!(counters.bytes <= 1 << 20 && counters.entries > 100, "{counters:?}");
}

#[test]
fn readers_writers_and_purges_do_not_deceive_each_other() {
    // The source changes, then its change is purged, then everybody may know: nobody reads what was before.
    let store = Store::new(4 << 20);
    let (source, announced, kept) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let looked = AtomicU64::new(0);
    let running = std::sync::atomic::AtomicBool::new(true);
    let fetch = |worker: u64| {
        let mut dice = TestRng(worker + 1);
        while running.load(Ordering::Relaxed) {
            let path = format!("/{}", dice.number(8));
            let known = announced.load(Ordering::SeqCst);
            looked.fetch_add(1, Ordering::Relaxed);
            if let Some(found) = store.find(&key(&path), |_| true).filter(|found| !found.stale) {
                let body = found.entry.body.pieces().unwrap_or_default().concat();
                let said: u64 = String::from_utf8(body).unwrap().parse().unwrap();
                assert!(said >= known, "{said} after the purge for {known}");
                kept.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let mark = store.mark();
            let fetched = source.load(Ordering::SeqCst);
            std::thread::yield_now();
            store.insert(mark, &key(&path), entry(fetched.to_string().as_bytes(), &["all"]));
        }
    };
    std::thread::scope(|scope| {
        let fetch = &fetch;
        (0..4).for_each(|worker| drop(scope.spawn(move || fetch(worker))));
        for round in 1..1000 {
            source.store(round, Ordering::SeqCst);
            let purge = if round % 50 == 0 { Purge::Prefix("/".into()) } else { tag("all") };
            let mode = if round % 2 == 0 { PurgeMode::Soft } else { PurgeMode::Hard };
            store.purge(&purge, mode);
            announced.store(round, Ordering::SeqCst);
            // A turn of the others is long on a busy machine, and they look often in it.
            let enough = looked.load(Ordering::Relaxed) + 20;
            let turns = (0..20).take_while(|_| looked.load(Ordering::Relaxed) < enough);
            turns.for_each(|_| std::thread::yield_now());
        }
        // On a busy machine the readers may have had no turn yet.
        let turns = (0..20_000_000).take_while(|_| kept.load(Ordering::Relaxed) <= 100);
        turns.for_each(|_| std::thread::yield_now());
        running.store(false, Ordering::Relaxed);
    });
    assert!(kept.load(Ordering::Relaxed) > 100, "nobody found anything");
}

/// Keys by their popularity: the `n`-th is asked for as 1 / n^skew.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(keys: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let weigh = |rank: usize| {
            sum += 1.0 / (rank as f64).powf(skew);
            sum
        };
        let mut sums: Vec<f64> = (1..=keys).map(weigh).collect();
        sums.iter_mut().for_each(|part| *part /= sum);
        Zipf(sums)
    }

    fn draw(&self, dice: &mut TestRng) -> usize {
        let point = (dice.roll() >> 11) as f64 / (1_u64 << 53) as f64;
        self.0.partition_point(|sum| *sum < point)
    }
}

/// The hit ratio of a list that moves what is used to its end.
fn ratio_of_lru(trace: &[usize], capacity: usize) -> f64 {
    let (mut times, mut order, mut hits) = (std::collections::HashMap::new(), std::collections::BTreeMap::new(), 0);
    for (time, asked) in trace.iter().enumerate() {
        if let Some(before) = times.insert(*asked, time) {
            hits += 1;
            order.remove(&before);
        }
        order.insert(time, *asked);
        if order.len() > capacity
            && let Some((_, oldest)) = order.pop_first()
        {
            times.remove(&oldest);
        }
    }
    f64::from(hits) / trace.len() as f64
}

/// The hit ratio of the store, and for how many entries it has had room.
fn ratio_of_store(trace: &[usize], bytes: usize) -> (f64, usize) {
    let store = Store::new(bytes);
    for asked in trace {
        let path = format!("/{asked:08}");
        if store.find(&key(&path), |_| true).is_none() {
            put(&store, &path, &[]);
        }
    }
    let counters = store.counters();
    (counters.hits as f64 / trace.len() as f64, counters.entries as usize)
}

#[test]
fn more_is_found_than_with_lru_and_a_scan_pushes_nothing_out() {
    const KEYS: usize = 20_000;
    let zipf = Zipf::new(KEYS, 0.9);
    let mut dice = TestRng(11);
    let drawn: Vec<usize> = (0..60_000).map(|_| zipf.draw(&mut dice)).collect();
    // Every tenth of the trace a crawler comes by that asks for everything once.
    let mut next = KEYS;
    let scan = drawn.chunks(6_000).flat_map(|part| {
        next += 2_500;
        part.iter().copied().chain(next - 2_500..next)
    });
    let scanned: Vec<usize> = scan.collect();
    for (name, trace) in [("zipf", &drawn), ("scan", &scanned)] {
        let (ours, capacity) = ratio_of_store(trace, 1 << 20);
        let lru = ratio_of_lru(trace, capacity);
        println!("{name}: {capacity} entries, hit ratio {ours:.3}, LRU {lru:.3}");
        assert!(ours > lru + 0.02, "{name}: {ours:.3}, LRU {lru:.3}");
    }
}
