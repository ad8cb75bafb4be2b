//! `docs/reference.md`, made of the schema, the binary's own help, the kinds of error and a scrape of the metrics.

use std::fmt::Write;
use std::fs;

use crocodile_pear::unstable::config::spec::Json;
use crocodile_pear::unstable::error::Kind;
use http::StatusCode;

use crate::documents::root;
use crate::documents::stage::{Served, shell};
use crate::stage::scratch;

/// The text that no code says, with a mark for each part that the code does say.
const FRAME: &str = include_str!("reference.md");

/// The definitions that have a section, in its order, with its heading. Those of the layers follow, by their names.
const SECTIONS: &[(&str, &str)] = &[
    ("Document", "Top level"),
    ("ListenerSpec", "Listener"),
    ("ListenerTlsSpec", "TLS for clients"),
    ("CertificateSpec", "Certificate"),
    ("AcmeSpec", "ACME"),
    ("EabSpec", "External account binding"),
    ("AdminSpec", "Admin listener"),
    ("ThreadPool", "Helper threads"),
    ("AccessLogSpec", "Access log"),
    ("TracesSpec", "Traces"),
    ("EventSourceSpec", "Event source"),
    ("DatabaseSpec", "Database"),
    ("StatementSpec", "Transaction statement"),
    ("UpstreamSpec", "Upstream"),
    ("ChoiceRuleSpec", "Rule of a choice"),
    ("MirrorSpec", "Mirror"),
    ("ServerSpec", "Server"),
    ("TlsSpec", "TLS to an upstream"),
    ("ConnectionsSpec", "Connection pool"),
    ("TimeoutSpec", "Timeouts"),
    ("RetrySpec", "Retries"),
    ("BackoffSpec", "Backoff"),
    ("BreakerSpec", "Circuit breaker"),
    ("BalanceSpec", "Load balancing"),
    ("EjectSpec", "Ejection"),
    ("HealthSpec", "Health checks"),
    ("CredentialsSpec", "Upstream credentials"),
    ("Oauth2Spec", "OAuth 2.0"),
    ("XmlSpec", "XML"),
    ("CsvSpec", "CSV"),
    ("AsParts", "Keys of a followed answer"),
    ("PublicSpec", "Links in bodies"),
    ("CachingSpec", "Cache"),
    ("PrivateSpec", "Private answers"),
    ("GroupSpec", "Group of endpoints"),
    ("VersionsSpec", "Versions"),
    ("OlderSpec", "Older version"),
    ("AdaptSpec", "Endpoint of an older version"),
    ("RequestAdapt", "Requests of an older version"),
    ("AnswerChange", "Answers of an older version"),
    ("EndpointSpec", "Endpoint"),
    ("EndpointDetachSpec", "Detached pipeline"),
    ("DetachSpec", "Detached call"),
    ("ConvertSpec", "Settings of convert"),
    ("Clients", "Clients"),
    ("RateSpec", "Minimum rate"),
    ("Jwt", "Method jwt"),
    ("ApiKey", "Method api_key"),
    ("Introspection", "Method introspection"),
    ("Basic", "Method basic"),
    ("ShownCertificate", "Method certificate"),
    ("ForwardAuth", "Method forward"),
    ("DecisionCache", "Decisions that are used again"),
    ("Files", "Files"),
    ("Validate", "Validation"),
    ("StoreSpec", "Store"),
    ("Log", "Log"),
    ("Analytics", "Analytics"),
    ("Headers", "Header fields"),
    ("Cors", "CORS"),
    ("Addresses", "Addresses"),
    ("PurgeSpec", "Purge"),
    ("RateLimit", "Rate limit"),
    ("Quota", "Quota"),
    ("InFlight", "Concurrency limit"),
    ("Compress", "Compression"),
    ("ServerTiming", "Server timing"),
    ("Upgrade", "Upgrade"),
];

const KINDS: [Kind; 25] = [
    Kind::BadRequest,
    Kind::NotAcceptable,
    Kind::UnsupportedBody,
    Kind::BodyTooLarge,
    Kind::SlowBody,
    Kind::Unreachable,
    Kind::Reset,
    Kind::Malformed,
    Kind::Cut,
    Kind::Oversized,
    Kind::Refused(StatusCode::NOT_FOUND),
    Kind::Rejected(StatusCode::NOT_FOUND),
    Kind::Unusable,
    Kind::Missing,
    Kind::Timeout,
    Kind::Busy,
    Kind::Unavailable,
    Kind::Expression,
    Kind::Loop,
    Kind::Overloaded,
    Kind::Internal,
    Kind::InvalidCall,
    Kind::Closure,
    Kind::Panic,
    Kind::Cancelled,
];

