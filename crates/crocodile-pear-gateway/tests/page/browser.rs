//! A real browser, driven by the DevTools protocol.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::page::PATIENCE;

/// A browser with one page.
pub struct Browser {
    child: Child,
    profile: PathBuf,
    socket: WebSocketStream<TcpStream>,
    session: String,
    sent: u64,
    /// The events so far: method and parameters.
    pub events: Vec<(String, Value)>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The browser keeps a socket in a folder of its own among the temporary files, and a killed browser leaves it there.
        let socket = std::fs::read_link(self.profile.join("SingletonSocket")).unwrap_or_default();
        if let Some(folder) = socket.parent().filter(|folder| folder.starts_with(std::env::temp_dir())) {
            let _ = std::fs::remove_dir_all(folder);
        }
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

impl Browser {
    /// Starts it; nothing, where none is installed.
    pub async fn start(name: &str) -> Option<Self> {
        let profile = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{name}"));
        let _ = std::fs::remove_dir_all(&profile);
        let child = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"])
            .args(["--disable-background-networking", "--disable-component-update", "--no-first-run"])
            .args(["--js-flags=--expose-gc", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            crate::stage::skip("chromium");
            return None;
        };
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("DevTools listening on"))).unwrap();
        let url = line.split("listening on ").nth(1).unwrap().trim().to_owned();
        // What else it says must go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        let address = url.strip_prefix("ws://").unwrap().split('/').next().unwrap().to_owned();
        let (socket, _) = client_async(&url, TcpStream::connect(address).await.unwrap()).await.unwrap();
        let mut browser = Browser { child, profile, socket, session: String::new(), sent: 0, events: Vec::new() };
        let targets = browser.call("Target.getTargets", json!({})).await;
        let pages = targets["targetInfos"].as_array().unwrap();
        let page = pages.iter().find(|target| target["type"] == "page").unwrap()["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": page, "flatten": true })).await;
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log", "Performance", "HeapProfiler"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        Some(browser)
    }

    /// Calls a method; events that come meanwhile are kept.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let id = self.sent;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.socket.send(Message::text(message.to_string())).await.unwrap();
        loop {
            let message = timeout(PATIENCE, self.socket.next()).await;
            let message = message.unwrap_or_else(|_| panic!("the browser does not answer {method}")).unwrap().unwrap();
            let Message::Text(text) = message else { continue };
            let mut told: Value = serde_json::from_str(&text).unwrap();
            if told["id"] == id {
                assert!(told["error"].is_null(), "{method}: {}", told["error"]);
                return told["result"].take();
            }
            if let Some(event) = told["method"].as_str() {
                self.events.push((event.to_owned(), told["params"].clone()));
            }
        }
    }

    pub async fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url })).await;
    }

    /// The value of an expression, awaited.
    pub async fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let told = self.call("Runtime.evaluate", params).await;
        assert!(told["exceptionDetails"].is_null(), "{expression}: {}", told["exceptionDetails"]);
        told["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub async fn until(&mut self, expression: &str) {
        let patience = PATIENCE.as_millis();
        let wait = format!(
            "new Promise((done) => {{ const until = Date.now() + {patience}; const look = () => {{ \
             let now = false; try {{ now = {expression}; }} catch {{}} \
             if (now || Date.now() > until) done(Boolean(now)); else setTimeout(look, 20); }}; look(); }})"
        );
        if self.value(&wait).await != json!(true) {
            let text = self.value("document.body ? document.body.innerText : ''").await;
            panic!("it does not come: {expression}\n{}", text.as_str().unwrap_or_default());
        }
    }

    /// Shows the page in this width, light or dark.
    pub async fn resize(&mut self, width: u64, scheme: &str) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", feature).await;
    }

    /// Saves a picture of the whole page.
    pub async fn picture(&mut self, name: &str) {
        use base64::Engine;
        let told = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true })).await;
        let bytes = base64::engine::general_purpose::STANDARD.decode(told["data"].as_str().unwrap()).unwrap();
        std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), bytes).unwrap();
    }

    /// The URLs that the browser has asked for so far.
    pub fn urls(&self) -> Vec<String> {
        let asked = self.events.iter().filter(|(event, _)| event == "Network.requestWillBeSent");
        asked.map(|(_, params)| params["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// The complaints of the browser: refused by the policy, failed, or thrown.
    pub fn complaints(&self) -> Vec<&Value> {
        let bad = ["Log.entryAdded", "Runtime.exceptionThrown"];
        self.events.iter().filter(|(event, _)| bad.contains(&event.as_str())).map(|(_, params)| params).collect()
    }
}
