//! The pages are true: every command says what is written below it, every configuration is good, every link leads on.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crocodile_pear_demo::postgres::Postgres;
use crocodile_pear_stage::in_parallel;

use crate::documents::page::{self, Block, Command, agrees, blocks};
use crate::documents::root;
use crate::documents::stage::{Demo, Served, postgres, shell};

/// Where the documents say that things are. On a page, the demo is at the first two, the page's own gateway
/// at the others.
const DEMO: &str = "127.0.0.1:8080";
const UPSTREAMS: &str = "127.0.0.1:9000";
const GATEWAY: &str = "127.0.0.1:8081";
const ADMIN: &str = "127.0.0.1:9090";

/// A database with this name is really there, where PostgreSQL is installed; a page that names it is left out elsewhere.
const DATABASE: &str = "127.0.0.1:5432/items";

/// The name under which pages save the configuration that they show.
const CONFIG: &str = "crocodile-pear.yaml";

/// The number of pages that are tried at the same time: each mostly waits for its gateway.
const AT_ONCE: usize = 4;

/// The programs that only the reader's own machine can run; a block of these is `sh`, without output.
const READER_S: [&str; 13] = [
    "cargo",
    "podman",
    "sha256sum",
    "tar",
    "sudo",
    "mv",
    "systemctl",
    "journalctl",
    "kill",
    "git",
    "crocodile-pear",
    "redis-cli",
    ".ci/run",
];

#[test]
fn every_page_says_what_happens() {
    let (demo, pages) = (Demo::begin(), page::all());
    let wrong = in_parallel(AT_ONCE, pages, |path| Page::read(&path, &demo).wrong()).concat();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
}

/// A page while it is tried, from its top to its end.
struct Page<'a> {
    path: &'a Path,
    demo: &'a Demo,
    folder: PathBuf,
    database: Option<Postgres>,
    /// The gateway with the configuration shown last.
    served: OnceLock<Gateway>,
}

struct Gateway {
    address: String,
    admin: Option<String>,
    _served: Served,
}

impl<'a> Page<'a> {
    fn read(path: &'a Path, demo: &'a Demo) -> Self {
        // Pages of two folders may have the same name.
        let place = path.strip_prefix(root()).unwrap().with_extension("");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages").join(place);
        fs::create_dir_all(&folder).unwrap();
        Page { path, demo, folder, database: None, served: OnceLock::new() }
    }

    fn wrong(mut self) -> Vec<String> {
        let text = fs::read_to_string(self.path).unwrap();
        let mut wrong = links(self.path, &text);
        if text.contains(DATABASE) {
            self.database = postgres();
            if self.database.is_none() {
                return wrong;
            }
        }
        for block in blocks(&text) {
            if let Err(problem) = self.try_block(&block) {
                wrong.push(format!("{}:{}: {problem}", self.path.display(), block.line));
            }
        }
        wrong
    }

    fn try_block(&mut self, block: &Block) -> Result<(), String> {
        match block.kind.as_str() {
            "yaml" => self.save(&block.text),
            "console" => page::commands(&block.text).iter().try_for_each(|command| self.run(command)),
            "sh" => block.text.lines().try_for_each(reader_s),
            "rust" => compiled(&block.text),
            // A diagram or a unit of systemd promises nothing that could be tried here.
            "text" | "ini" => Ok(()),
            other => Err(format!("nobody tries a `{other}` block")),
        }
    }

    /// A configuration must be good, and is what the page's gateway serves from here on.
    fn save(&mut self, text: &str) -> Result<(), String> {
        if !text.contains("listen:") {
            return Err(format!("without `listen: {GATEWAY}` it does not run beside the demo"));
        }
        fs::write(self.folder.join(CONFIG), text).unwrap();
        self.served = OnceLock::new();
        let report = shell(&format!("crocodile-pear check {CONFIG}"), &self.folder);
        let told = String::from_utf8_lossy(&report.stdout).into_owned();
        if report.status.success() { Ok(()) } else { Err(told) }
    }

    fn run(&self, command: &Command) -> Result<(), String> {
        // These run until they are stopped; they have been started on other ports.
        if ["crocodile-pear run", "crocodile-pear demo", "crocodile-pear init", "cargo run"]
            .iter()
            .any(|long| command.line.starts_with(long))
        {
            return Ok(());
        }
        let output = shell(&self.placed(&command.line), &self.folder);
        let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        match agrees(&told, &self.placed(&command.output)) {
            true => Ok(()),
            false => Err(format!("`{}` says\n{told}\nand should say\n{}", command.line, command.output)),
        }
    }

    /// The text with the addresses where things are now.
    fn placed(&self, text: &str) -> String {
        let text = text.replace(DEMO, &self.demo.gateway).replace(UPSTREAMS, &self.demo.upstreams);
        let mut text = self.with_database(text);
        if text.contains(GATEWAY) || text.contains(ADMIN) {
            let gateway = self.served.get_or_init(|| self.serve());
            text = text.replace(GATEWAY, &gateway.address);
            text = text.replace(ADMIN, gateway.admin.as_deref().unwrap_or(ADMIN));
        }
        text
    }

    fn with_database(&self, text: String) -> String {
        let Some(database) = &self.database else { return text };
        text.replace(DATABASE, &format!("127.0.0.1:{}/postgres", database.port()))
    }

