//! The store that gateways share.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::reload::Kept;
use crate::stage::redis::Redis;

#[test]
fn no_limit_is_unknown_for_a_moment() {
    let Some(redis) = Redis::start() else { return };
    let config = format!(
        "store: {{ redis: 'redis://127.0.0.1:{}', while_away: closed, timeout: 10s }}\nendpoints:\n  \
         GET /a:\n    rate_limit: {{ rate: 1000000/1s }}\n    pipeline: [respond: {{ body: '1' }}]\n",
        redis.port
    );
    let mut kept = Kept::new("store", &config);
    kept.scene.until("the store is there", || kept.scene.client().get("/a").status == 200);
    let number = || {
        let said = redis.run(&["CLIENT", "ID"]).unwrap();
        said.trim_start_matches(':').trim().parse::<u64>().unwrap()
    };
    let before = number();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut client = kept.scene.client();
        let over = &over;
        let asking = scope.spawn(move || {
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(client.get("/a").status, 200);
                asked += 1;
            }
            asked
        });
        for _ in 0..5 {
            kept.reload();
        }
        over.store(true, Ordering::Relaxed);
        assert!(asking.join().unwrap() > 0);
    });
    // Nobody else has connected: each number is given once.
    assert_eq!(number(), before + 1);
    kept.change("timeout: 10s", "timeout: 11s");
    assert_eq!(kept.status("/a"), 200);
    assert!(number() > before + 2);
}