const COMMANDS: [&str; 15] = [
    "init",
    "run",
    "check",
    "explain",
    "probe",
    "top",
    "events postgres",
    "health",
    "import krakend",
    "import nginx",
    "schema",
    "demo",
    "demo items",
    "completions",
    "man",
];

/// The whole page.
pub fn write(schema: &Json) -> String {
    let reference = Reference { definitions: &schema["$defs"] };
    let page = FRAME
        .replace("<!-- sections -->", &reference.sections())
        .replace("<!-- steps -->", &reference.steps())
        .replace("<!-- batch -->", &format!("### Batch\n\n{}", reference.part(&schema["$defs"]["Batch"])))
        .replace("<!-- commands -->", &commands())
        .replace("<!-- refused -->", &refused())
        .replace("<!-- kinds -->", &kinds())
        .replace("<!-- log -->", &log())
        .replace("<!-- metrics -->", &metrics());
    let contents = contents(&page);
    page.replace("<!-- contents -->", &contents)
}

/// The headings, each as a link to its place.
fn contents(page: &str) -> String {
    let mut fenced = false;
    let lines = page.lines().filter(|line| {
        fenced ^= line.starts_with("```");
        !fenced
    });
    let heading = |line: &str| {
        let (marks, heading) = line.split_once(' ')?;
        let depth = [("##", ""), ("###", "  ")].into_iter().find(|(own, _)| *own == marks)?.1;
        let kept = |sign: &char| sign.is_alphanumeric() || ['-', '_', ' '].contains(sign);
        let anchor: String = heading.to_lowercase().chars().filter(kept).collect();
        Some(format!("{depth}- [{heading}](#{})\n", anchor.replace(' ', "-")))
    };
    lines.filter_map(heading).collect()
}

struct Reference<'a> {
    definitions: &'a Json,
}

