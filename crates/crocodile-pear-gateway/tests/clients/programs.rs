//! The programs, each with what it needs to read cases and print what came of them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::clients::cases::{Case, Length};
use crate::page::browser::Browser;
use crate::stage::scratch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

pub struct Program {
    pub name: &'static str,
    pub protocol: Protocol,
    /// The program that has to be installed.
    pub needs: &'static str,
    /// Whether every machine that tests the product has it.
    pub always: bool,
    run: fn(&str, &[String]) -> Option<Vec<Value>>,
}

pub const PROGRAMS: [Program; 11] = [
    Program {
        name: "curl",
        protocol: Protocol::Http1,
        needs: "curl",
        always: true,
        run: |base, lines| curl(&[], base, lines),
    },
    Program {
        name: "curl --http2",
        protocol: Protocol::Http2,
        needs: "curl",
        always: true,
        run: |base, lines| curl(&["--http2-prior-knowledge"], base, lines),
    },
    Program {
        name: "Go",
        protocol: Protocol::Http1,
        needs: "Go 1.24",
        always: false,
        run: |base, lines| go("h1", base, lines),
    },
    Program {
        name: "Go HTTP/2",
        protocol: Protocol::Http2,
        needs: "Go 1.24",
        always: false,
        run: |base, lines| go("h2", base, lines),
    },
    Program {
        name: "Node fetch",
        protocol: Protocol::Http1,
        needs: "Node 20",
        always: false,
        run: |base, lines| node("fetch.mjs", base, lines),
    },
    Program {
        name: "Node http2",
        protocol: Protocol::Http2,
        needs: "Node 20",
        always: false,
        run: |base, lines| node("http2.mjs", base, lines),
    },
    Program {
        name: "httpx",
        protocol: Protocol::Http1,
        needs: "Python with pip",
        always: false,
        run: |base, lines| python("httpx", base, lines),
    },
    Program {
        name: "httpx HTTP/2",
        protocol: Protocol::Http2,
        needs: "Python with pip",
        always: false,
        run: |base, lines| python("httpx2", base, lines),
    },
    Program {
        name: "aiohttp",
        protocol: Protocol::Http1,
        needs: "Python with pip",
        always: false,
        run: |base, lines| python("aiohttp", base, lines),
    },
    Program { name: "Java", protocol: Protocol::Http1, needs: "a JDK 17", always: false, run: java },
    Program { name: "Chromium", protocol: Protocol::Http1, needs: "Chromium", always: false, run: chromium },
];

impl Program {
    /// Whether it can do that at all.
    pub fn can(&self, case: &Case) -> bool {
        // A body whose length a browser does not know needs HTTP/2; it sets these fields itself.
        let own = ["accept-encoding", "cookie", "te"];
        let sets = case.fields.iter().any(|field| own.iter().any(|name| field.starts_with(name)));
        match self.name {
            "Chromium" => case.length == Length::Known && !sets,
            // They do not follow redirects.
            "Node http2" => !case.name.starts_with("redirect-3") && case.name != "redirect-absolute",
            _ => true,
        }
    }

    /// Runs all cases; nothing, where something is missing.
    pub fn run(&self, base: &str, lines: &[String]) -> Option<Vec<Value>> {
        (self.run)(base, lines)
    }
}

fn source(name: &str) -> PathBuf {
    Path::new("tests/clients/programs").join(name)
}

/// Gives a program the cases, and reads its lines.
fn talk(command: &mut Command, lines: &[String]) -> Option<Vec<Value>> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.ok()?;
    let mut input = child.stdin.take().unwrap();
    let text = lines.join("\n") + "\n";
    // It may read and write in turns.
    let writing = std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
    let output = child.wait_with_output().unwrap();
    let _ = writing.join();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    let told = String::from_utf8(output.stdout).unwrap();
    Some(told.lines().map(|line| serde_json::from_str(line).expect(line)).collect())
}

/// Prepares something once for all tests of the process.
fn once(prepare: impl FnOnce() -> Option<PathBuf>, made: &Mutex<Option<Option<PathBuf>>>) -> Option<PathBuf> {
    made.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(prepare).clone()
}

fn go(protocol: &str, base: &str, lines: &[String]) -> Option<Vec<Value>> {
    static BUILT: Mutex<Option<Option<PathBuf>>> = Mutex::new(None);
    let build = || {
        let target = scratch("clients-go");
        ["go", "/usr/local/go/bin/go"].into_iter().find_map(|go| {
            let mut build = Command::new(go);
            build.args(["build", "-o"]).arg(&target).current_dir(source("go")).env("GOTOOLCHAIN", "local");
            build.output().ok()?.status.success().then(|| target.clone())
        })
    };
    talk(Command::new(once(build, &BUILT)?).args([protocol, base]), lines)
}

fn node(program: &str, base: &str, lines: &[String]) -> Option<Vec<Value>> {
    let version = Command::new("node").arg("--version").output().ok()?;
    let version =
        String::from_utf8_lossy(&version.stdout).trim_start_matches('v').split('.').next()?.parse::<u32>().ok()?;
    (version >= 20).then_some(())?;
    talk(Command::new("node").arg(source(program)).arg(base), lines)
}

