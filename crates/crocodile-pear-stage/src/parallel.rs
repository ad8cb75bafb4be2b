//! Work on several items at the same time.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;

/// Does `work` for each item on this number of threads, and returns the results in the order of the items.
pub fn in_parallel<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let waiting = Mutex::new(items.into_iter().enumerate());
    let take = || waiting.lock().unwrap().next();
    let turn = || {
        let mut done = Vec::new();
        while let Some((at, item)) = take() {
            done.push((at, work(item)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(turn)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let barrier = std::sync::Barrier::new(2);
        let results = in_parallel(2, (0..100).collect(), |item| {
            // Both threads work.
            barrier.wait();
            2 * item
        });
        assert_eq!(results, (0..100).map(|item| 2 * item).collect::<Vec<_>>());
    }
}
