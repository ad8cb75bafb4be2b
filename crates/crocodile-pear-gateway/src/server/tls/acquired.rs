//! A certificate that is ordered while the listener serves: none yet, then one after the other.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::identity::Identity;

/// The certificate for one name, as it is now. Listeners share it.
#[derive(Debug)]
pub struct Acquired {
    /// The name of the host, in lower case.
    pub name: String,
    current: ArcSwapOption<Identity>,
}

impl Acquired {
    /// None yet.
    pub fn new(name: String) -> Self {
        Acquired { name, current: ArcSwapOption::empty() }
    }

    /// Makes new handshakes with this one.
    pub fn set(&self, identity: Identity) {
        self.current.store(Some(Arc::new(identity)));
    }

    /// The one that there is.
    pub fn get(&self) -> Option<Arc<Identity>> {
        self.current.load_full()
    }
}
