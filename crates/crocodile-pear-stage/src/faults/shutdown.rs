//! The end of a gateway while something else fails: it ends in time, requests that it has taken are answered, and what it
//! cuts off it says.

use std::path::Path;
use std::time::Instant;

use super::figures::{Phase, Reply};
use super::{Fault, Figures, Stage, Times, all};
use crate::pause;

/// The faults during which a gateway is told to stop; the first ones are none to a client.
pub const SHUTDOWNS: [&str; 8] = [
    "machine/idle_clients",
    "machine/log_unread",
    "redis/killed",
    "redis/silent",
    "postgresql/killed",
    "postgresql/frozen",
    "dns/silent",
    "identity/collector_silent",
];

/// The most clients that may connect in the moment in which the listener closes. A client comes every five milliseconds or more.
const LATE: usize = 2;

/// The gateway stops at once, and for requests in flight it has this time.
const TIMES: &str = "clients: { grace: 0s, drain: 3s }\n";

/// Stops a gateway during a fault. `None` if a program is not installed.
pub fn shutdown(program: &Path, name: &str, times: Times) -> Option<Figures> {
    let fault = all().find(|fault| fault.name == name).unwrap_or_else(|| panic!("there is no fault {name}"));
    let fault: &Fault = fault;
    let Stage { name, mut scenes, file, mut gateway, load, .. } = Stage::set(program, &[fault], times.rate, TIMES)?;
    pause(times.before);
    load.enter(Phase::During);
    scenes.iter_mut().for_each(|scene| scene.strike(&gateway));
    pause(times.during / 2);
    // Who connects from now on is refused, and goes elsewhere.
    load.enter(Phase::Stopping);
    let began = Instant::now();
    gateway.signal("TERM").unwrap();
    let status = gateway.ended().unwrap_or_else(|error| panic!("shutdown/{name}: {error}\n{}", gateway.said()));
    let took = began.elapsed();
    scenes.iter_mut().for_each(|scene| scene.mend(&gateway));
    let mut replies = load.end();
    // A client may connect after the gateway's last look at the queue and before its listener is closed. The system resets it, and has
    // no way to refuse new clients while it keeps those that wait.
    let late = |reply: &&mut Reply| reply.phase == Phase::Stopping && reply.status == 0 && reply.said.contains("reset");
    replies.iter_mut().filter(late).take(LATE).for_each(|reply| reply.said = format!("refused: {}", reply.said));
    let said = gateway.said();
    let unread = fault.name == "machine/log_unread";
    let told = Fault { told: "", ..*fault };
    let mut figures = Figures::of(format!("shutdown/{name}"), &replies, &[&told], (took, times.slack), &said);
    if !status.success() {
        figures.wrong.push(format!("it ended with {status}"));
    }
    if !unread && !said.contains("stopped") {
        figures.wrong.push("no line of the log says that it has stopped".to_owned());
    }
    figures.told = said.lines().rfind(|line| line.contains("stopped")).unwrap_or_default().to_owned();
    let _ = std::fs::remove_file(file);
    Some(figures)
}
