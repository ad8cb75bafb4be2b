//! A stage for scenarios: the gateway as its own process, upstreams that follow a script, clients that see every byte.

// A test may panic where something unexpected happens, and prints a line when it is skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

pub mod bouncer;
pub mod client;
pub mod database;
pub mod downloads;
pub mod downstream;
pub mod faults;
pub mod frames;
pub mod front;
pub mod gates;
pub mod gateway;
pub mod logs;
pub mod names;
mod parallel;
pub mod play;
pub mod ports;
pub mod redis;
pub mod relay;
pub mod scene;
pub mod schema;
pub mod script;
pub mod secure;
pub mod upstream;

pub use crocodile_pear_peers::wait::{found, pause, until, within};
pub use crocodile_pear_peers::{
    PATIENCE, absent, accept, asked, authority, changing, http2, moody, played, served, shop, test_rng,
};
pub use parallel::in_parallel;

/// A program of the gateway's package, which Cargo builds before its tests: it lies beside the folder of the test that runs.
pub fn program(name: &str) -> std::path::PathBuf {
    target().join(name)
}

/// A process that ends with the test.
pub struct Program(pub std::process::Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The path of a file that a test writes. Each module of tests has its own folder, since modules run at the same time.
pub fn scratch(name: impl AsRef<std::path::Path>) -> std::path::PathBuf {
    let test = std::thread::current();
    let module = test.name().and_then(|name| name.split_once("::")).map_or("", |(module, _)| module);
    let folder = target().join("stage").join(module);
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Says that a test is skipped because a program is missing. In CI, that fails the test.
pub fn skip(package: &str) {
    println!("skipped: install {package} to run this test");
    assert!(std::env::var_os("CI").is_none(), "nothing is skipped in CI");
}

fn target() -> std::path::PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(|deps| deps.parent()).unwrap().to_owned()
}
