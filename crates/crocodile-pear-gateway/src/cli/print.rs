//! Output of the commands.

use std::process::ExitCode;

/// Writes to the standard output; a reader that went away ends the command, silently.
pub(super) fn print(text: &str) -> ExitCode {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
