//! The store, from outside.

use http::{HeaderMap, StatusCode};

use super::*;
use crate::cache::policy::Terms;
use crate::cache::{Entry, SharedBody, Tags};

fn entry(body: &[u8], tags: &[&str]) -> Arc<Entry> {
    Arc::new(Entry {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        selector: Box::default(),
        tags: Tags::new(tags),
        terms: Terms::default(),
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
    let store = Store::new(1 << 20);
    let entry = entry(b"body", &[]);
    assert!(store.insert(store.mark(), &key("/1"), entry.clone()));
    let before = store.counters().bytes;
    assert!(store.keep_copy(&key("/1"), &entry, "gzip", Bytes::from(vec![0; 1000])));
    assert!(!store.keep_copy(&key("/1"), &entry, "gzip", Bytes::from(vec![0; 1000])));
    assert_eq!(entry.copy("gzip").map(|copy| copy.len()), Some(1000));
    assert!(store.counters().bytes >= before + 1000);
    store.remove(&key("/1"));
    let empty = Store::new(1 << 20);
    assert!(store.counters().bytes < before && empty.counters().bytes == 0);
    assert!(!store.keep_copy(&key("/1"), &entry, "br", Bytes::from(vec![0; 1000])));
}

#[test]
fn one_key_has_a_variant_for_each_selector() {
    let store = Store::new(1 << 20);
    let variant = |language: &str, body: &[u8]| {
        let selector = vec![(http::header::ACCEPT_LANGUAGE, Some(language.as_bytes().into()))].into();
        let plain = entry(body, &[]);
        let body = plain.body.clone();
        Arc::new(Entry {
            selector,
            terms: Terms::default(),
            body,
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            tags: Tags::default(),
            copies: Default::default(),
        })
    };
    for (language, body) in [("sv", "ett"), ("en", "one"), ("sv", "två")] {
        assert!(store.insert(store.mark(), &key("/1"), variant(language, body.as_bytes())));
    }
    assert_eq!(store.counters().entries, 2);
    let of = |language: &str| {
        let matches = |entry: &Entry| entry.selector[0].1.as_deref() == Some(language.as_bytes());
        store.find(&key("/1"), matches).and_then(|found| found.entry.body.length())
    };
    assert_eq!((of("sv"), of("en"), of("da")), (Some(4), Some(3), None));
}
