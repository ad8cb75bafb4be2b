//! The configuration that serves, for operators: when it was read, and what was said of it.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The status of the configuration.
#[derive(Clone, Debug)]
pub struct ConfigStatus {
    /// When the one that serves was read.
    pub read: SystemTime,
    /// The warnings of `check`, a line each.
    pub warnings: Vec<String>,
    /// A later one that was refused: when, and why.
    pub refused: Option<(SystemTime, Vec<String>)>,
}

/// The same, while it changes.
pub struct Configured(Mutex<ConfigStatus>);

impl Default for Configured {
    fn default() -> Self {
        Configured(Mutex::new(ConfigStatus { read: SystemTime::now(), warnings: Vec::new(), refused: None }))
    }
}

impl Configured {
    /// Notes that a configuration serves from now on.
    pub fn accept(&self, warnings: Vec<String>) {
        self.change(|status| *status = ConfigStatus { read: SystemTime::now(), warnings, refused: None });
    }

    /// Notes that a configuration was refused.
    pub fn refuse(&self, problems: Vec<String>) {
        self.change(|status| status.refused = Some((SystemTime::now(), problems)));
    }

    /// The status now.
    pub fn status(&self) -> ConfigStatus {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut ConfigStatus)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
