use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use super::*;

fn place() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

/// An evaluation of this many units, and where it ended.
fn units(count: usize) -> impl Fn() -> Result<String, Error> + Send + 'static {
    move || {
        evaluate(1 << 40, 1 << 40, || {
            (0..count).for_each(|_| charge(1));
            Ok(place())
        })
    }
}

#[tokio::test]
async fn small_work_stays_and_long_work_goes() {
    let here = place();
    assert_eq!(run(SMALL, units(10_000)).await.expect("done"), here);
    assert_eq!(run(0, units(1_000_000)).await.expect("done"), "helper");
    assert_eq!(run(SMALL + 1, units(1)).await.expect("done"), "helper");
    // Several evaluations share the allowance.
    let several = || (0..10).map(|_| units(10_000)()).collect::<Result<Vec<_>, _>>();
    assert_eq!(run(0, several).await.expect("done").last().map(String::as_str), Some("helper"));
    let made = || evaluate(1 << 40, 1 << 40, || Ok((grow(2 << 20), place()).1));
    assert_eq!(run(0, made).await.expect("done"), "helper");
    // What readers make of a small document counts, too.
    let read = |bytes: usize| move || Ok(((0..8).for_each(|_| hold(bytes)), place()).1);
    assert_eq!(run(0, read(256 << 10)).await.expect("done"), here);
    assert_eq!(run(0, read(1 << 20)).await.expect("done"), "helper");
}

#[test]
fn what_must_end_where_it_is_has_a_small_budget() {
    assert!(units(10_000)().is_ok());
    assert_eq!(units(1_000_000)().expect_err("too long").kind(), Kind::Expression);
}

#[tokio::test]
async fn what_nobody_waits_for_ends() {
    struct Told(mpsc::Sender<&'static str>);
    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.0.send("ended");
        }
    }
    let (sender, receiver) = mpsc::channel();
    let endless = move || {
        let _told = Told(sender.clone());
        let _ = sender.send("begun");
        units(usize::MAX)()
    };
    {
        let mut work = pin!(run(SMALL + 1, endless));
        let waits = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await;
        assert!(waits);
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok("begun"));
    }
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok("ended"));
}

#[tokio::test]
async fn work_that_breaks_breaks_nothing_else() {
    let broken = || -> Result<(), Error> { std::panic::resume_unwind(Box::new("broken")) };
    assert_eq!(run(SMALL + 1, broken).await.expect_err("broken").kind(), Kind::Internal);
    assert_eq!(run(SMALL + 1, units(1)).await.expect("done"), "helper");
}

#[tokio::test]
async fn a_core_that_has_done_enough_lends_small_work_or_waits_for_its_next_turn() {
    let here = place();
    let all = (0..200).map(|_| run(0, units(20_000))).collect::<Vec<_>>();
    let at_once = all.iter().filter(|work| matches!(work, Either::Left(_))).count();
    assert!((5..=12).contains(&at_once), "two turns of 100,000 units: {at_once}");
    let (places, turns) = crate::runtime::beside(futures_util::future::join_all(all)).await;
    let places = places.into_iter().collect::<Result<Vec<_>, _>>().expect("all are done");
    let lent = places.iter().filter(|place| **place != here).count();
    assert!(lent > 100 && turns > 1, "{lent} {turns}");
    assert_eq!(run(0, units(20_000)).await.expect("done"), here, "the next turn has begun");
}

#[test]
fn outside_of_a_runtime_a_turn_never_ends() {
    let works = (0..200).map(|_| matches!(run(0, units(20_000)), Either::Left(_)));
    assert!(works.into_iter().all(|here| here));
}
