//! A browser without a window, spoken to by the DevTools protocol through a pair of pipes.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;

use crate::Result;
use crate::process::{self, Folder};

/// The names of the program: Debian's package first.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// The descriptors of the browser: it reads commands from 3 and writes to 4.
const PLUMBING: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

const FLAGS: [&str; 10] = [
    "--headless",
    "--remote-debugging-pipe",
    // The one page it opens is our own, and as root it has no other way.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-proxy-server",
    "--window-size=1280,1100",
];

/// Commands that are answered late enough for this many events are answered too late.
const EVENTS: usize = 100_000;

/// The browser that was named, or the one on the PATH.
pub fn find(named: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(path) = named {
        return if path.is_file() { Ok(path) } else { Err(format!("there is no {}", path.display()).into()) };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = NAMES.iter().flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    let how = "install it with: apt-get install chromium, or name one with --browser";
    candidates
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| format!("no browser is on the PATH ({}); {how}", NAMES.join(", ")).into())
}

/// A page of a browser.
pub struct Chromium {
    /// The version of the browser.
    pub version: String,
    commands: pipe::Sender,
    messages: BufReader<pipe::Receiver>,
    /// Events that came while an answer was awaited.
    events: VecDeque<Value>,
    latest: u64,
    session: Value,
    /// Stopped before its folder goes.
    process: Stopped,
    folder: Folder,
}

struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        process::stop(&mut self.0);
    }
}

impl Chromium {
    pub async fn start(browser: &Path) -> Result<Self> {
        let folder = Folder::new("chromium")?;
        let mut command = Command::new("sh");
        command.args(["-c", PLUMBING, "sh"]).arg(browser).args(FLAGS);
        command.arg(format!("--user-data-dir={}", folder.path().join("profile").display())).arg("about:blank");
        let said = File::create(folder.path().join("output.log"))?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let process = Stopped(child);
        let (Some(input), Some(output)) = (input, output) else { return Err("no pipes to the browser".into()) };
        let mut browser = Chromium {
            version: String::new(),
            commands: pipe::Sender::from_owned_fd(OwnedFd::from(input))?,
            messages: BufReader::new(pipe::Receiver::from_owned_fd(OwnedFd::from(output))?),
            events: VecDeque::new(),
            latest: 0,
            session: Value::Null,
            process,
            folder,
        };
        browser.attach().await?;
        Ok(browser)
    }

    async fn attach(&mut self) -> Result<()> {
        let version = self.call("Browser.getVersion", json!({})).await?;
        self.version = version["product"].as_str().unwrap_or_default().replace('/', " ");
        let page = self.call("Target.createTarget", json!({ "url": "about:blank" })).await?;
        let to = json!({ "targetId": page["targetId"], "flatten": true });
        self.session = self.call("Target.attachToTarget", to).await?["sessionId"].take();
        for domain in ["Page", "Runtime", "Network"] {
            self.call(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(())
    }

    /// Calls a method of the page, or of the browser before there is a page.
    pub async fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.latest += 1;
        let mut command = json!({ "id": self.latest, "method": method, "params": parameters });
        if !self.session.is_null() {
            command["sessionId"] = self.session.clone();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).await.map_err(|error| self.gone(error))?;
        loop {
            let mut message = self.read().await?;
            if message["id"] != self.latest {
                if self.events.len() == EVENTS {
                    return Err(format!("{method} is not answered").into());
                }
                self.events.push_back(message);
            } else if message["error"].is_null() {
                return Ok(message["result"].take());
            } else {
                return Err(format!("{method}: {}", message["error"]["message"]).into());
            }
        }
    }

    /// The next event on the page.
    pub async fn event(&mut self) -> Result<Value> {
        match self.events.pop_front() {
            Some(event) => Ok(event),
            None => self.read().await,
        }
    }

    /// The value of an expression on the page.
    pub async fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", parameters).await?;
        if answer["exceptionDetails"].is_null() {
            return Ok(answer["result"]["value"].take());
        }
        Err(format!("{expression}: {}", answer["exceptionDetails"]["text"]).into())
    }

    /// The whole page, as a PNG.
    pub async fn screenshot(&mut self) -> Result<Vec<u8>> {
        let answer = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true })).await?;
        Ok(STANDARD.decode(answer["data"].as_str().unwrap_or_default())?)
    }

    async fn read(&mut self) -> Result<Value> {
        let mut message = Vec::new();
        self.messages.read_until(0, &mut message).await?;
        match message.pop() {
            Some(0) => Ok(serde_json::from_slice(&message)?),
            _ => Err(self.gone("the browser ended")),
        }
    }

    /// Why it ended, with its last words.
    fn gone(&self, error: impl std::fmt::Display) -> Box<dyn std::error::Error + Send + Sync> {
        let said = fs::read_to_string(self.folder.path().join("output.log")).unwrap_or_default();
        let last: Vec<&str> = said.trim_end().lines().rev().take(10).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        format!("{error} (process {})\n{}", self.process.0.id(), last.join("\n")).into()
    }
}
