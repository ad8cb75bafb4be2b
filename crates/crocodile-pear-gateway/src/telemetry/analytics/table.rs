//! The counts of the cores, each for itself, and those of a minute, added up.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crocodile_pear::unstable::runtime::thread_id::THREADS;
use crocodile_pear::unstable::telemetry::request_record::Totals;

use super::consumers::{Consumers, OTHER};
use super::counts::Counts;
use super::row::Row;
use crate::telemetry::request_end::RequestEnd;

/// The consumers that a core tells apart between two looks; further ones are counted together.
const CONSUMERS: usize = 4096;

/// The consumers of a minute that are told apart until it is written.
const OF_A_MINUTE: usize = 16_384;

/// The approximate memory of the counts of one subject.
const ENTRY: usize = size_of::<(Subject, Counts)>() + 32;

/// Adds to the counts of a consumer.
fn sum(all: &mut HashMap<String, Counts>, consumer: &str, counts: &Counts) {
    match all.get_mut(consumer) {
        Some(own) => own.add(counts),
        None => drop(all.insert(consumer.to_owned(), counts.clone())),
    }
}

/// For which route and which consumer a request is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    route: u32,
    consumer: Option<String>,
}

impl Subject {
    /// Where consumers are not asked for.
    pub fn route(route: u32) -> Self {
        Subject { route, consumer: None }
    }

    pub fn consumer(route: u32, consumer: String) -> Self {
        Subject { route, consumer: Some(consumer) }
    }

    fn other(&self) -> Self {
        Subject { route: self.route, consumer: Some(OTHER.to_owned()) }
    }
}

/// The counts of all cores.
pub struct Tables {
    /// By the core; a lock is shared only with the task that empties it, some times a minute.
    cores: Vec<CountShard>,
    /// The names of the routes, by their numbers.
    routes: RwLock<Vec<String>>,
}

/// Each core has cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct CountShard(Mutex<CoreCounts>);

#[derive(Default)]
struct CoreCounts {
    /// The counts of requests without a consumer, by the number of the route.
    routes: Vec<Counts>,
    consumers: HashMap<Subject, Counts>,
}

impl CoreCounts {
    fn weight(&self) -> usize {
        self.routes.capacity() * size_of::<Counts>() + self.consumers.capacity() * ENTRY
    }

    fn route(&mut self, route: u32) -> &mut Counts {
        let at = route as usize;
        if self.routes.len() <= at {
            self.routes.resize_with(at + 1, Counts::default);
        }
        &mut self.routes[at]
    }

    fn consumer(&mut self, subject: Subject) -> &mut Counts {
        let known = self.consumers.len() < CONSUMERS || self.consumers.contains_key(&subject);
        let subject = if known { subject } else { subject.other() };
        self.consumers.entry(subject).or_default()
    }
}

impl Default for Tables {
    fn default() -> Self {
        Tables { cores: (0..THREADS).map(|_| CountShard::default()).collect(), routes: RwLock::default() }
    }
}

impl Tables {
    /// The number of a route.
    pub fn route(&self, name: &str) -> u32 {
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        let at = routes.iter().position(|known| known == name).unwrap_or_else(|| {
            routes.push(name.to_owned());
            routes.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Counts a request that was served with these calls.
    pub fn count(&self, core: usize, subject: Subject, ended: &RequestEnd<'_>, calls: &Totals) {
        let mut counts = self.cores[core % THREADS].lock();
        match subject.consumer {
            None => counts.route(subject.route).count(ended, calls),
            Some(_) => counts.consumer(subject).count(ended, calls),
        }
    }

    /// The memory that it takes, about.
    pub fn weight(&self) -> usize {
        self.cores.iter().map(|core| core.lock().weight()).sum()
    }

    /// Adds all to a minute and to what consumers have in all, and begins anew.
    pub fn drain(&self, minute: &mut Minute, consumers: &mut Consumers) {
        let mut fresh = HashMap::new();
        for core in &self.cores {
            let mut counts = core.lock();
            let named = std::mem::take(&mut counts.consumers);
            for (route, counts) in (0..).zip(&mut counts.routes) {
                if counts.requests > 0 {
                    minute.add(Subject::route(route), &std::mem::take(counts));
                }
            }
            drop(counts);
            for (subject, counts) in named {
                if let Some(consumer) = &subject.consumer {
                    sum(&mut fresh, consumer, &counts);
                }
                minute.add(subject, &counts);
            }
        }
        consumers.add(fresh);
        minute.routes = self.routes.read().unwrap_or_else(PoisonError::into_inner).clone();
    }
}

impl CountShard {
    fn lock(&self) -> MutexGuard<'_, CoreCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
pub struct Minute {
    /// When it began.
    pub begun: u64,
    counts: HashMap<Subject, Counts>,
    routes: Vec<String>,
}

impl Minute {
    /// A table that begins at this moment.
    pub fn new(begun: u64) -> Self {
        Minute { begun, ..Minute::default() }
    }

    fn add(&mut self, subject: Subject, counts: &Counts) {
        let known = self.counts.len() < OF_A_MINUTE || subject.consumer.is_none() || self.counts.contains_key(&subject);
        let subject = if known { subject } else { subject.other() };
        self.counts.entry(subject).or_default().add(counts);
    }

    /// The memory that it takes, about.
    pub fn weight(&self) -> usize {
        self.counts.capacity() * ENTRY
    }

    /// Its rows; of each route so many consumers have their own, those with the most requests.
    pub fn rows(&self, top: usize) -> Vec<Row> {
        let mut subjects: Vec<(&Subject, &Counts)> = self.counts.iter().collect();
        subjects.sort_by_key(|(subject, counts)| (subject.route, std::cmp::Reverse(counts.requests)));
        let (mut rows, mut route, mut told): (Vec<Row>, _, _) = (Vec::new(), None, 0);
        let mut others = Counts::default();
        for (subject, counts) in subjects {
            if route != Some(subject.route) {
                self.push_others(&mut rows, route, &mut others);
                (route, told) = (Some(subject.route), 0);
            }
            match &subject.consumer {
                Some(consumer) if consumer == OTHER || told == top => others.add(counts),
                consumer => {
                    told += usize::from(consumer.is_some());
                    rows.push(self.row(subject.route, consumer.as_deref().unwrap_or_default(), counts.clone()));
                }
            }
        }
        self.push_others(&mut rows, route, &mut others);
        rows
    }

    fn push_others(&self, rows: &mut Vec<Row>, route: Option<u32>, others: &mut Counts) {
        let others = std::mem::take(others);
        if let (Some(route), true) = (route, others.requests > 0) {
            rows.push(self.row(route, OTHER, others));
        }
    }

    fn row(&self, route: u32, consumer: &str, counts: Counts) -> Row {
        let route = self.routes.get(route as usize).cloned().unwrap_or_default();
        Row { time: self.begun, route, consumer: consumer.to_owned(), counts }
    }
}
