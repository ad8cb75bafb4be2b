//! A file that a configuration names: its bytes, or why they cannot be read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A longer file is a mistake: ten thousand endpoints fit well.
const LONGEST: u64 = 16 << 20;

/// The standard input, in the place of a file.
const STDIN: &str = "-";

/// Reads a file that a configuration names, or says why it cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    bytes(path).map_err(|fault| reason(&fault))
}

/// The bytes of a file, within the bound.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = match path.as_os_str() == STDIN {
        true => io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes)?,
        false => File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?,
    };
    if length as u64 > LONGEST {
        return Err(io::Error::other("it is longer than 16 MiB"));
    }
    Ok(bytes)
}

/// Why it cannot be read.
pub fn reason(fault: &io::Error) -> String {
    match fault.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not".to_owned(),
        io::ErrorKind::InvalidData => "it is not UTF-8".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => fault.to_string(),
    }
}
