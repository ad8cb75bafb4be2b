//! Calls that go on without the client: tried again, bounded, counted, and waited for at the end.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::stage;
use stage::scene::Scene;
use stage::shop::{Gate, Shop, answer, close};

fn count(scene: &Scene, result: &str) -> u64 {
    scene.metric(&format!("crocodile_pear_detached_total{{result=\"{result}\"}}"))
}

#[test]
fn a_call_is_tried_until_it_succeeds() {
    let tried = Arc::new(AtomicUsize::new(0));
    let tries = tried.clone();
    let hooks = Shop::open(move |asked, stream| {
        assert_eq!((asked.field("idempotency-key").len(), &asked.body[..]), (32, &b"x"[..]));
        match tries.fetch_add(1, Ordering::SeqCst) {
            0 => stream.write_all(&answer(503, "", "")),
            1 => close(),
            2 => stream.write_all(&answer(429, "retry-after: 1\r\n", "")),
            _ => stream.write_all(&answer(204, "", "")),
        }
    });
    let scene = Scene::new(
        "detached-tried",
        &format!(
            "upstreams: {{ hooks: 'http://{}' }}\nendpoints:\n  POST /a:\n    pipeline:\n      \
             - request: {{ to: hooks, path: /, body: client, headers: {{ idempotency-key: '{{$id}}' }}, detach: {{ wait: 1ms }} }}\n      \
             - respond: {{ status: 202 }}\n",
            hooks.address
        ),
    );
    assert_eq!(scene.client().ask("POST", "/a", &[], "x").status, 202);
    stage::until("it succeeds", || count(&scene, "done") == 1);
    assert_eq!((tried.load(Ordering::SeqCst), count(&scene, "failed")), (4, 0));
    assert_eq!(scene.metric("crocodile_pear_detached_running"), 0);
}

/// A server that answers nobody until a gate opens.
fn held(gate: Gate) -> Shop {
    Shop::open(move |_, stream| {
        gate.wait();
        stream.write_all(&answer(204, "", ""))
    })
}

#[test]
fn more_calls_than_may_be_are_refused_before_they_are_made() {
    let gate = Gate::default();
    let hooks = held(gate.clone());
    let scene = Scene::new(
        "detached-bounded",
        &format!(
            "upstreams: {{ hooks: 'http://{}' }}\nendpoints:\n  POST /a:\n    pipeline:\n      \
             - request: {{ to: hooks, path: /, for_each: '1, 2', body: client, detach: {{ in_flight: 3 }} }}\n      \
             - respond: {{ status: 202 }}\n  POST /b:\n    detach: {{ respond: {{ status: 202 }}, in_flight: 1 }}\n    \
             pipeline: [ {{ request: hooks / }} ]\n",
            hooks.address
        ),
    );
    let ask = |path| scene.client().ask("POST", path, &[], "x").status;
    assert_eq!([ask("/a"), ask("/a")], [202, 503]);
    assert_eq!([ask("/b"), ask("/b")], [202, 503]);
    assert_eq!(count(&scene, "refused"), 3);
    stage::until("all are under way", || hooks.calls() == 3);
    assert_eq!(scene.metric("crocodile_pear_detached_running"), 3);
    gate.open();
    stage::until("all end", || count(&scene, "done") == 3);
    assert_eq!([ask("/a"), ask("/b")], [202, 202]);
}

#[test]
fn what_does_not_end_in_time_is_lost_and_reported() {
    let gate = Gate::default();
    let hooks = held(gate.clone());
    let mut scene = Scene::new(
        "detached-lost",
        &format!(
            "clients: {{ grace: 0s, drain: 100ms }}\nupstreams: {{ hooks: 'http://{}' }}\nendpoints:\n  POST /a:\n    pipeline:\n      \
             - request: {{ to: hooks, path: /, body: client, detach: on }}\n      - respond: {{ status: 202 }}\n",
            hooks.address
        ),
    );
    assert_eq!(scene.client().ask("POST", "/a", &[], "x").status, 202);
    stage::until("it is under way", || hooks.calls() == 1);
    scene.gateway.signal("TERM").unwrap();
    scene.gateway.logged("*stopped; cut off: *; detached calls that had not ended: 1*").unwrap();
    assert!(scene.gateway.ended().unwrap().success());
    gate.open();
}

#[test]
fn a_reload_does_not_end_them() {
    let gate = Gate::default();
    let hooks = held(gate.clone());
    let config = format!(
        "upstreams: {{ hooks: 'http://{}' }}\nendpoints:\n  POST /a:\n    pipeline:\n      \
         - request: {{ to: hooks, path: /, body: client, detach: on }}\n      - respond: {{ status: 202 }}\n",
        hooks.address
    );
    let scene = Scene::new("detached-reloaded", &config);
    assert_eq!(scene.client().ask("POST", "/a", &[], "x").status, 202);
    stage::until("it is under way", || hooks.calls() == 1);
    scene.reload(&config);
    gate.open();
    stage::until("it ends", || count(&scene, "done") == 1);
}
