//! Every file in `examples` runs beside the demo, and answers as its head says.

use std::fs;
use std::path::{Path, PathBuf};

use crocodile_pear_demo::postgres::place;

use crate::documents::page::{agrees, commands};
use crate::documents::root;
use crate::documents::stage::{Demo, Served, postgres, shell};

/// Where the demo's gateway and its example upstreams are, and where examples listen.
const DEMO: (&str, &str) = ("127.0.0.1:8080", "127.0.0.1:9000");
const GATEWAY: &str = "127.0.0.1:8081";
const ADMIN: &str = "127.0.0.1:9090";

/// The folder with files that an example includes.
const PARTS: &str = "files";

/// The first line, which editors look for.
const SCHEMA: &str = "# yaml-language-server: $schema=crocodile-pear.schema.json";

fn examples() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let mut examples: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    examples.sort();
    examples
}

#[test]
fn every_example_answers_as_its_head_says() {
    let demo = Demo::begin();
    for path in examples() {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().next(), Some(SCHEMA), "{}", path.display());
        let served = serve(&text, &demo);
        let admin = if text.contains(ADMIN) { served.address("health and metrics on http://") } else { String::new() };
        let address = served.address("listening on http://");
        for command in commands(&tried(&text)) {
            let told = shell(&command.line.replace(GATEWAY, &address).replace(ADMIN, &admin), &root());
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            assert!(
                agrees(&told, &command.output),
                "{}: `{}` says\n{told}\nand should say\n{}",
                path.display(),
                command.line,
                command.output
            );
        }
    }
}

#[test]
fn the_items_answer_as_their_head_says_and_leave_nothing_behind() {
    // Where there is no PostgreSQL, this says so.
    if postgres().is_none() {
        return;
    }
    let text = fs::read_to_string(root().join("examples/items/items.yaml")).unwrap();
    let served = Served::begin(&["demo", "items", "--listen", "127.0.0.1:0"], &[], &std::env::temp_dir());
    let address = served.address("listening on http://");
    let folder = place().join(format!("crocodile-pear-postgres-{}-0", served.id()));
    served.line("Ctrl-C stops");
    assert!(folder.exists(), "{}", folder.display());
    for command in commands(&tried(&text)) {
        let told = shell(&command.line.replace(GATEWAY, &address), &root());
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(agrees(&told, &command.output), "`{}` says\n{told}\nand should say\n{}", command.line, command.output);
    }
    served.stop();
    assert!(!folder.exists(), "{} is left", folder.display());
}

/// The commands of an example's head: comments that begin with `# $ ` and what follows.
fn tried(text: &str) -> String {
    let head = text.lines().take_while(|line| line.starts_with('#'));
    let lines = head.skip_while(|line| !line.starts_with("# $ ")).map(|line| line[1..].strip_prefix(' ').unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// The example as it stands, with free ports in the place of those that it names.
fn serve(text: &str, demo: &Demo) -> Served {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
    assert!(text.contains(GATEWAY) && !text.contains(DEMO.0), "an example does not run beside the demo:\n{text}");
    let placed = |text: &str| {
        text.replace(GATEWAY, "127.0.0.1:0").replace(ADMIN, "127.0.0.1:0").replace(DEMO.1, &demo.upstreams)
    };
    copy(&root().join("examples").join(PARTS), &folder.join(PARTS), &placed);
    fs::write(folder.join("example.yaml"), placed(text)).unwrap();
    Served::begin(&["run", "example.yaml"], &[], &folder)
}

/// Copies a folder of texts.
fn copy(from: &Path, to: &Path, placed: &dyn Fn(&str) -> String) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            true => copy(&path, &to, placed),
            false => fs::write(to, placed(&fs::read_to_string(path).unwrap())).unwrap(),
        }
    }
}

#[test]
fn the_demo_is_where_the_documents_look_for_it() {
    let help = String::from_utf8(shell("crocodile-pear demo --help", &root()).stdout).unwrap();
    assert!(help.contains(DEMO.0) && help.contains(DEMO.1), "{help}");
}

#[test]
fn the_first_configuration_is_good_and_is_not_written_over() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("init");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let told = |line: &str| {
        let output = shell(line, &folder);
        let told = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(told).unwrap())
    };
    let (code, missing) = told("crocodile-pear check");
    assert!(code == 1 && missing.contains("`crocodile-pear init` writes a first one"), "{missing}");
    let (code, written) = told("crocodile-pear init");
    assert!(code == 0 && written.contains("\n  crocodile-pear run\n"), "{written}");
    assert_eq!(told("crocodile-pear check"), (0, "crocodile-pear.yaml: good (2 endpoints, 3 upstreams)\n".to_owned()));
    fs::write(folder.join("crocodile-pear.yaml"), "mine").unwrap();
    let (code, refused) = told("crocodile-pear init");
    assert!(code == 1 && refused.contains("`crocodile-pear.yaml` is there already"), "{refused}");
    assert_eq!(fs::read_to_string(folder.join("crocodile-pear.yaml")).unwrap(), "mine");
    let (code, other) = told("crocodile-pear init other.yaml");
    assert!(code == 0 && other.contains("\n  crocodile-pear run other.yaml\n"), "{other}");
}