/// The libraries are fetched into a folder of the tests' own.
fn python(library: &str, base: &str, lines: &[String]) -> Option<Vec<Value>> {
    static FETCHED: Mutex<Option<Option<PathBuf>>> = Mutex::new(None);
    let fetch = || {
        let folder = scratch("clients-python");
        if folder.join("aiohttp").is_dir() && folder.join("httpx").is_dir() && folder.join("h2").is_dir() {
            return Some(folder);
        }
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--root-user-action=ignore",
            "--target",
        ]);
        pip.arg(&folder).args(["httpx[http2]", "aiohttp"]);
        pip.output().ok()?.status.success().then_some(folder)
    };
    let folder = once(fetch, &FETCHED)?;
    talk(Command::new("python3").env("PYTHONPATH", folder).arg(source("client.py")).args([library, base]), lines)
}

fn java(base: &str, lines: &[String]) -> Option<Vec<Value>> {
    let version = Command::new("javac").arg("-version").output().ok()?;
    version.status.success().then_some(())?;
    talk(
        Command::new("java").args(["-Xshare:auto", "-XX:TieredStopAtLevel=1"]).arg(source("Client.java")).arg(base),
        lines,
    )
}

/// Browsers take turns: each has many processes, and a machine may have two cores.
pub static BROWSER: Mutex<()> = Mutex::new(());

fn chromium(base: &str, lines: &[String]) -> Option<Vec<Value>> {
    let _turn = BROWSER.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let name = format!("clients-{}", base.rsplit(':').next().unwrap_or_default());
        let mut browser = Browser::start(&name).await?;
        browser.open(&format!("{base}/empty")).await;
        browser.until(&format!("location.href.startsWith('{base}') && document.readyState === 'complete'")).await;
        let program = fs::read_to_string(source("browser.js")).unwrap();
        let told = browser.value(&format!("{}({})", program.trim_end(), json!(lines))).await;
        Some(told.as_array().expect("the page tells").clone())
    })
}

/// Runs a process for each case: its trailers come in the file of heads.
fn curl(more: &[&str], base: &str, lines: &[String]) -> Option<Vec<Value>> {
    let kind = format!("{}{}", more.len(), base.rsplit(':').next().unwrap_or_default().replace('/', "-"));
    let (heads, body) = (scratch(format!("clients-curl-heads-{kind}")), scratch(format!("clients-curl-body-{kind}")));
    let data = scratch(format!("clients-curl-data-{kind}"));
    let ask = |line: &String| {
        let words: Vec<&str> = line.split('\t').collect();
        let [name, method, path, fields, size, length, redirects] = words[..] else { panic!("{line}") };
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "30", "-w", "%{http_code} %{url_effective}"]).args(more);
        curl.arg("-D").arg(&heads).arg("-o").arg(&body);
        if method == "HEAD" {
            curl.arg("-I");
        } else if redirects == "follow" && size != "-" {
            // POST by itself: with -X it would stay POST after a 303.
        } else {
            curl.args(["-X", method]);
        }
        if redirects == "follow" {
            curl.arg("-L");
        }
        for field in fields.split('\u{1f}').filter(|field| !field.is_empty()) {
            curl.args(["-H", field]);
        }
        if let Ok(size) = size.parse::<usize>() {
            fs::write(&data, "y".repeat(size)).unwrap();
            curl.arg("--data-binary").arg(format!("@{}", data.display()));
            if length == "chunked" {
                curl.args(["-H", "transfer-encoding: chunked"]);
            }
        }
        let _ = fs::remove_file(&body);
        let output = curl.arg(format!("{base}{path}")).output().ok()?;
        if !output.status.success() {
            return Some(json!({ "name": name, "error": true }));
        }
        let written = String::from_utf8_lossy(&output.stdout).into_owned();
        let (status, at) = written.split_once(' ').unwrap();
        let text = fs::read(&heads).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let blocks: Vec<&str> = text.split("\r\n\r\n").filter(|block| !block.is_empty()).collect();
        let last = blocks.iter().rposition(|block| block.starts_with("HTTP/")).unwrap();
        let interim: Vec<u16> = blocks[..last]
            .iter()
            .filter_map(|block| block.split(' ').nth(1)?.parse().ok())
            .filter(|status| *status < 200)
            .collect();
        let read = |block: &str, skip: usize| -> Vec<[String; 2]> {
            let lines = block.split("\r\n").skip(skip).filter_map(|line| line.split_once(": "));
            lines.map(|(name, value)| [name.to_lowercase(), value.trim().to_owned()]).collect()
        };
        let trailers: Vec<[String; 2]> = blocks[last + 1..].iter().flat_map(|block| read(block, 0)).collect();
        // With -I that is the head once more.
        let body = if method == "HEAD" { Vec::new() } else { fs::read(&body).unwrap_or_default() };
        Some(json!({
            "name": name,
            "status": status.parse::<u16>().unwrap(),
            "fields": read(blocks[last], 1),
            "trailers": trailers,
            "interim": interim,
            "body": body.iter().map(|&byte| char::from(byte)).collect::<String>(),
            "at": at.strip_prefix(base).unwrap_or(at),
        }))
    };
    lines.iter().map(ask).collect()
}
