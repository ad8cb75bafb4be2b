//! The format of a scenario file.

use std::path::Path;

use base64::Engine;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Entries, Json, Located, Node};
use crocodile_pear::unstable::spec;
use crocodile_pear_gateway::config::{self, Colour, ProblemFormat};

spec! {
    /// A promise: a gateway, upstreams that play their parts, what clients send, and what everyone must receive.
    pub struct Scenario {
        /// Facts that the file's name cannot say.
        pub about: Option<String>,
        /// The gateway's configuration without `listen`; `${NAME}` is the address of the upstream `name`.
        /// `${NOBODY}` refuses connections, and `${FULL}` never takes one.
        pub config: String,
        /// Files beside the configuration, by name; the names are not those of other scenarios.
        pub files: Option<Entries<String>>,
        /// Variables of the gateway's environment.
        pub environment: Option<Entries<String>>,
        /// The answers of upstreams, by name and path.
        pub upstreams: Option<Entries<Entries<Acts>>>,
        /// The events, in order.
        pub requests: Vec<Located<Step>>,
        /// The requests that each upstream must have received, in any order, and nothing else.
        pub received: Option<Entries<Vec<Received>>>,
        /// How many connections each upstream must have seen.
        pub connections: Option<Entries<usize>>,
    }
}

spec! {
    /// An act of an upstream when it is called. Written short as a JSON body, answered with 200.
    /// The fields are followed from the top; the client's body is read before anything is written.
    pub struct Act {
        /// Reads so many bytes of the body, and no more before it answers.
        pub reads: Option<usize>,
        /// Waits until a gate is open.
        pub wait: Option<String>,
        /// Opens a gate.
        pub open: Option<String>,
        /// Answers with this status,
        pub status: Option<u16>,
        /// these fields (JSON is the content type unless it is named here; `${SELF}` is its own address),
        pub headers: Option<Entries<Option<String>>>,
        /// and this body, its length told.
        pub body: Option<Payload>,
        /// Instead of a body: chunks.
        pub chunks: Option<Vec<Payload>>,
        /// Writes bytes as they are.
        pub raw: Option<Payload>,
        /// Ends the connection: `fin` or `rst`.
        pub end: Option<String>,
        /// Opens a gate when the connection has been ended.
        pub over: Option<String>,
        /// Waits until the other side ends the connection, then opens a gate.
        pub left: Option<String>,
    }
    short(body)
}

fn body(text: Located<String>, _: &mut Problems) -> Option<Act> {
    let body = Payload { text: text.value, base64: None, times: 1, nested: None };
    let (reads, wait, open, headers, chunks) = (None, None, None, None, None);
    let (raw, end, over, left) = (None, None, None, None);
    Some(Act { reads, wait, open, status: Some(200), headers, body: Some(body), chunks, raw, end, over, left })
}

/// The acts of an upstream for one call: a list, or one.
#[derive(Clone, Debug)]
pub struct Acts(pub Vec<Act>);

impl Decode for Acts {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_list() {
            Some(_) => Vec::decode(node, problems).map(Acts),
            None => Act::decode(node, problems).map(|act| Acts(vec![act])),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        Act::schema(definitions)
    }
}

spec! {
    /// Bytes. Written short as a text.
    pub struct Payload {
        /// A text,
        pub text: String = String::new(),
        /// or bytes that are none,
        pub base64: Option<String>,
        /// so many times;
        pub times: usize = 1,
        /// or so many lists in each other.
        pub nested: Option<usize>,
    }
    short(text)
}

fn text(text: Located<String>, _: &mut Problems) -> Option<Payload> {
    Some(Payload { text: text.value, base64: None, times: 1, nested: None })
}

impl Payload {
    /// The text to repeat, and how often.
    pub fn parts(&self) -> Result<(Vec<u8>, usize), String> {
        if let Some(depth) = self.nested {
            return Ok((["[".repeat(depth), "]".repeat(depth)].concat().into_bytes(), 1));
        }
        match &self.base64 {
            None => Ok((self.text.clone().into_bytes(), self.times)),
            Some(text) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                bytes.map(|bytes| (bytes, self.times)).map_err(|error| format!("{text} is no base64: {error}"))
            }
        }
    }

    /// The whole.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        self.parts().map(|(part, times)| part.repeat(times))
    }
}

