//! `top`: how a running gateway is, in the terminal.

mod ask;
mod table;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;

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
    ask::status(address, token).map(|status| table::draw(&status))
}

fn show(text: &str) {
    let mut out = std::io::stdout();
    // A terminal that is gone ends the command with a signal.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
