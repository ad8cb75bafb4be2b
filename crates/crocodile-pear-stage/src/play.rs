//! Plays one scenario from its start to its end.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crocodile_pear::unstable::config::spec::{Entries, Json};

use crate::absent;
use crate::client::{Client, Head, Piece};
use crate::gates::Gates;
use crate::gateway::Gateway;
use crate::script::{Payload, Scenario, Step, check_fields};
use crate::upstream::Upstream;

/// Plays the scenario in a file.
pub fn play(path: &Path) -> Result<(), String> {
    let scenario = Scenario::read(path)?;
    perform(&scenario, crate::scratch(path.file_name().unwrap_or_default()))
}

/// Plays a scenario whose configuration is written to `file`.
pub fn perform(scenario: &Scenario, file: PathBuf) -> Result<(), String> {
    let mut scene = Scene::set(scenario, file)?;
    for step in &scenario.requests {
        scene.step(&step.value).map_err(|wrong| scene.told(step.span.line, &wrong))?;
    }
    scene.check(scenario).map_err(|wrong| scene.told(0, &wrong))
}

struct Scene {
    gates: Gates,
    upstreams: HashMap<String, Upstream>,
    gateway: Gateway,
    file: PathBuf,
    clients: HashMap<String, Client>,
    latest: String,
}

impl Scene {
    fn set(scenario: &Scenario, file: PathBuf) -> Result<Self, String> {
        let gates = Gates::default();
        let start = |script| Upstream::start(script, &gates).map_err(|error| error.to_string());
        let mut upstreams = HashMap::new();
        for (name, (_, script)) in scenario.upstreams.iter().flatten() {
            upstreams.insert(name.clone(), start(script)?);
        }
        let mut addresses: Vec<(String, String)> =
            upstreams.iter().map(|(name, upstream)| (name.to_uppercase(), upstream.address.to_string())).collect();
        let (nobody, address) = absent::nobody().map_err(|error| error.to_string())?;
        addresses.push(("NOBODY".to_owned(), address.to_string()));
        let (full, address) = absent::full().map_err(|error| error.to_string())?;
        addresses.push(("FULL".to_owned(), address.to_string()));
        // Both last as long as the test's process.
        std::mem::forget((nobody, full));
        fs::write(&file, whole(&scenario.config)).map_err(|error| error.to_string())?;
        beside(&file, scenario.files.as_ref())?;
        let arguments = ["run".as_ref(), file.as_os_str()];
        let variables = scenario.environment.iter().flatten().map(|(name, (_, value))| (name.clone(), value.clone()));
        let gateway = Gateway::start(arguments, addresses.into_iter().chain(variables))?;
        Ok(Scene { gates, upstreams, gateway, file, clients: HashMap::new(), latest: String::new() })
    }

    /// The fault, with all that helps to find out why.
    fn told(&self, line: u32, wrong: &str) -> String {
        let faults: Vec<String> = self.upstreams.values().flat_map(Upstream::faults).collect();
        let said = self.gateway.said();
        format!("line {line}: {wrong}\nupstreams: {faults:?}\nthe gateway said:\n{said}")
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        if let Some(gate) = &step.open {
            self.gates.open(gate);
        }
        if let Some(gate) = &step.wait {
            self.gates.pass(gate)?;
        }
        if let Some(config) = &step.rewrite {
            fs::write(&self.file, whole(config)).map_err(|error| error.to_string())?;
        }
        beside(&self.file, step.write.as_ref())?;
        if let Some(signal) = &step.signal {
            self.gateway.signal(signal)?;
        }
        self.send(step)?;
        if step.leave {
            self.clients.remove(&self.latest);
        }
        if step.expects() {
            let client = self.clients.get_mut(&self.latest).ok_or("no connection is open")?;
            expect(step, client)?;
        }
        if let Some(pattern) = &step.log {
            self.gateway.logged(pattern)?;
        }
        if let Some(code) = step.exit {
            let status = self.gateway.ended()?;
            if status.code().and_then(|code| u32::try_from(code).ok()) != Some(code) {
                return Err(format!("the gateway ended with {status}"));
            }
        }
        Ok(())
    }

    fn send(&mut self, step: &Step) -> Result<(), String> {
        let request = request(step)?;
        match &step.on {
            Some(name) => self.latest = name.clone(),
            None if !request.is_empty() && step.send.is_some() => {
                self.latest = String::new();
                self.clients.remove("");
            }
            None => {}
        }
        if request.is_empty() {
            return Ok(());
        }
        if !self.clients.contains_key(&self.latest) {
            self.clients.insert(self.latest.clone(), Client::connect(self.gateway.address)?);
        }
        let client = self.clients.get_mut(&self.latest).ok_or("no connection is open")?;
        match &step.send {
            Some(call) => client.ask(call.split(' ').next().unwrap_or_default(), &request),
            None => client.send(&request),
        }
    }

    fn check(&self, scenario: &Scenario) -> Result<(), String> {
        for (name, (_, wanted)) in scenario.received.iter().flatten() {
            let upstream = self.upstreams.get(name).ok_or_else(|| format!("no upstream is {name}"))?;
            upstream.check(wanted).map_err(|wrong| format!("{name}: {wrong}"))?;
        }
        for (name, (_, wanted)) in scenario.connections.iter().flatten() {
            let seen = self.upstreams.get(name).map(Upstream::connections);
            if seen != Some(*wanted) {
                return Err(format!("{name}: {seen:?} connections, not {wanted}"));
            }
        }
        let faults: Vec<String> = self.upstreams.values().flat_map(Upstream::faults).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}

/// Writes files into the folder of a configuration.
fn beside(config: &Path, files: Option<&Entries<String>>) -> Result<(), String> {
    for (name, (_, text)) in files.into_iter().flatten() {
        fs::write(config.with_file_name(name), text).map_err(|error| error.to_string())?;
    }
    Ok(())
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.gates.end();
    }
}

