//! Analytics: what was called, by whom, how well, and what it spared clients; over minutes, hours and days, kept in files that
//! survive a restart.
//!
//! Each core counts for itself. A task adds the counts up, writes a row a minute for what was called, and makes hours of minutes and
//! days of hours.

mod archive;
mod consumers;
mod counts;
mod report;
mod row;
mod table;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crocodile_pear::unstable::telemetry::request_record::Totals;

pub use self::consumers::OTHER;
pub use self::counts::Counts;
pub use self::report::{ExportFormat, Query, csv, json};
pub use self::row::TimeSpan;
pub use self::table::Subject;

use self::archive::Archive;
use self::consumers::Consumers;
use self::row::Row;
use self::table::{Minute, Tables};
use crate::runtime::tasks::Task;
use crate::telemetry::request_end::RequestEnd;

/// How often the counts of the cores are added up.
const PERIOD: Duration = Duration::from_secs(5);

/// Where the figures are kept, and how many of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalyticsSettings {
    /// The folder of the files.
    pub folder: PathBuf,
    /// The most bytes of all files together.
    pub size: u64,
    /// The consumers of a route that have rows of their own, in each minute; the others share one.
    pub top: usize,
}

/// The statistics over all reloads: counts in memory, and their files.
#[derive(Default)]
pub struct Statistics {
    tables: Tables,
    state: Mutex<AnalyticsState>,
}

#[derive(Default)]
struct AnalyticsState {
    /// The counts of the current minute, besides those that the cores still hold.
    minute: Minute,
    /// The counts of consumers since the gateway began.
    consumers: Consumers,
    archive: Option<Archive>,
    settings: Option<AnalyticsSettings>,
    /// Another process may have the folder from now on.
    closed: bool,
}

/// Why no figures are kept.
#[derive(Clone, Copy, Debug)]
pub enum NotKept {
    /// No folder is configured.
    Unconfigured,
    /// The folder is not open yet, cannot be opened, or still belongs to another process.
    NotOpen,
}

impl Statistics {
    /// The number by which a route is counted. A reload counts on.
    pub fn route(&self, name: &str) -> u32 {
        self.tables.route(name)
    }

    /// Counts a request of the core that this thread is, and the calls that it was served with.
    pub fn count(&self, core: usize, subject: Subject, ended: &RequestEnd<'_>, calls: &Totals) {
        self.tables.count(core, subject, ended, calls);
    }

    /// A task that stores the figures while a gateway serves.
    pub fn keep(self: &Arc<Self>, settings: AnalyticsSettings) -> Task {
        let analytics = self.clone();
        Box::pin(async move {
            loop {
                // Another process may still have the folder, and leave it.
                analytics.open(settings.clone(), now());
                tokio::time::sleep(until_next(now())).await;
                analytics.collect(now());
            }
        })
    }

    /// Begins to keep the figures in a folder; goes on with those that are there.
    fn open(&self, settings: AnalyticsSettings, now: u64) {
        let mut state = self.lock();
        if state.closed || state.settings.as_ref() == Some(&settings) && state.archive.is_some() {
            return;
        }
        // First the old one gives up the folder.
        state.archive = None;
        match Archive::open(&settings.folder, settings.size) {
            Ok(mut archive) => {
                // What was not done when it ended.
                archive.roll(now);
                state.archive = Some(archive);
            }
            // Told once: it is tried again before each write.
            Err(error) if state.settings.as_ref() != Some(&settings) => {
                tracing::error!("analytics cannot be kept in `{}`: {error}", settings.folder.display());
            }
            Err(_) => {}
        }
        state.settings = Some(settings);
        if state.minute.begun == 0 {
            state.minute = Minute::new(TimeSpan::Minute.begin(now));
        }
    }

    /// Adds up what the cores have counted. A minute that is over is written.
    fn collect(&self, now: u64) {
        let mut state = self.lock();
        let minute = TimeSpan::Minute.begin(now);
        // The cores' counts since the last look are those of the minute that ends.
        self.drain(&mut state, now);
        if state.minute.begun < minute {
            state.write();
            state.minute = Minute::new(minute);
            if let Some(archive) = &mut state.archive {
                archive.roll(now);
            }
        }
    }

    fn drain(&self, state: &mut AnalyticsState, now: u64) {
        let top = state.settings.as_ref().map_or(0, |settings| settings.top);
        let AnalyticsState { minute, consumers, .. } = state;
        consumers.rank(now, top);
        self.tables.drain(minute, consumers);
    }

    /// The counts of consumers since the gateway began: those with the most requests, and the others together.
    pub fn consumers(&self) -> Vec<(String, Counts)> {
        self.collect(now());
        self.lock().consumers.told()
    }

