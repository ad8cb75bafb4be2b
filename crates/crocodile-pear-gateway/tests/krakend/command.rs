//! The command: what it writes, and its exit statuses.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("krakend").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn import(folder: &PathBuf, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    command.args(["import", "krakend"]).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const WHOLE: &str = r#"{"version": 3, "host": ["http://up:80"], "endpoints": [
  {"endpoint": "/a/{id}", "backend": [{"url_pattern": "/b/{id}"}]}]}"#;

const PART: &str = r#"{"version": 3, "host": ["http://up:80"], "endpoints": [
  {"endpoint": "/a", "backend": [{"url_pattern": "/b", "extra_config": {"modifier/lua-backend": {"pre": "x"}}}]}]}"#;

#[test]
fn a_file_that_is_imported_whole_gives_0() {
    let folder = folder("whole");
    fs::write(folder.join("krakend.json"), WHOLE).unwrap();
    let output = import(&folder, &["krakend.json", "-o", "out.yaml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let written = fs::read_to_string(folder.join("out.yaml")).unwrap();
    assert!(written.contains("  GET /a/{id}: up /b/{id}\n"), "{written}");
    let output = import(&folder, &["krakend.json"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), written));
}

#[test]
fn the_three_formats_give_the_same() {
    let folder = folder("formats");
    let yaml = "version: 3\nhost: ['http://up:80']\nendpoints:\n  - endpoint: /a/{id}\n    backend: [{url_pattern: '/b/{id}'}]\n";
    let toml = "version = 3\nhost = [\"http://up:80\"]\n[[endpoints]]\nendpoint = \"/a/{id}\"\n[[endpoints.backend]]\nurl_pattern = \"/b/{id}\"\n";
    let old = WHOLE.replace("\"version\": 3", "\"version\": 2");
    let all = [("krakend.json", WHOLE), ("krakend.yaml", yaml), ("krakend.toml", toml), ("old.json", &old)];
    let written = all.map(|(name, text)| {
        fs::write(folder.join(name), text).unwrap();
        import(&folder, &[name]).stdout
    });
    for other in &written[1..] {
        assert_eq!(text(other), text(&written[0]));
    }
}

#[test]
fn what_is_not_imported_gives_3_and_has_its_place() {
    let folder = folder("part");
    fs::write(folder.join("krakend.json"), PART).unwrap();
    let output = import(&folder, &["krakend.json", "-o", "out.yaml"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("krakend.json:2:73") && said.contains("the gateway runs no Lua"), "{said}");
    assert!(folder.join("out.yaml").exists());
    let output = import(&folder, &["krakend.json", "-o", "strict.yaml", "--strict"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(!folder.join("strict.yaml").exists());
    let output = import(&folder, &["krakend.json", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let setting = |setting: &&Value| setting["key"] == "endpoints[0].backend[0].extra_config.modifier/lua-backend";
    let found = report["settings"].as_array().unwrap().iter().find(setting).unwrap();
    assert_eq!((&found["state"], &found["line"]), (&"reported".into(), &2.into()));
    assert!(report["configuration"].as_str().unwrap().contains("GET /a: up /b"));
}

#[test]
fn what_is_said_of_many_endpoints_is_one_warning() {
    let folder = folder("folded");
    let endpoint = |at: usize| {
        format!(
            r#"{{"endpoint": "/{at}", "input_headers": ["*"], "backend": [{{"host": ["http://127.0.0.1:1"], "url_pattern": "/"}}]}}"#
        )
    };
    let endpoints: Vec<String> = (0..144).map(endpoint).collect();
    fs::write(
        folder.join("krakend.json"),
        format!("{{\"version\": 3, \"endpoints\": [\n{}\n]}}", endpoints.join(",\n")),
    )
    .unwrap();
    let output = import(&folder, &["krakend.json", "-o", "out.yaml"]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(said.matches("passes on everything").count(), 1, "{said}");
    for place in ["krakend.json:2:", "(also at 3:", ", 5:", " and at 140 more places)"] {
        assert!(said.contains(place), "{place}: {said}");
    }
    // Programs have each.
    let report: Value = serde_json::from_slice(&import(&folder, &["krakend.json", "--json"]).stdout).unwrap();
    let remarked = report["settings"].as_array().unwrap().iter().filter(|setting| setting["state"] == "remarked");
    assert_eq!(remarked.count(), 144);
}

#[test]
fn what_cannot_be_read_gives_1_and_nothing_is_written() {
    let folder = folder("unreadable");
    let long = format!("{{\"version\": 3, \"name\": \"{}\"", "x".repeat(50 << 20));
    for (name, input, said) in [
        ("a.json", "version: 3", "a.json:1:1"),
        ("b.json", "{\"version\": 1}", "versions 2 and 3"),
        ("c.json", "{\"version\": {{ .version }} }", "render it first"),
        ("d.json", "{\"version\": 3, \"endpoints\": [}", "1:30"),
        ("e.toml", "version = ", "e.toml:1"),
        ("f.json", &long, "f.json"),
        ("g.hcl", "version = 3", "convert it to JSON"),
    ] {
        fs::write(folder.join(name), input).unwrap();
        let output = import(&folder, &[name, "-o", "out.yaml"]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {told}");
        assert!(told.contains(said), "{name}: {told}");
        assert!(!folder.join("out.yaml").exists(), "{name}");
        fs::remove_file(folder.join(name)).unwrap();
    }
    assert_eq!(import(&folder, &["missing.json"]).status.code(), Some(1));
}

#[test]
fn an_existing_file_is_replaced_with_force_only() {
    let folder = folder("force");
    fs::write(folder.join("krakend.json"), WHOLE).unwrap();
    fs::write(folder.join("out.yaml"), "mine").unwrap();
    let output = import(&folder, &["krakend.json", "-o", "out.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--force"));
    assert_eq!(fs::read_to_string(folder.join("out.yaml")).unwrap(), "mine");
    assert_eq!(import(&folder, &["krakend.json", "-o", "out.yaml", "--force"]).status.code(), Some(0));
    assert!(fs::read_to_string(folder.join("out.yaml")).unwrap().starts_with("listen:"));
}
