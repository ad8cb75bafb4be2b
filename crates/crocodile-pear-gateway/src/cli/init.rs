//! `init`: a first configuration to change.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::file::CONFIG;
use super::print::print;

const FIRST: &str = include_str!("../../../../examples/first.yaml");

#[derive(Args)]
pub struct Init {
    /// The file to write.
    #[arg(default_value = CONFIG)]
    file: PathBuf,
}

impl Init {
    pub fn execute(self) -> ExitCode {
        let file = &self.file;
        let name = file.display();
        match write(file) {
            Ok(()) => {
                // Without a name, commands take this file.
                let argument = if name.to_string() == CONFIG { String::new() } else { format!(" {name}") };
                print(&format!(
                    "wrote {name}. With `crocodile-pear demo` in another terminal:\n
  crocodile-pear run{argument}
  curl http://127.0.0.1:8081/dashboard/7\n
The operators' page shows what happens: http://127.0.0.1:9090/\n"
                ))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                eprintln!("error: `{name}` is there already; name another file: `crocodile-pear init FILE`");
                ExitCode::from(1)
            }
            Err(error) => {
                eprintln!("error: cannot write `{name}`: {error}");
                ExitCode::from(1)
            }
        }
    }
}

/// Never over a file that is there.
fn write(file: &Path) -> io::Result<()> {
    // Its first lines name a schema that stands beside the examples only.
    let text = FIRST.split_once("\n#\n").map_or(FIRST, |(_, text)| text);
    OpenOptions::new().write(true).create_new(true).open(file)?.write_all(text.as_bytes())
}
