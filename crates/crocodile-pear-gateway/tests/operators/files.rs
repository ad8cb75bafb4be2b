//! Files: what a configuration of somebody else makes the gateway read, and what it leaves on the disk.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::stage::gateway::Gateway;
use crate::stage::{scratch, within};

const SERVES: &str = "endpoints: { GET /a: { pipeline: [ respond: { body: 'true' } ] } }\n";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = scratch("operators").join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.0.join(name), text).unwrap();
        self.0.join(name)
    }

    /// The output of `check` for a configuration, within a bounded time of the processor and memory.
    fn check(&self, text: impl AsRef<[u8]>) -> Output {
        let file = self.write("gateway.yaml", text);
        // 1 GiB: a bomb is an error, not the end of the machine.
        let command = format!(
            "ulimit -v 2097152; ulimit -t 20; exec timeout 90 {} check {}",
            env!("CARGO_BIN_EXE_crocodile-pear"),
            file.display()
        );
        Command::new("sh").args(["-c", &command]).current_dir(&self.0).output().unwrap()
    }

    fn refused(&self, text: impl AsRef<[u8]>, why: &str) {
        let output = self.check(text);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{why}: {said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(why), "{why}: {said}");
        assert!(said.len() < 512 << 10, "{why}: {} bytes are said", said.len());
    }
}

#[test]
fn no_bomb_of_yaml_is_blown_up() {
    let folder = Folder::new("bombs");
    let laughs = |merge: &str| {
        let mut text = "a0: &a0 { k: lol }\n".to_owned();
        for level in 1..40 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            text += &format!("a{level}: &a{level} {{ {merge}: [ {aliases} ] }}\n");
        }
        text + SERVES
    };
    folder.refused(laughs("x"), "aliases make this configuration too large");
    // Merged maps have each key once.
    folder.refused(laughs("<<"), "unknown field `a39`");
    let keys: String = (0..60_000).map(|at| format!("  k{at}: 1\n")).collect();
    folder.refused(format!("a: &a\n{keys}b: {{ <<: *a }}\nc: {{ <<: [ *a, *a, *a ] }}\n{SERVES}"), "");
    // All in one line, as other programs write it.
    let keys: Vec<String> = (0..5_000).map(|at| format!("\"k{at}\": 1")).collect();
    folder.refused(format!("{{ {}, \"endpoints\": {{}} }}", keys.join(", ")), "... and 4");
    folder.refused("[".repeat(1 << 20), "lie in each other");
    folder.refused(format!("a: {}1{}\n{SERVES}", "[".repeat(5000), "]".repeat(5000)), "lie in each other");
    folder.refused("{a: ".repeat(1 << 18), "lie in each other");
    folder.refused((0..5000).map(|at| format!("{}- \n", " ".repeat(at))).collect::<String>(), "");
    folder.refused(format!("a: &a [ *a ]\n{SERVES}"), "the alias is inside of what it names");
    folder.refused(format!("threads: {}\n{SERVES}", "9".repeat(1 << 20)), "threads");
    folder.refused(format!("{}: 1\n{SERVES}", "k".repeat(1 << 20)), "");
    folder.refused(format!("a: \"{}\"\n{SERVES}", "\\x".repeat(1 << 18)), "");
    folder.refused((0..20_000).map(|at| format!("k{at}: 1\n")).collect::<String>(), "unknown field");
    let calls: Vec<String> = (0..4_000).map(|at| format!("r{at}: shop /x")).collect();
    let calls =
        format!("endpoints: {{ GET /a: {{ pipeline: [ {{ requests: {{ {} }} }}, merge: . ] }} }}\n", calls.join(", "));
    assert_eq!(folder.check(format!("upstreams: {{ shop: http://127.0.0.1 }}\n{calls}")).status.code(), Some(0));
    folder.refused(vec![b'a'; 17 << 20], "longer than 16 MiB");
    folder.refused([0xff, 0xfe, 0, 0], "");
    folder.refused("? [a, b]\n: c\n", "");
    folder.refused("!!python/object/apply:os.system ['true']\n", "tags are not supported");
}

#[test]
fn what_is_included_is_a_file_of_bounded_size_read_once() {
    let folder = Folder::new("includes");
    folder.write("self.yaml", "include: self.yaml\n");
    folder.refused(format!("include: self.yaml\n{SERVES}"), "includes itself");
    folder.write("one.yaml", "include: two.yaml\n");
    folder.write("two.yaml", "include: one.yaml\n");
    folder.refused(format!("include: one.yaml\n{SERVES}"), "includes itself");
    symlink("loop.yaml", folder.0.join("loop.yaml")).unwrap();
    folder.refused(format!("include: loop.yaml\n{SERVES}"), "cannot read");
    folder.refused(format!("include: /dev/zero\n{SERVES}"), "longer than 16 MiB");
    folder.refused(format!("include: /\n{SERVES}"), "it is a directory");
    for at in 0..300 {
        folder.write(&format!("part{at}.yaml"), "");
    }
    let parts: Vec<String> = (0..300).map(|at| format!("part{at}.yaml")).collect();
    folder.refused(format!("include: [ {} ]\n{SERVES}", parts.join(", ")), "more than 256 files");
    let environment = folder.check(format!("include: /proc/self/environ\n{SERVES}"));
    assert!(!String::from_utf8_lossy(&environment.stdout).contains("PATH="), "{environment:?}");
}

/// A reader of a core file would read keys, tokens, and what clients sent.
#[test]
fn a_crash_leaves_no_core_file() {
    let folder = Folder::new("cores");
    let file = folder.write("gateway.yaml", format!("listen: 127.0.0.1:0\n{SERVES}"));
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -c unlimited 2>/dev/null; exec \"$0\" run \"$1\"", env!("CARGO_BIN_EXE_crocodile-pear")])
        .arg(file);
    let gateway = Gateway::begin(command).unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gateway.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(line.split_whitespace().nth(4), Some("0"), "{line}");
}

#[test]
fn files_that_the_gateway_makes_are_not_for_everybody() {
    let folder = Folder::new("modes");
    let config = format!(
        "listen: [ 'unix:{0}/gateway.sock' ]\nadmin: 'unix:{0}/admin.sock'\nlog: {{ access: {{ to: '{0}/access.log' }} }}\n\
         analytics: {{ folder: '{0}/figures' }}\n{SERVES}",
        folder.0.display()
    );
    let file = folder.write("gateway.yaml", config);
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" run \"$1\"", env!("CARGO_BIN_EXE_crocodile-pear")]).arg(file);
    command.stderr(std::process::Stdio::null());
    let mut gateway = command.spawn().unwrap();
    let mode = |path: &Path| Some(std::fs::metadata(path).ok()?.permissions().mode() & 0o777);
    let told = ["access.log", "figures", "figures/lock", "admin.sock", "gateway.sock"]
        .map(|name| (name, within(crate::stage::PATIENCE, || mode(&folder.0.join(name)))));
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    for (name, mode) in told {
        let mode = mode.unwrap_or_else(|| panic!("{name} is not there"));
        assert_eq!(mode & 0o007, 0, "{name} has the mode {mode:o}");
    }
}
