//! The access log: one line per request, written when its answer has ended.

mod compile;
mod entry;
mod escape;
mod json;
mod plain;
mod template;

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, ExpressionSpec, Json, Located, Node, Share, only};
use crocodile_pear::unstable::jq::{self, Filter};
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;

use crate::telemetry::line_writer::Journal;
use crate::telemetry::request_end::RequestEnd;
use entry::AccessLogEntry;
use template::Template;

/// Whether requests are logged, and which.
#[derive(Clone, Debug)]
pub enum AccessSpec {
    /// Off: `off` or `false`.
    Off,
    /// On: `on`, `true`, a format, or a map.
    On(Box<AccessLogSpec>),
}

spec! {
    /// The access log: one line per request, written when its answer has ended. It never delays a request: lines that
    /// cannot be written in time are dropped and counted (`crocodile_pear_access_log_dropped_total`).
    pub struct AccessLogSpec {
        /// The format of a line: `text`, `json` (field names of OpenTelemetry), `common` or `combined` (NCSA, as
        /// nginx and Apache write them), or a text with expressions in braces: `'{$status} {$method} {$target}
        /// {$duration}'`. Default: `json` if the log's own `format` is `json`, otherwise `text`.
        pub format: Option<Located<String>>,
        /// Where to write: `stderr`, a file (reopened on SIGUSR1), `syslog` (RFC 5424, to `/dev/log`), `syslog:/PATH`
        /// for another datagram socket, or `syslog://HOST:PORT` over UDP.
        pub to: Located<String> = Located::new("stderr".to_owned(), Default::default()),
        /// Which requests to log: those for which this expression is true, as in `'$status >= 500 or $duration > 1'`.
        /// Default: all.
        pub when: Option<ExpressionSpec>,
        /// The share of requests to log, chosen at random. With `when`: the share of the other requests to log too.
        pub sample: Option<Share>,
        /// The user name to log, as an expression. Default: `$claims.sub`, or the subject of the client's
        /// certificate.
        pub user: Option<ExpressionSpec>,
        /// Whether to log the query. It may contain secrets; credentials that the gateway has checked are left out.
        pub query: bool = false,
    }
    short(format_alone)
}

fn format_alone(format: Located<String>, problems: &mut Problems) -> Option<AccessLogSpec> {
    only([("format", format)], problems)
}

impl Decode for AccessSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_plain() {
            Some("off" | "false") => Some(AccessSpec::Off),
            Some("on" | "true") => Some(AccessSpec::On(Box::new(spec::defaults()))),
            _ => AccessLogSpec::decode(node, problems).map(|spec| AccessSpec::On(Box::new(spec))),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        serde_json::json!({"anyOf": [{"enum": ["on", "off"]}, {"type": "boolean"}, AccessLogSpec::schema(definitions)]})
    }

    fn written(&self) -> Option<Json> {
        matches!(self, AccessSpec::Off).then(|| "off".into())
    }
}

/// The compiled access log.
pub struct Access {
    format: AccessLogFormat,
    journal: Arc<Journal>,
    when: Option<Condition>,
    /// How many of 2^32 requests that `when` does not select are logged anyway.
    sample: u64,
    user: Option<Filter>,
    query: bool,
}

/// The format of a line.
enum AccessLogFormat {
    Text,
    Json,
    Common,
    Combined,
    Template(Template),
}

/// An expression that selects requests.
struct Condition {
    filter: Filter,
    failures: LogLimiter,
}

thread_local! {
    /// This thread's buffer for lines.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// A random key, and how many numbers were drawn from it.
    static CHANCE: RefCell<(RandomState, u64)> = RefCell::new((RandomState::new(), 0));
}

/// The most memory of the buffer that is kept after a line.
const KEPT: usize = 16 << 10;

impl Access {
    /// Writes the line of a request that has ended, if it is selected. `route` is the endpoint that served it.
    pub fn write(&self, ended: &RequestEnd<'_>, route: Option<&str>) {
        let entry = AccessLogEntry::new(ended, route, self.user.as_ref(), self.query);
        if !self.chooses(&entry) {
            return;
        }
        LINE.with_borrow_mut(|line| {
            line.clear();
            match &self.format {
                AccessLogFormat::Text => plain::text(&entry, line),
                AccessLogFormat::Json => json::write(&entry, line),
                AccessLogFormat::Common => plain::common(&entry, line),
                AccessLogFormat::Combined => plain::combined(&entry, line),
                AccessLogFormat::Template(template) => template.write(&entry, line),
            }
            line.push(b'\n');
            self.journal.add(line);
            line.shrink_to(KEPT);
        });
    }

    fn chooses(&self, entry: &AccessLogEntry<'_>) -> bool {
        self.when.as_ref().is_some_and(|when| when.holds(entry)) || drawn(self.sample)
    }
}

impl Condition {
    /// If the expression fails, the request is selected: one line too many is better than one too few.
    fn holds(&self, entry: &AccessLogEntry<'_>) -> bool {
        match self.filter.run_one(jq::null(), &mut |name| entry.variable(name)) {
            Ok(value) => value.is_some_and(|value| !matches!(value.to_string().as_str(), "null" | "false")),
            Err(error) => {
                if self.failures.allows() {
                    tracing::warn!(%error, "`when` of the access log failed; such requests have a line");
                }
                true
            }
        }
    }
}

/// Selects `share` of 2^32 requests at random.
fn drawn(share: u64) -> bool {
    const ALL: u64 = 1 << 32;
    match share {
        0 => false,
        ALL.. => true,
        _ => CHANCE.with_borrow_mut(|(key, asked)| {
            *asked += 1;
            key.hash_one(*asked) >> 32 < share
        }),
    }
}
