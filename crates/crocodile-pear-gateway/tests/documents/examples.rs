//! Every file in `examples`: good, and answering as its head says.

use std::fs;
use std::path::{Path, PathBuf};

use crate::page::{agrees, commands};
use crate::root;
use crate::stage::{Demo, Served, shell};

/// What editors look for in the first line.
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
        let served = serve(&path, &demo);
        let address = served.address("listening on http://");
        for command in commands(&tried(&text)) {
            let told = shell(&command.line.replace("127.0.0.1:8080", &address), &root());
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

/// The commands of an example's head: comments that begin with `# $ ` and what follows.
fn tried(text: &str) -> String {
    let head = text.lines().take_while(|line| line.starts_with('#'));
    let lines = head.skip_while(|line| !line.starts_with("# $ ")).map(|line| line[1..].strip_prefix(' ').unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

fn serve(path: &Path, demo: &Demo) -> Served {
    let upstreams = format!("http://{}", demo.upstreams);
    let environment = [("UPSTREAMS", upstreams.as_str()), ("LISTEN", "127.0.0.1:0")];
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    Served::begin(&["run", path.to_str().unwrap()], &environment, folder)
}
