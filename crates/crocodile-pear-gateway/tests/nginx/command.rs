//! The command: what it writes, its exit statuses, and input that it cannot read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("nginx-command").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn import(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    command.args(["import", "nginx"]).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const WHOLE: &str = "server {\n    listen 8081;\n    location /api/ { proxy_pass http://127.0.0.1:9000/; }\n}\n";

#[test]
fn a_file_that_is_imported_whole_gives_0() {
    let folder = folder("whole");
    fs::write(folder.join("nginx.conf"), WHOLE).unwrap();
    let output = import(&folder, &["nginx.conf", "-o", "out.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let written = fs::read_to_string(folder.join("out.yaml")).unwrap();
    assert!(written.contains("  /api/{*path}: api /{*path}?*\n"), "{written}");
    let output = import(&folder, &["nginx.conf"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), written));
}

#[test]
fn what_is_not_imported_gives_3_and_has_its_place() {
    let folder = folder("part");
    let part = WHOLE.replace("listen 8081;", "listen 8081;\n    if ($http_x) { return 403; }");
    fs::write(folder.join("nginx.conf"), part).unwrap();
    let output = import(&folder, &["nginx.conf", "-o", "out.yaml"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("nginx.conf:3:5") && said.contains("an `if` is not imported"), "{said}");
    assert!(folder.join("out.yaml").exists());
    let output = import(&folder, &["nginx.conf", "-o", "strict.yaml", "--strict"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(!folder.join("strict.yaml").exists());
    let report: Value = serde_json::from_slice(&import(&folder, &["nginx.conf", "--json"]).stdout).unwrap();
    let settings = report["settings"].as_array().unwrap();
    let found = settings.iter().find(|setting| setting["state"] == "reported").unwrap();
    assert_eq!((&found["line"], &found["column"]), (&3.into(), &5.into()));
    // Each directive has one entry, but for those within the `if`.
    assert_eq!(settings.len(), 5, "{settings:#?}");
}

#[test]
fn includes_are_relative_to_the_main_file() {
    let folder = folder("include");
    fs::create_dir_all(folder.join("conf.d/more")).unwrap();
    fs::write(folder.join("nginx.conf"), "http { include mime.types; include conf.d/*.conf; }").unwrap();
    fs::write(folder.join("conf.d/b.conf"), WHOLE).unwrap();
    fs::write(folder.join("conf.d/a.conf"), "include conf.d/more/up;").unwrap();
    fs::write(folder.join("conf.d/more/up"), "upstream api { server 127.0.0.1:1; server 127.0.0.1:2 weight=3; }")
        .unwrap();
    let output = import(&folder, &["nginx.conf"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("/api/{*path}"), "{}", text(&output.stdout));
}

#[test]
fn what_cannot_be_read_gives_1_and_nothing_is_written() {
    let folder = folder("unreadable");
    let long = "# ".repeat(25 << 20);
    let deep = "a {".repeat(100);
    for (name, input, said) in [
        ("a.conf", "server {\n listen 80;\n", "a.conf:1:1"),
        ("b.conf", "server { listen 80; } }", "b.conf:1:23"),
        ("c.conf", "server { listen 80 }", "is not ended before this `}`"),
        ("d.conf", "{\"version\": 3}", "d.conf:1:1"),
        ("e.conf", "hello, this is no configuration\n", "e.conf:1:1"),
        ("f.conf", "events { }\n", "found no `server` block"),
        ("g.conf", &long, "longer than 16 MiB"),
        ("h.conf", "server {\n  include h.conf;\n}", "includes itself"),
        ("i.conf", "server {\n  include missing.conf;\n}", "i.conf:2:11"),
        ("j.conf", "server { server_name 'a; }", "has no end"),
        ("k.conf", "server { server_name 'a'b; }", "unexpected `b`"),
        ("l.conf", ";", "unexpected `;`"),
        ("m.conf", &deep, "nested more than"),
        ("n.conf", "", "found no `server` block"),
        ("o.conf", "server { location / { content_by_lua_block { if ", "has no end"),
    ] {
        fs::write(folder.join(name), input).unwrap();
        let output = import(&folder, &[name, "-o", "out.yaml"]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {told}");
        assert!(told.contains(said), "{name}: {told}");
        assert!(!folder.join("out.yaml").exists(), "{name}");
        fs::remove_file(folder.join(name)).unwrap();
    }
    fs::write(folder.join("x.conf"), "include y.conf;").unwrap();
    fs::write(folder.join("y.conf"), "server { }\ninclude x.conf;").unwrap();
    let output = import(&folder, &["x.conf"]);
    assert!(text(&output.stderr).contains("y.conf:2:9"), "{}", text(&output.stderr));
    fs::write(folder.join("z.conf"), [b's', b'\n', 0xff, b'\n']).unwrap();
    assert!(text(&import(&folder, &["z.conf"]).stderr).contains("z.conf:2:1"));
    assert_eq!(import(&folder, &["missing.conf"]).status.code(), Some(1));
}

#[test]
fn hosts_with_spaces_are_reported_with_their_place() {
    let folder = folder("hosts");
    let input = "server {\n  server_name \"a b\";\n  location / { proxy_pass \"http://c d/\"; }\n}\n\
                 upstream up { server \"e f\"; }\nserver { server_name g; location / { proxy_pass http://up; } }";
    fs::write(folder.join("nginx.conf"), input).unwrap();
    let output = import(&folder, &["nginx.conf", "-o", "out.yaml"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for place in ["nginx.conf:2:3", "nginx.conf:3:16", "nginx.conf:5:15"] {
        assert!(said.contains(place), "{place}: {said}");
    }
    let written = fs::read_to_string(folder.join("out.yaml")).unwrap();
    assert!(!written.contains("a b") && !written.contains("c d") && !written.contains("e f"), "{written}");
}

#[test]
fn an_existing_file_is_replaced_with_force_only() {
    let folder = folder("force");
    fs::write(folder.join("nginx.conf"), WHOLE).unwrap();
    fs::write(folder.join("out.yaml"), "mine").unwrap();
    let output = import(&folder, &["nginx.conf", "-o", "out.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--force"));
    assert_eq!(fs::read_to_string(folder.join("out.yaml")).unwrap(), "mine");
    assert_eq!(import(&folder, &["nginx.conf", "-o", "out.yaml", "--force"]).status.code(), Some(0));
    assert!(fs::read_to_string(folder.join("out.yaml")).unwrap().starts_with("listen:"));
}
