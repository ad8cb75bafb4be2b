//! `completions` and `man`: what shells and readers know of the commands.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::print::print;

#[derive(Args)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

impl Completions {
    /// Prints the completions of `command`.
    pub fn execute(self, mut command: Command) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "crocodile-pear", &mut script);
        // clap_complete writes a hyphen in the name of a program in two ways, so that bash finds no command behind it.
        print(&String::from_utf8_lossy(&script).replace("crocodile__subcmd__pear", "crocodile__pear"))
    }
}

#[derive(Args)]
pub struct Man {
    /// An existing folder; files of the same names are replaced.
    folder: PathBuf,
}

impl Man {
    /// Writes the pages of `command`.
    pub fn execute(self, command: Command) -> ExitCode {
        match clap_mangen::generate_to(command, &self.folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: cannot write to `{}`: {error}", self.folder.display());
                ExitCode::from(1)
            }
        }
    }
}
