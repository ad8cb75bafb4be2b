//! A file that the configuration names, read again when it changes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use crocodile_pear::unstable::config::spec::Located;

use crate::config;
use crate::runtime::tasks::Task;

/// How often the file system is asked. A file that has changed is read once it has stayed as it is for this time, so
/// that nothing half written is read.
const PERIOD: Duration = Duration::from_millis(250);

/// The value that was made of the file, always of its last good version.
pub struct WatchedFile<T>(ArcSwap<T>);

impl<T: Send + Sync + 'static> WatchedFile<T> {
    /// Watches the file at `path`; `first` was made of it already. The task must run for changes to be seen.
    pub fn new(
        written: &Located<String>,
        path: PathBuf,
        first: T,
        parse: impl Fn(&[u8]) -> Result<T, String> + Send + 'static,
    ) -> (Arc<Self>, Task) {
        let watched = Arc::new(WatchedFile(ArcSwap::from_pointee(first)));
        let (name, kept) = (written.value.clone(), watched.clone());
        // From here on, so that no change is missed between reading and watching.
        let mut seen = FileIdentity::from_path(&path);
        let mut read = seen;
        let task = async move {
            loop {
                tokio::time::sleep(PERIOD).await;
                let now = FileIdentity::from_path(&path);
                let settled = std::mem::replace(&mut seen, now) == now;
                if settled && now != read {
                    read = now;
                    kept.replace(&name, config::read(&path).and_then(|bytes| parse(&bytes)));
                }
            }
        };
        (watched, Box::pin(task))
    }

    fn replace(&self, name: &str, made: Result<T, String>) {
        match made {
            Ok(made) => {
                self.0.store(Arc::new(made));
                tracing::info!("`{name}` has changed and was read again");
            }
            Err(reason) => tracing::error!("cannot use the new `{name}`: {reason}; the old one stays in use"),
        }
    }

    /// The latest.
    pub fn load(&self) -> Guard<Arc<T>> {
        self.0.load()
    }
}

/// The marks that change when a file has been written or replaced. A file that is not there has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity(Option<(u64, u64, u64, i64, i64)>);

impl FileIdentity {
    fn from_path(path: &Path) -> Self {
        let known = |data: fs::Metadata| (data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec());
        FileIdentity(fs::metadata(path).ok().map(known))
    }
}
