//! A run of the command, and what it told.

use std::process::Command;

use serde_json::Value;

use crate::stage::authority::{Authority, Identity};

/// The output of the command.
pub struct Told {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Few calls, and no waiting for idle connections.
const QUICK: [&str; 6] = ["--calls", "5", "--requests", "20", "--idle", "0s"];

pub fn probe(url: &str, more: &[&str]) -> Told {
    let quick = QUICK.chunks(2).filter(|option| !more.contains(&option[0])).flatten();
    let output = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"))
        .args(["probe", url])
        .args(quick)
        .args(more)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Told { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Told {
    /// Good, and nothing beside the table.
    pub fn good(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        // A file may have any name.
        let mut lines = self.out.lines().filter(|line| !line.contains(": '/"));
        assert!(lines.all(|line| line.chars().count() < 80), "{}", self.out);
        self.out
    }
}

/// The same as JSON, whatever the exit code.
pub fn json(url: &str, more: &[&str]) -> Value {
    let told = probe(url, &[more, &["--json"]].concat());
    let found: Value = serde_json::from_str(&told.out).unwrap();
    let problems = found["problems"].as_array().unwrap();
    assert_eq!((told.code, told.err.as_str()), (Some(i32::from(!problems.is_empty())), ""), "{found:#}");
    found
}

pub fn http(port: u16) -> String {
    format!("http://127.0.0.1:{port}/item")
}

pub fn https(port: u16) -> String {
    format!("https://localhost:{port}/item")
}

/// The file of an authority.
pub fn ca(name: &str, authority: &Authority) -> String {
    file(name, &authority.pem())
}

/// The files of a certificate and its key.
pub fn files(name: &str, identity: &Identity) -> (String, String) {
    let (certificate, key) = (identity.certificate.pem(), identity.key.serialize_pem());
    (file(name, certificate.as_bytes()), file(&format!("{name}.key"), key.as_bytes()))
}

fn file(name: &str, pem: &[u8]) -> String {
    let path = crate::stage::scratch(format!("{name}.pem"));
    std::fs::write(&path, pem).unwrap();
    path.to_str().unwrap().to_owned()
}
