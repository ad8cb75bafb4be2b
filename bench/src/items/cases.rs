//! The cases, and their numbers of clients.

use std::time::Duration;

/// Source E's cases: clients and rounds, with its requests/s and mean milliseconds.
pub const CASES: [Case; 5] = [
    Case { name: "A", clients: 10, rounds: 20, source: (240.0, 42.0) },
    Case { name: "B", clients: 100, rounds: 20, source: (240.0, 210.0) },
    Case { name: "C", clients: 1_000, rounds: 20, source: (220.0, 250.0) },
    Case { name: "D", clients: 20, rounds: 100, source: (250.0, 80.0) },
    Case { name: "E", clients: 20, rounds: 1_000, source: (230.0, 90.0) },
];

/// Clients of the open loop.
pub const OPEN: [u32; 3] = [10, 100, 1_000];
/// Parts of the saturated rate at which it runs.
pub const PARTS: [f64; 3] = [0.25, 0.5, 0.75];
/// Clients where statements are compared.
pub const COMPARED: u32 = 100;
/// Between two cases, so that they are apart in what Prometheus has seen.
pub const PAUSE: Duration = Duration::from_secs(3);
/// Where the items are.
pub const PATH: &str = "/api/items";
/// Rounds of that comparison, of which the median counts.
pub const ROUNDS: usize = 3;

#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub clients: u32,
    pub rounds: u32,
    pub source: (f64, f64),
}