impl Reference<'_> {
    fn sections(&self) -> String {
        let section =
            |(name, heading): (&str, &str)| format!("### {heading}\n\n{}", self.part(&self.definitions[name]));
        let layers = self.layers().into_iter().map(|name| (name, name));
        SECTIONS.iter().copied().chain(layers).map(section).collect::<Vec<_>>().join("\n")
    }

    /// The other types in fields of the document or of an endpoint that have fields of their own.
    fn layers(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for place in ["Document", "EndpointSpec"] {
            let fields = object(&self.definitions[place])["properties"].as_object().unwrap();
            for field in fields.values() {
                for name in ways(field).into_iter().filter_map(|way| way["$ref"].as_str()?.rsplit('/').next()) {
                    let known = SECTIONS.iter().any(|(known, _)| *known == name) || names.contains(&name);
                    if !known && object(&self.definitions[name])["properties"].is_object() {
                        names.push(name);
                    }
                }
            }
        }
        names
    }

    fn steps(&self) -> String {
        let steps = &object(&self.definitions["EndpointSpec"])["properties"]["pipeline"]["items"]["oneOf"];
        let steps = steps.as_array().unwrap().iter().flat_map(|step| step["properties"].as_object().unwrap());
        let section = |(name, schema): (&String, &Json)| format!("### {name}\n\n{}", self.part(self.follow(schema)));
        steps.map(section).collect::<Vec<_>>().join("\n")
    }

    /// The description of a schema, and its fields.
    fn part(&self, schema: &Json) -> String {
        // A schema has its paragraphs on one line, two spaces apart.
        let mut text = format!("{}\n", doc(schema).replace("  ", "\n\n"));
        let object = object(schema);
        let Some(fields) = object["properties"].as_object() else {
            let _ = writeln!(text, "\nValue: {}.", self.kind(schema));
            return text;
        };
        text += "\n| field | value | default | |\n|---|---|---|---|\n";
        let required =
            |name: &String| object["required"].as_array().is_some_and(|list| list.contains(&name.as_str().into()));
        for (name, field) in fields {
            let default = match (&field["default"], required(name)) {
                (_, true) => "required".to_owned(),
                (Json::Null, false) => String::new(),
                (Json::String(default), _) => format!("`{default}`"),
                (default, _) => format!("`{default}`"),
            };
            let doc = cell(&(doc(field) + &self.words(field)));
            let _ = writeln!(text, "| `{name}` | {} | {default} | {doc} |", cell(&self.kind(field)));
        }
        text
    }

    /// The words of a choice, each with its meaning.
    fn words(&self, field: &Json) -> String {
        let words = self.choices(self.follow(field));
        let word = |word: &Json| format!(" `{}`: {}", word["const"].as_str().unwrap_or("null"), doc(word));
        words.into_iter().flatten().map(word).collect()
    }

    fn choices<'s>(&self, schema: &'s Json) -> Option<&'s Vec<Json>> {
        schema["oneOf"]
            .as_array()
            .or_else(|| schema["anyOf"].as_array()?.iter().find_map(|one| one["oneOf"].as_array()))
    }

    /// The kinds of values that may be written.
    fn kind(&self, schema: &Json) -> String {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            return self.named(name);
        }
        if let Some(any) = schema["anyOf"].as_array() {
            let other = |one: &&Json| one["$ref"] != "#/$defs/Variable";
            return any.iter().filter(other).map(|one| self.kind(one)).collect::<Vec<_>>().join(" or ");
        }
        match (schema["type"].as_str(), &schema["const"]) {
            (_, Json::String(word)) => format!("`{word}`"),
            (Some("string"), _) if schema["contentMediaType"] == "application/jq" => "[jq](#expressions)".to_owned(),
            (Some("string"), _) => "text".to_owned(),
            (Some("integer"), _) => "whole number".to_owned(),
            (Some("number"), _) => "number".to_owned(),
            (Some("boolean"), _) => "`true` or `false`".to_owned(),
            (Some("array"), _) if schema["items"]["oneOf"].is_array() => self.one_of(&schema["items"]["oneOf"]),
            (Some("array"), _) => format!("list of {}", self.kind(&schema["items"])),
            (Some("object"), _) => format!("map of names, each with {}", self.kind(&schema["additionalProperties"])),
            _ => "any value".to_owned(),
        }
    }

    /// A list of maps with one key.
    fn one_of(&self, kinds: &Json) -> String {
        let kinds = kinds.as_array().into_iter().flatten().flat_map(|kind| kind["properties"].as_object());
        let kinds: Vec<_> = kinds.flatten().collect();
        if kinds.iter().any(|(name, _)| *name == "request") {
            return "list of [steps](#steps)".to_owned();
        }
        let links: Vec<String> = kinds.iter().map(|(_, schema)| self.kind(schema)).collect();
        format!("list of {}", links.join(", "))
    }

    fn named(&self, name: &str) -> String {
        if let Some((_, heading)) = SECTIONS.iter().find(|(known, _)| *known == name) {
            return format!("[{heading}](#{})", heading.to_lowercase().replace('.', "").replace(' ', "-"));
        }
        match (self.choices(&self.definitions[name]), name) {
            (Some(words), _) => {
                let words = words.iter().map(|word| format!("`{}`", word["const"].as_str().unwrap_or("null")));
                words.collect::<Vec<_>>().join(" or ")
            }
            (None, "RespondSpec") => "[settings of `respond`](#respond)".to_owned(),
            (None, "Duration" | "Size") => format!("[{0}](#durations-and-sizes)", name.to_lowercase()),
            (None, _) => format!("[{0}](#{0})", name.to_lowercase()),
        }
    }

    fn follow<'s>(&'s self, schema: &'s Json) -> &'s Json {
        match schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            Some(name) => &self.definitions[name],
            None => schema,
        }
    }
}

/// The ways in which something may be written.
fn ways(schema: &Json) -> Vec<&Json> {
    match schema["anyOf"].as_array() {
        Some(any) => any.iter().flat_map(ways).collect(),
        None => vec![schema],
    }
}

/// The map of a part that may also be written short.
fn object(schema: &Json) -> &Json {
    let alternatives = schema["anyOf"].as_array();
    alternatives.and_then(|any| any.iter().find(|one| one["type"] == "object")).unwrap_or(schema)
}

