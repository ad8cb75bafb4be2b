//! A certificate that is ordered while the listener serves: absent at first, then replaced at each renewal.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::identity::Identity;

/// The current certificate for one name, shared by listeners.
#[derive(Debug)]
pub struct Acquired {
    /// The host name, in lower case.
    pub name: String,
    current: ArcSwapOption<Identity>,
}

impl Acquired {
    /// No certificate yet.
    pub fn new(name: String) -> Self {
        Acquired { name, current: ArcSwapOption::empty() }
    }

    /// Uses this certificate for new handshakes.
    pub fn set(&self, identity: Identity) {
        self.current.store(Some(Arc::new(identity)));
    }

    /// The current certificate.
    pub fn get(&self) -> Option<Arc<Identity>> {
        self.current.load_full()
    }
}
