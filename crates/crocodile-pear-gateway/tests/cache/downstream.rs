//! Caches of other products in front of the gateway give nobody what is another's, or what has changed.

use crate::stage::downstream::{Product, play};
use crate::stage::program;

/// So many endpoints are thrown; `CACHES` says another number, and `SEED` another throw.
fn number(name: &str, else_: usize) -> usize {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(else_)
}

#[test]
fn no_cache_in_front_gives_one_client_what_is_anothers() {
    let figures = play(&program("crocodile-pear"), number("SEED", 1) as u64, number("CACHES", 100), &Product::ALL);
    println!("{figures:?}");
    assert!(figures.wrong.is_empty(), "{}\n\n{}", figures.wrong.len(), figures.wrong[0]);
    for (product, counts) in figures.caches {
        if counts.asked == 0 {
            println!("skipped: install {} to run this test with it", product.name());
            assert!(product != Product::Nginx || std::env::var_os("CI").is_none(), "nginx is not skipped in CI");
            continue;
        }
        // A cache that keeps nothing shows nothing.
        assert!(counts.hits * 5 > counts.asked, "{}: {counts:?}", product.name());
        assert!(counts.kept * 10 >= counts.cacheable * 9, "{}: {counts:?}", product.name());
    }
}