fn doc(schema: &Json) -> String {
    schema["description"].as_str().unwrap_or_default().to_owned()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn commands() -> String {
    let help = |name: &&str| {
        let told = shell(&format!("crocodile-pear {name} --help"), &root());
        let told = String::from_utf8(told.stdout).unwrap();
        let lines: Vec<&str> = told.lines().map(str::trim_end).collect();
        format!("### {name}\n\n```text\n{}\n```\n", lines.join("\n"))
    };
    COMMANDS.iter().map(help).collect::<Vec<_>>().join("\n")
}

/// The functions of jq that expressions do not have, by the reason.
fn refused() -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, reason) in crocodile_pear::unstable::jq::refused() {
        let name = format!("`{name}`");
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let mut table = "| refused | why |\n|---|---|\n".to_owned();
    for (reason, names) in reasons {
        let _ = writeln!(table, "| {} | {reason} |", names.join(", "));
    }
    table
}

/// A row for each kind, described by the source.
fn kinds() -> String {
    let source = fs::read_to_string(root().join("crates/crocodile-pear/src/error.rs")).unwrap();
    let body = source.split("pub enum Kind {").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap();
    let lines: Vec<&str> = body.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let described: Vec<_> = lines.chunks(2).map(|pair| (pair[0].trim_start_matches("/// "), pair[1])).collect();
    assert_eq!(described.len(), KINDS.len(), "a kind of error is not in the reference");
    let mut table = "| kind | status | fault | |\n|---|---|---|---|\n".to_owned();
    for (kind, (doc, variant)) in KINDS.into_iter().zip(described) {
        let name = variant.split(['(', ',']).next();
        assert_eq!(format!("{kind:?}").split('(').next(), name);
        let status = match kind {
            Kind::Refused(_) | Kind::Rejected(_) => "its own".to_owned(),
            kind => kind.status().as_u16().to_string(),
        };
        let fault = format!("{:?}", kind.fault()).to_lowercase();
        let _ = writeln!(table, "| `{}` | {status} | {fault} | {doc} |", kind.name());
    }
    table
}

/// The fields of the lines that a request leaves in the log.
fn log() -> String {
    let folder = &scratch("");
    let served = serve("log.yaml", "log: { access: true, timers: true, format: json }");
    let address = served.address("listening on http://");
    let row = |target: &str, words: &str, when: &str| {
        // A request for each: two threads write the lines, in any order.
        shell(&format!("curl http://{address}/"), folder);
        let line: Json = serde_json::from_str(&served.line(words)).unwrap();
        let own = |name: &&String| !["timestamp", "level", "target"].contains(&name.as_str());
        let fields: Vec<String> =
            line.as_object().unwrap().keys().filter(own).map(|name| format!("`{name}`")).collect();
        format!("| {target} | {} | {when} |\n", fields.join(", "))
    };
    let timer = "a message passes a [timer](#timer): `status`, `headers`, `chunk`, `done` or `failed`. The size is the status, \
        the number of header fields, or the number of bytes; the time is since the request began";
    let access = "an answer has ended, if `access` is on: `whole`, `failed` (with `error.message`), \
        `client-gone` or `client-slow`. `error.type` says why a request failed, or the status of 5xx that an upstream gave. A request \
        that is not valid HTTP has no method, path and route; a request without an endpoint has no route; a client that left before \
        its answer has the status 499";
    row("`crocodile_pear::timer`", "crocodile_pear::timer", timer)
        + &row("the access log in `json`", "http.response.status_code", access)
}

/// A gateway with one endpoint, and this line in its configuration.
fn serve(name: &str, line: &str) -> Served {
    let folder = &scratch("");
    let config = format!(
        "listen: 127.0.0.1:0\n{line}\nupstreams: {{ users: 'http://127.0.0.1:9' }}\n\
         endpoints: {{ GET /: {{ pipeline: [timer: asked, request: users /] }} }}\n"
    );
    fs::write(folder.join(name), config).unwrap();
    Served::begin(&["run", name], &[], folder)
}

/// A row for each metric that a gateway shows.
fn metrics() -> String {
    let folder = &scratch("");
    let served = serve("metrics.yaml", "admin: 127.0.0.1:0");
    let admin = served.address("health and metrics on http://");
    let scraped = String::from_utf8(shell(&format!("curl http://{admin}/metrics"), folder).stdout).unwrap();
    let mut table = "| metric | kind | |\n|---|---|---|\n".to_owned();
    let mut help = ("", "");
    for line in scraped.lines() {
        if let Some(about) = line.strip_prefix("# HELP ") {
            help = about.split_once(' ').unwrap();
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let _ = writeln!(table, "| `{}` | {} | {} |", help.0, kind.rsplit(' ').next().unwrap(), help.1);
        }
    }
    table
}
