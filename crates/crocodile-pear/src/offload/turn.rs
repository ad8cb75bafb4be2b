//! The turns of a core: after some work of its requests, its sockets have theirs.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};

use crocodile_pear_jq::meter;

use crate::runtime;

/// Units of one turn of a core: four milliseconds of usual steps. Then others have their turn, and the sockets.
pub const TURN_UNITS: u64 = 100_000;

/// The most turns that work waits for.
const TURNS: usize = 16;

struct CoreTurn {
    /// All units that were spent on this thread, except as a helper; and those of them when its turn began.
    spent: Cell<u64>,
    began: Cell<u64>,
    /// Whether it has ended, so that the next one begins when the runtime has looked at its sockets.
    ended: Cell<bool>,
}

thread_local! {
    static TURN: CoreTurn = const { CoreTurn { spent: Cell::new(0), began: Cell::new(0), ended: Cell::new(false) } };
}

/// Units that were spent on this thread, which serves others too.
pub fn spent() -> u64 {
    meter::observe(spend);
    TURN.with(|turn| turn.spent.get())
}

/// Counts units of work.
pub fn spend(units: u64) {
    TURN.with(|turn| turn.spend(units));
}

/// Whether this thread should do no more before it has looked at its sockets: a turn has ended, and as much again was done since.
pub fn is_spent() -> bool {
    meter::observe(spend);
    TURN.with(|turn| {
        let spent = turn.ended.get() && turn.units() >= TURN_UNITS;
        if spent {
            // Once more: the runtime that was told before may not run any longer.
            tell_of_next_turn();
        }
        spent
    })
}

/// Waits for a turn that has not ended, but not for long: those before it may have much to do.
pub async fn turn() {
    for _ in 0..TURNS {
        if !TURN.with(|turn| turn.ended.get()) {
            return;
        }
        // Tells the runtime again where another one was told.
        is_spent();
        tokio::task::yield_now().await;
    }
}

/// Begins the next turn when the runtime has looked at its sockets.
fn tell_of_next_turn() {
    struct NextTurn;

    impl Wake for NextTurn {
        fn wake(self: Arc<Self>) {
            TURN.with(CoreTurn::begin);
        }
    }

    runtime::wake_after_sockets(&Waker::from(Arc::new(NextTurn)));
}

impl CoreTurn {
    fn spend(&self, units: u64) {
        self.spent.set(self.spent.get().wrapping_add(units));
        if self.units() >= TURN_UNITS && !self.ended.get() {
            self.end();
        }
    }

    fn units(&self) -> u64 {
        self.spent.get().wrapping_sub(self.began.get())
    }

    #[cold]
    fn end(&self) {
        self.began.set(self.spent.get());
        self.ended.set(true);
        tell_of_next_turn();
    }

    fn begin(&self) {
        self.began.set(self.spent.get());
        self.ended.set(false);
    }
}
