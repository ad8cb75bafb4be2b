//! The memory that the process may have, by its control groups (cgroups, version 1 and 2): beyond it the kernel kills it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crocodile_pear::unstable::config::spec::Size;

/// Caches, and long work, have this part of the limit, unless they are configured: the rest is for connections and
/// requests.
const PART: u64 = 5;

/// Less is of no use.
const LEAST: u64 = 1 << 20;

/// A group without a limit has a number of about 2^63 in version 1.
const UNLIMITED: u64 = 1 << 60;

static LIMIT: LazyLock<Option<u64>> = LazyLock::new(|| read(Path::new("/")));

/// The limit in bytes, as it was when the process began; `None` without one.
pub fn limit() -> Option<u64> {
    *LIMIT
}

/// The usual size, or the part of the limit that may be used where nothing is configured, if that is less.
pub fn within(usual: Size, limit: Option<u64>) -> Size {
    match limit {
        Some(limit) => Size(usual.0.min((limit / PART).max(LEAST))),
        None => usual,
    }
}

/// The tightest limit of the process's groups, and of those that they are in. `root` is the root of the file system.
fn read(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups.lines().filter_map(|line| of_group(&root.join("sys/fs/cgroup"), line)).min()
}

/// A line is `NUMBER:CONTROLLERS:PATH`; version 2 has no controllers in it.
fn of_group(mounted: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (tree, file) = match controllers {
        "" => (mounted.to_owned(), "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => (mounted.join("memory"), "memory.limit_in_bytes"),
        _ => return None,
    };
    // In a container the tree may begin at the group itself, whatever its path outside is.
    let folders = Path::new(path.trim_start_matches('/')).ancestors().map(|part| tree.join(part));
    folders.filter_map(|folder: PathBuf| bytes(&folder.join(file))).min()
}

/// `max`, or a number.
fn bytes(file: &Path) -> Option<u64> {
    let number = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    Some(number).filter(|number| *number < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::super::memory_limit::*;

    /// The limit that is read where these files are.
    fn found(name: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = std::env::temp_dir().join(format!("memory_limit_{}_{name}", std::process::id()));
        for (file, text) in files {
            let file = root.join(file);
            fs::create_dir_all(file.parent().expect("it is in a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        let found = read(&root);
        let _ = fs::remove_dir_all(root);
        found
    }

    #[test]
    fn the_tightest_group_of_version_2_counts() {
        let own = "0::/system.slice/gateway.service\n";
        let files = [
            ("proc/self/cgroup", own),
            ("sys/fs/cgroup/system.slice/gateway.service/memory.max", "max\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "100663296\n"),
        ];
        assert_eq!(found("two", &files), Some(96 << 20));
        let tighter = ("sys/fs/cgroup/system.slice/gateway.service/memory.max", "67108864\n");
        assert_eq!(found("tighter", &[files[0], tighter, files[2]]), Some(64 << 20));
        assert_eq!(found("unlimited", &files[..2]), None);
        // In a container the group is the root of the tree.
        assert_eq!(
            found("container", &[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "1048576")]),
            Some(1 << 20)
        );
    }

    #[test]
    fn groups_of_version_1_count_for_their_controller() {
        let groups = "5:cpu,cpuacct:/a\n4:memory:/docker/b\n0::/c\n";
        let limit = ("sys/fs/cgroup/memory/docker/b/memory.limit_in_bytes", "100663296\n");
        let other = ("sys/fs/cgroup/cpu,cpuacct/a/memory.limit_in_bytes", "1\n");
        assert_eq!(found("one", &[("proc/self/cgroup", groups), limit, other]), Some(96 << 20));
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(found("none", &[("proc/self/cgroup", groups), none]), None);
        // A container whose tree begins at the group.
        let inside = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "209715200\n");
        assert_eq!(found("inside", &[("proc/self/cgroup", groups), inside]), Some(200 << 20));
        assert_eq!(found("nothing", &[]), None);
    }

    #[test]
    fn what_is_usual_fits_into_the_limit() {
        let usual = Size(256 << 20);
        assert_eq!(within(usual, None), usual);
        assert_eq!(within(usual, Some(8 << 30)), usual);
        assert_eq!(within(usual, Some(96 << 20)), Size((96 << 20) / 5));
        assert_eq!(within(usual, Some(1 << 20)), Size(LEAST));
    }
}
