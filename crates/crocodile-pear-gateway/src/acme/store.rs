//! The folder of one authority: its account, certificates with their keys, answers to challenges. Only the gateway's user may
//! read it. Several gateways may share it: a file is replaced as a whole, and the gateway that orders holds a lock.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use http::Uri;

/// A folder.
#[derive(Clone, Debug)]
pub struct CertificateStore(PathBuf);

/// Held while a certificate is ordered. It ends with the process, however that ends.
pub struct Lock {
    _file: File,
}

/// The marks that change when a file changes.
pub type FileStamp = (u64, u64, i64, i64);

/// A file that is removed when this is dropped.
pub struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // It may be gone: another gateway had the same one.
        let _ = fs::remove_file(&self.0);
    }
}

impl CertificateStore {
    /// That of the authority with this directory. Staging and production, or two authorities, never share one.
    pub fn new(root: &Path, directory: &str) -> Self {
        let uri: Uri = directory.parse().unwrap_or_default();
        let named = format!("{}{}", uri.authority().map_or("", |authority| authority.as_str()), uri.path());
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
        let name: String = named.trim_matches('/').chars().map(plain).collect();
        CertificateStore(root.join(name))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where answers to challenges are.
    pub fn challenges(&self) -> PathBuf {
        self.0.join("challenges")
    }

    /// Makes the folders that are missing.
    fn prepare(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.challenges())
    }

    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(name))
    }

    pub fn stamp(&self, name: &str) -> Option<FileStamp> {
        let known = fs::metadata(self.0.join(name)).ok()?;
        Some((known.ino(), known.len(), known.mtime(), known.mtime_nsec()))
    }

    /// Writes a file: whoever reads sees the old one or this one, also after a crash.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.prepare()?;
        // Random: gateways on several machines may share the folder.
        let draft = self.0.join(format!(".draft-{:016x}", RandomState::new().build_hasher().finish()));
        let written = private().create_new(true).write(true).open(&draft).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        let written = written.and_then(|()| fs::rename(&draft, self.0.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Writes the answer to a challenge, for as long as it is waited for.
    pub fn answer(&self, name: &str, text: &str) -> io::Result<TemporaryFile> {
        self.write(&format!("challenges/{name}"), text.as_bytes())?;
        Ok(TemporaryFile(self.challenges().join(name)))
    }

    pub fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.0.join(name));
    }

    /// Holds the lock of this name; nothing, while another gateway has it.
    pub fn lock(&self, name: &str) -> io::Result<Option<Lock>> {
        self.prepare()?;
        let file = private().create(true).truncate(false).write(true).open(self.0.join(format!("{name}.lock")))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

fn private() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_its_own_user_may_read_it() {
        let root = std::env::temp_dir().join(format!("crocodile-pear-store-{}", std::process::id()));
        let store = CertificateStore::new(&root, "https://acme.example:14000/directory");
        assert!(store.path().ends_with("acme.example-14000-directory"), "{:?}", store.path());
        store.write("a.pem", b"one").expect("written");
        store.write("a.pem", b"two").expect("replaced");
        assert_eq!(store.read("a.pem").expect("there"), b"two");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&store.path().join("a.pem")), 0o600);
        assert_eq!((mode(&root), mode(store.path()), mode(&store.challenges())), (0o700, 0o700, 0o700));
        let passing = store.answer("token.http-01", "token.thumb").expect("written");
        assert_eq!(mode(&store.challenges().join("token.http-01")), 0o600);
        drop(passing);
        let left: Vec<_> = fs::read_dir(store.challenges()).expect("there").collect();
        assert!(left.is_empty(), "{left:?}");

        let lock = store.lock("a").expect("possible").expect("free");
        assert!(store.lock("a").expect("possible").is_none());
        assert!(store.lock("b").expect("possible").is_some());
        drop(lock);
        assert!(store.lock("a").expect("possible").is_some());
        fs::remove_dir_all(root).expect("removed");
    }
}