    /// The memory that the counts take, about; what is in the files takes none.
    pub fn weight(&self) -> usize {
        let state = self.lock();
        self.tables.weight() + state.minute.weight() + state.consumers.weight()
    }

    /// Writes what there is, and gives up the folder: what is counted from now on is not kept.
    pub fn close(&self) {
        let mut state = self.lock();
        self.drain(&mut state, now());
        state.write();
        state.minute = Minute::default();
        state.archive = None;
        state.closed = true;
    }

    /// Whether figures are kept.
    pub fn is_kept(&self) -> bool {
        self.lock().archive.is_some()
    }

    /// Rows that answer a question, oldest first.
    ///
    /// # Errors
    /// No figures are kept.
    pub fn answer(&self, query: &Query) -> Result<Vec<Row>, NotKept> {
        let now = now();
        self.collect(now);
        let (current, reader) = {
            let state = self.lock();
            let why = if state.settings.is_some() { NotKept::NotOpen } else { NotKept::Unconfigured };
            (state.rows(), state.archive.as_ref().ok_or(why)?.reader())
        };
        // The files are read without the lock.
        Ok(report::answer(query, now, &reader, current))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, AnalyticsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnalyticsState {
    fn rows(&self) -> Vec<Row> {
        let top = self.settings.as_ref().map_or(usize::MAX, |settings| settings.top);
        self.minute.rows(top)
    }

    fn write(&mut self) {
        let rows = self.rows();
        if let Some(archive) = &mut self.archive {
            archive.write(TimeSpan::Minute, &rows);
        }
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Until the next look: at the end of a minute, and now and then before it.
fn until_next(now: u64) -> Duration {
    PERIOD.min(Duration::from_secs(60 - now % 60))
}

#[cfg(test)]
mod tests {
    use super::super::analytics::*;
    use super::report::Grouping;
    use crate::telemetry::request_end::ended;

    fn count(analytics: &Statistics, core: usize, subject: Subject, status: u16) {
        let calls = Totals { answers: 3, calls: 2, bytes: 400 };
        ended(status, Duration::from_millis(20), 100, |ended| analytics.count(core, subject, ended, &calls));
    }

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("crocodile-pear-analytics-{name}-{}", std::process::id()))
    }

    fn settings(folder: &std::path::Path) -> AnalyticsSettings {
        AnalyticsSettings { folder: folder.to_owned(), size: 1 << 20, top: 2 }
    }

    #[test]
    fn figures_survive_a_restart_and_are_added_up() {
        let folder = folder("restart");
        let hour = now() / 3600 * 3600;
        for _ in 0..2 {
            let analytics = Arc::new(Statistics::default());
            analytics.open(settings(&folder), hour);
            let route = analytics.route("GET /a");
            for status in [200, 200, 404, 503] {
                count(&analytics, 0, Subject::route(route), status);
            }
            count(&analytics, 1, Subject::route(route), 200);
            analytics.close();
        }
        let analytics = Arc::new(Statistics::default());
        let before = Statistics::default();
        before.open(settings(&folder), now());
        analytics.open(settings(&folder), now());
        assert!(!analytics.is_kept(), "another process has the folder");
        before.close();
        before.open(settings(&folder), now());
        analytics.open(settings(&folder), now());
        let query = Query { from: hour, to: u64::MAX, span: TimeSpan::Day, whole: false, by: Grouping::Route };
        let rows = analytics.answer(&query).expect("they are kept");
        assert_eq!(rows.len(), 1);
        let counts = &rows[0].counts;
        assert_eq!((rows[0].route.as_str(), counts.requests, counts.errors, counts.refused), ("GET /a", 10, 2, 2));
        // Two of three requests are saved each time, and one call was spared.
        assert_eq!((counts.saved_requests, counts.upstream_calls, counts.saved_bytes), (20, 20, 3000));
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn only_the_first_consumers_have_rows_of_their_own() {
        let folder = folder("top");
        let analytics = Arc::new(Statistics::default());
        analytics.open(settings(&folder), now());
        let route = analytics.route("GET /a");
        for (consumer, calls) in [("ada", 5), ("bob", 3), ("eve", 2), ("kim", 1)] {
            for _ in 0..calls {
                count(&analytics, 0, Subject::consumer(route, consumer.to_owned()), 200);
            }
        }
        let query = Query { from: 0, to: u64::MAX, span: TimeSpan::Minute, whole: false, by: Grouping::Consumer };
        let rows = analytics.answer(&query).expect("they are kept");
        let mut told: Vec<_> = rows.iter().map(|row| (row.consumer.as_str(), row.counts.requests)).collect();
        told.sort_unstable();
        assert_eq!(told, [("ada", 5), ("bob", 3), (OTHER, 3)]);
        analytics.close();
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
