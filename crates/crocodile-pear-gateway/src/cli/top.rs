//! `top`: how a running gateway is, in the terminal.

mod table;

use std::io::{IsTerminal, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::net::address::{self, Address};

/// Clears the screen, and goes to its beginning.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// The variable of the environment with the `token` of `admin`. As an argument, all users of the machine would see it.
const TOKEN: &str = "CROCODILE_PEAR_ADMIN_TOKEN";

#[derive(Args)]
#[command(after_help = "If `admin` needs a token, set it in the environment variable CROCODILE_PEAR_ADMIN_TOKEN.")]
pub struct Top {
    /// The `admin` address of the gateway, `HOST:PORT` or `unix:/PATH`.
    #[arg(default_value = "127.0.0.1:9090")]
    address: String,
    /// Print it once and exit.
    #[arg(long)]
    once: bool,
}

impl Top {
    pub fn execute(self) -> ExitCode {
        let mut problems = crocodile_pear::unstable::config::problem::Problems::default();
        let written = crocodile_pear::unstable::config::spec::Located::new(self.address.clone(), Default::default());
        let Some(address) = address::read(&written, &mut problems) else {
            eprintln!("error: `{}` is not an address: write `HOST:PORT` or `unix:/PATH`", self.address);
            return ExitCode::from(2);
        };
        let token = std::env::var(TOKEN).ok();
        let again = !self.once && std::io::stdout().is_terminal();
        loop {
            match look(&address, token.as_deref()) {
                Ok(text) if again => show(&format!("{CLEAR}{text}")),
                Ok(text) => return super::print::print(&text),
                Err(told) if again => show(&format!("{CLEAR}{told}\n")),
                Err(told) => {
                    eprintln!("error: {told}");
                    return ExitCode::from(1);
                }
            }
            thread::sleep(Duration::from_secs(1));
        }
    }
}

fn look(address: &Address, token: Option<&str>) -> Result<String, String> {
    status(address, token).map(|figures| table::draw(&figures))
}

fn show(text: &str) {
    let mut out = std::io::stdout();
    // A terminal that is gone ends the command with a signal.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A gateway answers at once, or is not there.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than a status ever is.
const MOST: u64 = 16 << 20;

/// The status, or why there is none.
fn status(address: &Address, token: Option<&str>) -> Result<Value, String> {
    let answer = exchange(address, token).map_err(|error| format!("{address} does not answer: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("{address} does not speak HTTP"))?;
    match head.split(' ').nth(1) {
        Some("200") => serde_json::from_str(body).map_err(|_| format!("{address} is no `admin` of this version")),
        Some("401") => Err("the gateway asks for its token: set CROCODILE_PEAR_ADMIN_TOKEN".to_owned()),
        _ => Err(format!("{address} is not the `admin` address of a gateway")),
    }
}

fn exchange(address: &Address, token: Option<&str>) -> std::io::Result<String> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            ask(stream, "localhost", token)
        }
        _ => {
            let place = address.to_string();
            let stream = TcpStream::connect(&place)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            ask(stream, &place, token)
        }
    }
}

fn ask(mut stream: impl Read + Write, host: &str, token: Option<&str>) -> std::io::Result<String> {
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    // In HTTP/1.0 an answer ends with its connection.
    write!(stream, "GET /status HTTP/1.0\r\nhost: {host}\r\n{token}\r\n")?;
    let mut answer = String::new();
    stream.take(MOST).read_to_string(&mut answer)?;
    Ok(answer)
}
