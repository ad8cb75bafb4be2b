//! Lura, built as `lura/go.mod` has it.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::stage::ports::free_address;
use crate::stage::{Program, within};

/// A start takes less than a second; the machine may be busy.
const LONG: Duration = Duration::from_secs(30);

/// Lura in a process of its own, which ends with it.
pub struct Lura {
    pub address: SocketAddr,
    _program: Program,
}

impl Lura {
    /// Starts it with a configuration for this address; none where Go is missing.
    pub fn start(file: impl FnOnce(SocketAddr) -> Value) -> Option<Self> {
        let program = program()?;
        let address = free_address();
        let path = crate::stage::scratch("krakend-theirs.json");
        fs::write(&path, file(address).to_string()).unwrap();
        let child = Command::new(program).arg(&path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let lura = Lura { address, _program: Program(child) };
        within(LONG, || TcpStream::connect(address).ok()).expect("Lura listens");
        Some(lura)
    }
}

/// The program; none without Go.
fn program() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lura");
    let build = |go: &str| {
        let mut build = Command::new(go);
        build.args(["build", "-o"]).arg(&target).arg(".");
        let built = build.current_dir("tests/krakend/lura").env("GOTOOLCHAIN", "local").output().ok()?;
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(target.clone())
    };
    let built = ["go", "/usr/local/go/bin/go"].into_iter().find_map(build);
    if built.is_none() {
        assert!(std::env::var_os("CI").is_none(), "Lura cannot be built: install Go");
        // Past the capture of the harness: who runs the tests is to see it.
        let _ = std::io::stderr().write_all(b"skipped: install Go, which builds Lura\n");
    }
    built
}
