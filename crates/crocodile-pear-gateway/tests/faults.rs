//! Faults while requests come, and what clients get meanwhile. The short form runs some of the faults. With
//! `FAULTS=all`, or with beginnings of names such as `FAULTS=redis,dns/silent`, the long form runs these and prints a
//! table. `FAULTS_RELOAD=1` reads the configuration again in the middle of each; `FAULTS_PAIRS=10` runs so many pairs at
//! the same time, chosen by `FAULTS_SEED`. On a machine that does other things too, `FAULTS_SLACK=10` gives answers more time.

// What a test measures it prints.
#![allow(clippy::print_stdout)]

use std::path::Path;

use crocodile_pear_stage::faults::{self, Fault, Figures, Reload, SHUTDOWNS, Times};
use crocodile_pear_stage::in_parallel;

const PROGRAM: &str = env!("CARGO_BIN_EXE_crocodile-pear");

/// Runs faults, prints how they went, and returns what was wrong.
fn run(faults: &[&Fault], times: Times, reload: Reload) -> Vec<String> {
    faults::run(Path::new(PROGRAM), faults, times, reload).map_or_else(Vec::new, print)
}

fn print(figures: Figures) -> Vec<String> {
    let Figures { name, asked, during, times, whole, lines, told, wrong } = figures;
    let told = told.split_once("Z ").map_or(told.as_str(), |(_, line)| line);
    let wrong_count = wrong.len();
    println!("{name} | {asked} | {during:?} | {times:?} | {whole:?} | {lines} lines | {told} | {wrong_count} wrong");
    wrong.iter().take(5).for_each(|reason| println!("  {reason}"));
    wrong.into_iter().take(5).map(|reason| format!("{name}: {reason}")).collect()
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Option<u64> {
    setting(name)?.parse().ok()
}

#[test]
fn clients_get_what_they_may_get_while_something_fails() {
    let wrong: Vec<String> = match setting("FAULTS") {
        Some(names) => long(&names.split(',').collect::<Vec<_>>()),
        None => short(),
    };
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The number of faults that run at the same time: each mostly waits.
const TOGETHER: usize = 4;

/// Runs the faults that are marked as short. Every second one has a reload.
fn short() -> Vec<String> {
    let reload = |at: usize| if at.is_multiple_of(2) { Reload::Never } else { Reload::Meanwhile };
    // The last of the table takes longest, so it is begun first.
    let mut faults: Vec<_> = faults::all().filter(|fault| fault.short).enumerate().collect();
    faults.reverse();
    in_parallel(TOGETHER, faults, |(at, fault)| run(&[fault], Times::SHORT, reload(at))).concat()
}

fn long(names: &[&str]) -> Vec<String> {
    let times = Times { slack: number("FAULTS_SLACK").map_or(1, |slack| slack as u32), ..Times::LONG };
    let reload = if setting("FAULTS_RELOAD").is_some() { Reload::Meanwhile } else { Reload::Never };
    if let Some(count) = number("FAULTS_PAIRS") {
        let pairs = faults::pairs(number("FAULTS_SEED").unwrap_or(1), count as usize);
        return pairs.iter().flat_map(|pair| run(pair, times, reload)).collect();
    }
    let named = |fault: &&Fault| names.contains(&"all") || names.iter().any(|name| fault.name.starts_with(name));
    faults::all().filter(named).flat_map(|fault| run(&[fault], times, reload)).collect()
}

#[test]
fn a_gateway_ends_in_time_while_something_fails() {
    let long = setting("FAULTS").is_some();
    let names = SHUTDOWNS.iter().filter(|name| long || ["redis/silent", "machine/log_unread"].contains(name));
    let times = if long { Times::LONG } else { Times::SHORT };
    let ended = names.filter_map(|name| faults::shutdown(Path::new(PROGRAM), name, times));
    let wrong: Vec<String> = ended.flat_map(print).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