/// The configuration with what every scenario needs. One thread, so that connections are kept where they are looked for.
fn whole(config: &str) -> String {
    let threads = if config.contains("threads:") { "" } else { "threads: 1\n" };
    let listen = if config.contains("listen:") { "" } else { "listen: 127.0.0.1:0\n" };
    format!("{listen}{threads}{config}")
}

impl Step {
    fn expects(&self) -> bool {
        self.status.is_some() || self.chunks.is_some() || self.ends.is_some() || self.closes || self.reads_rest()
    }

    /// Whether the body is read to its end for what must be in it.
    fn reads_rest(&self) -> bool {
        let values = self.text.is_some() || self.json.is_some() || self.problem.is_some();
        values || self.contains.is_some() || self.trailers.is_some()
    }
}

/// The bytes of a request.
fn request(step: &Step) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    if let Some(call) = &step.send {
        out.extend(format!("{call} HTTP/1.1\r\n").into_bytes());
        let fields = step.with.iter().flatten();
        if !fields.clone().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            out.extend(b"host: gateway.test\r\n");
        }
        for (name, (_, value)) in fields {
            out.extend(format!("{name}: {value}\r\n").into_bytes());
        }
        if let Some(body) = &step.body {
            let body = body.bytes()?;
            out.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
            out.extend(body);
        } else if let Some(chunks) = &step.in_chunks {
            out.extend(b"transfer-encoding: chunked\r\n\r\n");
            for chunk in chunks.iter().map(Payload::bytes) {
                let chunk = chunk?;
                out.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                out.extend(chunk);
                out.extend(b"\r\n");
            }
            out.extend(b"0\r\n");
            for (name, (_, value)) in step.in_trailers.iter().flatten() {
                out.extend(format!("{name}: {value}\r\n").into_bytes());
            }
            out.extend(b"\r\n");
        } else {
            out.extend(b"\r\n");
        }
    }
    if let Some(raw) = &step.raw {
        out.extend(raw.bytes()?);
    }
    Ok(out)
}

fn expect(step: &Step, client: &mut Client) -> Result<(), String> {
    let mut media = String::new();
    if let Some(status) = step.status {
        let head = client.head()?;
        media = head.fields.iter().find(|(name, _)| name == "content-type").map_or(media, |(_, value)| value.clone());
        check_head(step, status, &head, client)?;
    }
    for wanted in step.chunks.iter().flatten() {
        match client.piece()? {
            Piece::Data(data) if data == wanted.as_bytes() => {}
            Piece::Data(data) => return Err(format!("the chunk {wanted:?} came as `{}`", data.escape_ascii())),
            other => return Err(format!("instead of the chunk {wanted:?} came {other:?}")),
        }
    }
    let whole = step.status.is_some_and(|status| status >= 200) && step.chunks.is_none();
    if whole || step.reads_rest() || step.ends.is_some() {
        check_rest(step, &media, client)?;
    }
    if step.closes { client.closes() } else { Ok(()) }
}

fn check_head(step: &Step, status: u16, head: &Head, client: &mut Client) -> Result<(), String> {
    if head.status != status {
        let mut body = Vec::new();
        while let Ok(Piece::Data(data)) = client.piece() {
            body.extend(data);
        }
        return Err(format!("the status is {}, not {status}: {}", head.status, String::from_utf8_lossy(&body)));
    }
    step.headers.as_ref().map_or(Ok(()), |wanted| check_fields(&head.fields, wanted))
}

/// Reads the body to its end, and checks what it was.
fn check_rest(step: &Step, media: &str, client: &mut Client) -> Result<(), String> {
    let mut body = Vec::new();
    let ended = loop {
        match client.piece()? {
            Piece::Data(data) => body.extend(data),
            Piece::End(trailers) => break Ok(trailers),
            Piece::Broken(how) => break Err(how),
        }
    };
    let text = String::from_utf8_lossy(&body);
    match (ended, step.ends.as_deref()) {
        (Err(_), Some("broken")) => {}
        (Err(how), _) => return Err(format!("the answer was broken off ({how}) after {text}")),
        (Ok(_), Some("broken")) => return Err(format!("the answer ended cleanly, after {text}")),
        (Ok(trailers), _) => check_fields(&trailers, &step.trailers.clone().unwrap_or_default())?,
    }
    if let Some(wanted) = &step.text
        && wanted.bytes()? != body
    {
        return Err(format!("the body is `{}`", body.escape_ascii()));
    }
    if step.chunks.is_some() && !step.reads_rest() && step.ends.as_deref() == Some("cleanly") && !body.is_empty() {
        return Err(format!("before the end there came {text}"));
    }
    let value = || serde_json::from_slice::<Json>(&body).map_err(|error| format!("{error} in {text}"));
    if let Some(wanted) = &step.json
        && value()? != *wanted
    {
        return Err(format!("the body is {text}"));
    }
    if let Some(wanted) = &step.problem {
        let document = value()?;
        let differs = |(name, wanted): (&String, &Json)| document.get(name) != Some(wanted);
        if media != "application/problem+json" || wanted.as_object().into_iter().flatten().any(differs) {
            return Err(format!("the body is {media} {text}"));
        }
    }
    for wanted in step.contains.iter().flatten() {
        if !text.contains(wanted) {
            return Err(format!("{wanted:?} is not in {text}"));
        }
    }
    // Whatever happens, clients learn nothing of what stands behind the gateway.
    if text.contains("127.0.0.1") { Err(format!("an address is in {text}")) } else { Ok(()) }
}
