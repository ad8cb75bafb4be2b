//! `demo items` that is killed leaves nothing behind.

use std::fs;
use std::path::Path;

use crocodile_pear_demo::postgres::{place, programs};

use crate::stage::gateway::Gateway;
use crate::stage::until;

/// The process of a server, from the first line of its file.
fn server(folder: &Path) -> u32 {
    let file = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
    file.lines().next().unwrap().parse().unwrap()
}

/// Whether it runs: one that has ended may stay in the list until somebody asks for it.
fn runs(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.contains("(postgres)") && !status.contains(") Z ")
}

#[test]
fn a_demo_that_is_killed_takes_its_database_along() {
    if programs().is_none() {
        crate::stage::skip("postgresql");
        return;
    }
    for signal in ["KILL", "TERM"] {
        let mut demo = Gateway::start(["demo", "items", "--listen", "127.0.0.1:0"], []).unwrap();
        let folder = place().join(format!("crocodile-pear-postgres-{}-0", demo.id()));
        let server = server(&folder);
        assert!(runs(server));
        demo.signal(signal).unwrap();
        demo.ended().unwrap();
        until("its database has ended", || !runs(server));
        until("its folder is removed", || !folder.exists());
    }
}