spec! {
    /// An event. Requests go out on a new connection unless `on` names one; an expected answer is
    /// read from the latest one unless `on` names another. The fields are followed from the top.
    pub struct Step {
        /// A connection, by a name of the scenario's own.
        pub on: Option<String>,
        /// Opens a gate.
        pub open: Option<String>,
        /// Waits until a gate is open.
        pub wait: Option<String>,
        /// Writes another configuration into the gateway's file.
        pub rewrite: Option<String>,
        /// Writes files beside it.
        pub write: Option<Entries<String>>,
        /// Sends the gateway a signal: `HUP` or `TERM`.
        pub signal: Option<String>,
        /// Sends a request, `METHOD /target`,
        pub send: Option<String>,
        /// with these fields,
        pub with: Option<Entries<String>>,
        /// and this body, its length told.
        pub body: Option<Payload>,
        /// Instead of a body: chunks,
        pub in_chunks: Option<Vec<Payload>>,
        /// and these trailers behind them.
        pub in_trailers: Option<Entries<String>>,
        /// Sends bytes as they are.
        pub raw: Option<Payload>,
        /// Ends the client's connection.
        pub leave: bool = false,
        /// An answer must begin, with this status,
        pub status: Option<u16>,
        /// and these fields: `*` is any text, null says that there is none.
        pub headers: Option<Entries<Option<String>>>,
        /// These chunks must come, divided like this.
        pub chunks: Option<Vec<String>>,
        /// The rest of the body must be this text,
        pub text: Option<Payload>,
        /// this JSON value,
        pub json: Option<Json>,
        /// a problem document with these fields among its own,
        pub problem: Option<Json>,
        /// or have these texts in it.
        pub contains: Option<Vec<String>>,
        /// These fields must come in the trailer.
        pub trailers: Option<Entries<Option<String>>>,
        /// The answer must end here and cleanly, or be broken off: `cleanly` or `broken`.
        pub ends: Option<String>,
        /// The gateway must end the connection.
        pub closes: bool = false,
        /// A line like this must come in the log; `*` is any text.
        pub log: Option<String>,
        /// The gateway must end, with this exit code.
        pub exit: Option<u32>,
    }
}

spec! {
    /// A request that an upstream must have received. Written short as `METHOD /target`.
    pub struct Received {
        /// `METHOD /target`
        pub call: String,
        /// These fields: `*` is any text, null says that there is none.
        pub headers: Option<Entries<Option<String>>>,
        /// The body.
        pub body: Option<Payload>,
        /// These fields behind it.
        pub trailers: Option<Entries<Option<String>>>,
    }
    short(received)
}

fn received(call: Located<String>, _: &mut Problems) -> Option<Received> {
    Some(Received { call: call.value, headers: None, body: None, trailers: None })
}

impl Scenario {
    /// Reads a file; what is wrong with it is told as the gateway tells it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        // The gateway itself fills in its variables.
        let kept = |name: &str| Some(format!("${{{name}}}"));
        let (node, sources, mut problems) = config::parse(&path.display().to_string(), &text, &kept);
        let scenario = node.and_then(|node| Scenario::decode(&node, &mut problems));
        scenario.ok_or_else(|| config::report(&problems.into_sorted(), &sources, ProblemFormat::Text(Colour::Never)))
    }
}

/// Whether a text is like a pattern, in which `*` is any text.
pub fn like(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Checks fields, in lower case, against what they must be.
pub fn check_fields(fields: &[(String, String)], wanted: &Entries<Option<String>>) -> Result<(), String> {
    for (name, (_, wanted)) in wanted {
        let has: Vec<&str> =
            fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value).collect();
        match wanted {
            // A field that comes twice is told as `one | other`.
            Some(wanted) if !has.is_empty() && like(&has.join(" | "), wanted) => {}
            None if has.is_empty() => {}
            Some(wanted) => return Err(format!("`{name}` must be {wanted:?}, and is {has:?}")),
            None => return Err(format!("there must be no `{name}`, and it is {has:?}")),
        }
    }
    Ok(())
}
