//! Opens files below a folder, and nothing outside it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use percent_encoding::percent_decode_str;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// The file or folder at a path.
pub enum FileLookup {
    /// A regular file.
    File(OwnedFd, FileMeta),
    Folder,
    /// Neither, or something that is not served.
    Nothing,
}

/// When a file was changed, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMeta {
    pub length: u64,
    pub seconds: i64,
    pub nanoseconds: u64,
}

/// The path of a file, decoded and without slashes around it; nothing for one that no file may have.
pub fn clean(rest: &str) -> Option<String> {
    let bare = rest.strip_prefix('/').unwrap_or(rest);
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    if bare.is_empty() {
        // `//` is not the folder.
        return (rest.len() < 2).then(String::new);
    }
    let mut path = String::with_capacity(bare.len());
    for segment in bare.split('/') {
        let name = percent_decode_str(segment).decode_utf8().ok()?;
        let odd = |byte: u8| byte < b' ' || byte == 0x7f || byte == b'/' || byte == b'\\';
        if name.is_empty() || name.starts_with('.') || name.len() > LONGEST || name.bytes().any(odd) {
            return None;
        }
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(&name);
    }
    Some(path)
}

/// The longest name that file systems have.
const LONGEST: usize = 255;

/// Without `NONBLOCK` a pipe would hold the core.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens the folder itself, or the only file.
pub fn open_root(root: &Path) -> FileLookup {
    openat(CWD, root, READ, Mode::empty()).map_or(FileLookup::Nothing, judge)
}

/// Opens a clean path below the folder. The folder is looked up anew, since it may have been replaced.
pub fn open(root: &Path, path: &str) -> FileLookup {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = openat(CWD, root, folder, Mode::empty()) else { return FileLookup::Nothing };
    if path.is_empty() {
        return FileLookup::Folder;
    }
    below(&root, path).map_or(FileLookup::Nothing, judge)
}

/// The kernel itself refuses what leads out of the folder: `..`, and links.
fn below(root: &OwnedFd, path: &str) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, path, READ, Mode::empty(), within) {
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => step_by_step(root, path),
        opened => opened,
    }
}

/// For kernels before 5.6: segment by segment, and no link is followed.
fn step_by_step(root: &OwnedFd, path: &str) -> rustix::io::Result<OwnedFd> {
    let mut folder: Option<OwnedFd> = None;
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let at = folder.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        let last = segments.peek().is_none();
        let flags = if last { READ } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC };
        let opened = openat(at, segment, flags | OFlags::NOFOLLOW, Mode::empty())?;
        if last {
            return Ok(opened);
        }
        folder = Some(opened);
    }
    Err(rustix::io::Errno::NOENT)
}

fn judge(file: OwnedFd) -> FileLookup {
    let Ok(stat) = fstat(&file) else { return FileLookup::Nothing };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let meta = FileMeta {
                length: u64::try_from(stat.st_size).unwrap_or(0),
                seconds: stat.st_mtime,
                nanoseconds: stat.st_mtime_nsec,
            };
            FileLookup::File(file, meta)
        }
        FileType::Directory => FileLookup::Folder,
        _ => FileLookup::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_paths() {
        for (rest, path) in [("", ""), ("/", ""), ("/a", "a"), ("/a/b%20c/", "a/b c"), ("/%C3%A4.txt", "ä.txt")] {
            assert_eq!(clean(rest).as_deref(), Some(path), "{rest}");
        }
        for rest in [
            "//", "//a", "/a//b", "/..", "/%2e%2e", "/.git", "/a/.env", "/a%2fb", "/a%5cb", "/a\\b", "/a%00b", "/%ff",
            "/a/%2E", "/a%0ab",
        ] {
            assert_eq!(clean(rest), None, "{rest}");
        }
    }

    #[test]
    fn without_the_kernels_help_nothing_leads_out_either() {
        let folder = std::env::temp_dir().join(format!("crocodile-pear-files-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("in/deep")).expect("a folder");
        std::fs::write(folder.join("secret"), "s").expect("a file");
        std::fs::write(folder.join("in/deep/a"), "a").expect("a file");
        let _ = std::os::unix::fs::symlink("../secret", folder.join("in/link"));
        let _ = std::os::unix::fs::symlink("..", folder.join("in/up"));
        let root = openat(CWD, folder.join("in"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("a folder");
        assert!(step_by_step(&root, "deep/a").is_ok());
        for path in ["link", "up/secret", "deep/b"] {
            assert!(step_by_step(&root, path).is_err(), "{path}");
            assert!(below(&root, path).is_err(), "{path}");
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
