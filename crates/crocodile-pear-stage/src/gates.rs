//! Gates by name: who waits at one goes on when someone else has opened it.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::PATIENCE;

/// All gates of one scenario; all are shut at its start.
#[derive(Clone, Default)]
pub struct Gates(Arc<(Mutex<Opened>, Condvar)>);

#[derive(Default)]
struct Opened {
    names: HashSet<String>,
    over: bool,
}

impl Gates {
    /// Opens a gate, for good.
    pub fn open(&self, name: &str) {
        self.change(|opened| {
            opened.names.insert(name.to_owned());
        });
    }

    /// The scenario is over: nobody waits any longer.
    pub fn end(&self) {
        self.change(|opened| opened.over = true);
    }

    fn change(&self, change: impl FnOnce(&mut Opened)) {
        change(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.1.notify_all();
    }

    /// Waits until a gate is open.
    pub fn pass(&self, name: &str) -> Result<(), String> {
        let opened = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shut = |opened: &mut Opened| !opened.names.contains(name) && !opened.over;
        let (opened, _) = self.0.1.wait_timeout_while(opened, PATIENCE, shut).unwrap_or_else(PoisonError::into_inner);
        if opened.names.contains(name) { Ok(()) } else { Err(format!("the gate `{name}` was never opened")) }
    }
}