    /// Serves the configuration shown last, with the demo's upstreams and on free ports.
    fn serve(&self) -> Gateway {
        let text = fs::read_to_string(self.folder.join(CONFIG)).unwrap();
        let free = |text: String, address| text.replace(address, "127.0.0.1:0");
        let placed = free(free(text, GATEWAY), ADMIN).replace(UPSTREAMS, &self.demo.upstreams);
        let placed = self.with_database(placed);
        fs::write(self.folder.join("served.yaml"), &placed).unwrap();
        let served = Served::begin(&["run", "served.yaml"], &[], &self.folder);
        let admin = placed.contains("admin:").then(|| served.address("health and metrics on http://"));
        Gateway { address: served.address("listening on http://"), admin, _served: served }
    }
}

fn reader_s(line: &str) -> Result<(), String> {
    let word = line.split_whitespace().next().unwrap_or_default();
    let known = word.is_empty() || word.starts_with('#') || READER_S.contains(&word);
    if known { Ok(()) } else { Err(format!("`{word}` is no command that a reader is known to have")) }
}

/// Files that the tests compile; a `rust` block is a part of one of them.
const COMPILED: [&str; 12] = [
    "crates/crocodile-pear/examples/weather.rs",
    "crates/crocodile-pear/examples/inbox.rs",
    "crates/crocodile-pear/examples/dashboard.rs",
    "crates/crocodile-pear/examples/hello.rs",
    "crates/crocodile-pear/examples/page.rs",
    "crates/crocodile-pear/examples/users.rs",
    "crates/crocodile-pear/examples/signed.rs",
    "crates/crocodile-pear/examples/mock.rs",
    "crates/crocodile-pear/examples/failures.rs",
    "crates/crocodile-pear/examples/streams.rs",
    "docs/steps/first.rs",
    "docs/layers/maintenance.rs",
];

fn compiled(text: &str) -> Result<(), String> {
    let whole = |file: &&str| fs::read_to_string(root().join(file)).unwrap().contains(text);
    if COMPILED.iter().any(whole) { Ok(()) } else { Err("this is in no file that is compiled".to_owned()) }
}

/// The links of a page that lead nowhere.
fn links(path: &Path, text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let inner = targets.filter(|target| !target.starts_with("http") && !target.contains(' '));
    let leads = |target: &str| {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
        file.exists() && (heading.is_empty() || headings(&file).contains(heading))
    };
    inner
        .filter(|target| !leads(target))
        .map(|target| format!("{}: `{target}` leads nowhere", path.display()))
        .collect()
}

/// The headings of a page as the ends of links.
fn headings(file: &Path) -> HashSet<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let heading = |line: &str| line.starts_with('#').then(|| line.trim_start_matches('#').trim().to_lowercase());
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    text.lines()
        .filter_map(heading)
        .map(|line| line.chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn the_readme_s_two_commands_are_the_ones_that_are_run() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    let blocks = blocks(&readme);
    let lines: Vec<&str> =
        blocks.iter().filter(|block| block.kind == "sh").flat_map(|block| block.text.lines()).collect();
    // `demo` is started by the page's own test, by the same name.
    assert!(lines.iter().any(|line| line.starts_with("cargo run --release -- demo")), "{lines:?}");
    let test = lines.iter().find(|line| line.starts_with("cargo test")).unwrap().split('#').next().unwrap().trim();
    assert!(ci.lines().any(|line| line.trim() == test), "`.ci/run` does not run `{test}`");
}

#[test]
fn the_index_names_every_page() {
    let docs = root().join("docs");
    let index = fs::read_to_string(docs.join("README.md")).unwrap();
    for path in page::all() {
        let Ok(name) = path.strip_prefix(&docs) else { continue };
        let name = name.to_str().unwrap();
        let listed = name == "README.md" || name.starts_with("decisions/") || index.contains(&format!("({name})"));
        assert!(listed, "docs/README.md does not name {name}");
    }
}

#[test]
fn the_table_of_tests_names_files_that_exist() {
    let contributing = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let named: Vec<&str> = contributing
        .split('`')
        .filter(|name| ["G/", "J/", "L/"].iter().any(|folder| name.starts_with(folder)))
        .collect();
    assert!(named.len() > 40, "{named:?}");
    for name in named {
        let (crate_name, file) = match name.split_at(2) {
            ("G/", file) => ("crocodile-pear-gateway", file),
            ("J/", file) => ("crocodile-pear-jq", file),
            (_, file) => ("crocodile-pear", file),
        };
        let path = root().join("crates").join(crate_name).join("tests").join(file);
        assert!(path.exists(), "CONTRIBUTING.md names `{name}`, which is not there");
    }
}

#[test]
fn the_files_that_architecture_and_contributing_name_exist() {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = crates.flat_map(|path| ["", "src", "src/upstream"].map(|folder| path.join(folder))).collect();
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let names = text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs") && !name.contains(' '));
        // Tests have a table of their own, and the file of the worked example is the reader's.
        for name in names.filter(|name| !["G/", "J/", "L/", "crates/"].iter().any(|folder| name.starts_with(folder))) {
            let exists = folders.iter().chain([&root()]).any(|folder| folder.join(name).exists());
            assert!(exists, "{page} names `{name}`, which is not there");
        }
    }
}
