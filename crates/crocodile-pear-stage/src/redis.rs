//! A Redis server of the test's own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::ports::free_port;
use crate::until;

/// A server without a disk, which ends with it.
pub struct Redis {
    pub port: u16,
    server: Child,
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Redis {
    /// `None` if none is installed.
    pub fn start() -> Option<Self> {
        let port = free_port();
        let Ok(server) = launch(port) else {
            crate::skip("redis-server");
            return None;
        };
        let redis = Redis { port, server };
        redis.ready();
        Some(redis)
    }

    fn ready(&self) {
        until("redis-server listens", || self.run(&["PING"]).is_some_and(|said| said.starts_with("+PONG")));
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }

    /// Starts it again, on the same port.
    pub fn restart(&mut self) {
        self.server = launch(self.port).unwrap();
        self.ready();
    }

    /// Sends a signal, as `STOP`.
    pub fn signal(&self, name: &str) {
        let command = format!("kill -s {name} {}", self.server.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }

    /// Ends it as an operator does.
    pub fn terminate(&mut self) {
        self.signal("TERM");
        let _ = self.server.wait();
    }

    /// Runs a command; the first bytes that it says.
    pub fn run(&self, words: &[&str]) -> Option<String> {
        run(self.port, words)
    }

    /// Runs commands on one connection.
    pub fn run_all(&self, commands: &[&[&str]]) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        commands.iter().for_each(|words| drop(say(&mut stream, words)));
    }
}

/// Runs a command at a port; the first bytes of what is said.
pub fn run(port: u16, words: &[&str]) -> Option<String> {
    say(&mut TcpStream::connect(("127.0.0.1", port)).ok()?, words)
}

fn say(stream: &mut TcpStream, words: &[&str]) -> Option<String> {
    let mut command = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| command.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    stream.write_all(command.as_bytes()).ok()?;
    let mut said = [0; 4096];
    let length = stream.read(&mut said).ok().filter(|length| *length > 0)?;
    Some(String::from_utf8_lossy(&said[..length]).into_owned())
}

fn launch(port: u16) -> std::io::Result<Child> {
    let arguments = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    Command::new("redis-server").args(arguments).stdout(Stdio::null()).spawn()
}
