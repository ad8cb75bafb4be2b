//! nginx itself.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::stage::ports::free_address;
use crate::stage::within;

/// A start takes less than a second; the machine may be busy.
const LONG: Duration = Duration::from_secs(30);

/// nginx in a process of its own, which ends with it.
pub struct Nginx {
    pub address: SocketAddr,
    child: Child,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It stops its workers at this signal; they would stay behind a kill.
        let stopped = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        if stopped.is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// Starts it in a folder with a configuration for this address; none where it is missing.
    pub fn start(folder: &Path, file: impl FnOnce(SocketAddr) -> String) -> Option<Self> {
        let Some(program) = program() else {
            assert!(std::env::var_os("CI").is_none(), "install nginx");
            // Past the capture of the harness: who runs the tests is to see it.
            let _ = std::io::stderr().write_all(b"skipped: install nginx\n");
            return None;
        };
        let address = free_address();
        fs::write(folder.join("nginx.conf"), file(address)).unwrap();
        let mut command = Command::new(program);
        let command = command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
        let log = fs::File::create(folder.join("error.log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut nginx = Nginx { address, child };
        let listens = within(LONG, || {
            let ended = nginx.child.try_wait().ok().flatten().is_some();
            TcpStream::connect(address).ok().map(|_| true).or_else(|| ended.then_some(false))
        });
        let log = || fs::read_to_string(folder.join("error.log")).unwrap_or_default();
        assert_eq!(listens, Some(true), "nginx does not start: {}", log());
        Some(nginx)
    }
}

fn program() -> Option<&'static str> {
    let names = ["nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"];
    names.into_iter().find(|name| Command::new(name).arg("-v").stderr(Stdio::null()).status().is_ok())
}
