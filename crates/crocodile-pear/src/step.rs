//! The contract of a step: a `Spec`, as written, compiles into a `Step`, ready.

pub mod answers;
pub mod status;
pub mod view;

use std::sync::{Arc, OnceLock};

use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
use http::{HeaderMap, Method};
use indexmap::IndexMap;

use self::answers::Asked;
use crate::database::Database;
use crate::error::{Error, Kind};
use crate::flow::{Answer, Flow, Names, Order};
use crate::format::json::Raw;
use crate::jq::{self, Data, Filter, Value};
use crate::problem::{Problems, Span};
use crate::record::CallingStep;
use crate::scope::{Scope, VARIABLES};
use crate::spec::{Decode, Expression, Literal, Located, Size, suggest};
use crate::template::{self, Piece, Template, TemplateKind};
use crate::upstream::Upstream;

/// The most bytes of a body that a step reads whole, unless it is told otherwise: enough for an answer of an ordinary
/// size.
pub const MAX_BODY: Size = Size(16 << 20);

/// A step as written.
pub trait Spec: Decode {
    /// Checks it against what is known and makes it ready; every problem is noted.
    fn compile(self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>>;
}

/// A step, ready: shared by all requests, immutable.
pub trait Step: Send + Sync + 'static {
    /// Takes the producers of the step before and gives those of this one. Nothing runs before it is asked for.
    fn run(&self, flow: Flow, scope: &Arc<Scope>) -> Flow;

    /// The same for the first step of a pipeline, which has no producers before it but one null.
    fn begin(&self, scope: &Arc<Scope>) -> Flow {
        let unit = Answer::of_value(crate::jq::null());
        self.run(Flow::one(scope.next_producer(), std::future::ready(Some(Ok(unit)))), scope)
    }
}

crate::choice! {
    /// Whether an endpoint serves a stream that may rest and go on as long as it likes.
    pub enum StreamSpec {
        /// It does: its `timeout` does not apply, nor do `idle` and `call` of the upstream to the calls of its first step, unless
        /// they are written at the call.
        On = "on",
        /// It does not, but for server-sent events.
        Off = "off",
    }
}

/// How many producers leave a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Exactly one.
    One,
    /// Several, at most so many.
    Many(u64),
}

impl Shape {
    /// At most so many producers.
    pub fn most(self) -> u64 {
        match self {
            Shape::One => 1,
            Shape::Many(most) => most,
        }
    }
}

/// One line of `explain`.
#[derive(Clone, Debug)]
pub struct Outline {
    /// What the step does.
    pub text: String,
    /// Why something must wait here; `None` when all of it streams.
    pub waits: Option<String>,
    /// At most so many upstream calls.
    pub calls: u64,
    /// The same where calls are made in batches, and each is full.
    pub together: Option<u64>,
    /// For so many items.
    pub items: u64,
}

/// What a step may refer to while it is compiled, and what is found on the way.
pub struct Compile<'a> {
    /// The upstreams by name.
    pub upstreams: &'a IndexMap<String, Arc<Upstream>>,
    /// Upstreams that are named and have problems of their own.
    pub broken: &'a [&'a str],
    /// The databases by name.
    pub databases: &'a IndexMap<String, Arc<Database>>,
    /// Databases that are named and have problems of their own.
    pub broken_databases: &'a [&'a str],
    /// The path parameters of the endpoint.
    pub params: &'a [String],
    /// Which of them is the rest of the path.
    pub rest: Option<&'a str>,
    /// The path of the endpoint, as it is written.
    pub path: &'a str,
    /// Whether the path cannot be read: then any name may be one of its parameters.
    pub unread: bool,
    /// Whether the endpoint serves a stream.
    pub stream: StreamSpec,
    /// The client's method; nothing, where it may be any.
    pub method: Option<&'a Method>,
    /// Where problems go.
    pub problems: &'a mut Problems,
    /// Named results that expressions may use from here on.
    pub names: Vec<String>,
    /// Named results that only `merge` makes known.
    pub pending: Vec<String>,
    /// How many producers arrive at the step.
    pub shape: Shape,
    /// Whether a step further on follows links: then answers say where they came from.
    pub follows: bool,
    /// The keys under which steps before put documents that they fetched.
    pub documents: Vec<String>,
    /// Those of them that no expression has used so far, each with its place.
    pub unused: Vec<(String, Span)>,
    /// The named results that only `$name` brings into the answer, each with its place.
    pub results: Vec<(String, Span)>,
    /// The variables that expressions used so far.
    pub used: Vec<String>,
    /// The named calls that `$answers` knows.
    pub answers: Vec<String>,
    /// Those of them that expressions took out of it so far; `None` for one that may take any.
    pub taken: Vec<Option<String>>,
    /// Whether an expression asks what calls answered.
    pub asked: Asked,
    /// Whether a step further on reads answers: then a call asks for a whole one.
    pub reads: bool,
    /// Whether a step has no limit, as the operator says.
    pub endless: bool,
    /// In which order the step further on that takes all items wants them.
    pub order: Order,
    /// Where the step stands.
    pub place: Span,
    /// How many steps stand before.
    pub index: u16,
    /// Whether no step stands before.
    pub first: bool,
    /// Whether `.` is something: not before the first step of a pipeline that gives anything.
    pub item: bool,
    /// Whether an expression uses `$body`.
    pub reads_body: bool,
    /// The lines of `explain` so far.
    pub outline: Vec<Outline>,
}

impl<'a> Compile<'a> {
    /// At the beginning of the pipeline that stands at `place`.
    pub fn new(
        upstreams: &'a IndexMap<String, Arc<Upstream>>,
        broken: &'a [&'a str],
        params: &'a [String],
        method: Option<&'a Method>,
        place: Span,
        problems: &'a mut Problems,
    ) -> Self {
        Compile {
            upstreams,
            broken,
            databases: none(),
            broken_databases: &[],
            params,
            rest: None,
            path: "",
            unread: false,
            stream: StreamSpec::Off,
            method,
            problems,
            names: Vec::new(),
            pending: Vec::new(),
            shape: Shape::One,
            follows: false,
            documents: Vec::new(),
            unused: Vec::new(),
            results: Vec::new(),
            used: Vec::new(),
            answers: Vec::new(),
            taken: Vec::new(),
            asked: Asked::default(),
            reads: false,
            endless: false,
            order: Order::Arrival,
            place,
            index: 0,
            first: true,
            item: true,
            reads_body: false,
            outline: Vec::new(),
        }
    }
}

/// Where no database is known.
fn none() -> &'static IndexMap<String, Arc<Database>> {
    static NONE: OnceLock<IndexMap<String, Arc<Database>>> = OnceLock::new();
    NONE.get_or_init(IndexMap::new)
}

impl Compile<'_> {
    /// What the calls of this step are noted as.
    pub fn calling(&self, name: &str) -> Arc<CallingStep> {
        Arc::new(CallingStep { index: self.index, name: name.into() })
    }

    /// Compiles expressions whose `.` is not the item that arrives.
    pub fn apart<T>(&mut self, compile: impl FnOnce(&mut Self) -> T) -> T {
        let unused = self.unused.clone();
        let compiled = self.of_values(compile);
        self.unused = unused;
        compiled
    }

    /// Compiles expressions whose `.` is one of the values of an expression, whether items flow or not.
    pub fn of_values<T>(&mut self, compile: impl FnOnce(&mut Self) -> T) -> T {
        let item = std::mem::replace(&mut self.item, true);
        let compiled = compile(self);
        self.item = item;
        compiled
    }

    /// A value that is written as it is; none, where none is written.
    pub fn literal(&mut self, written: Option<&Located<Literal>>) -> Option<Option<Raw>> {
        let Some(written) = written else { return Some(None) };
        match Raw::check(&written.value.as_str().to_owned().into()) {
            Ok(value) => Some(Some(value)),
            Err(error) => self.problems.error(written.span, error.detail(), "write a smaller value"),
        }
    }

    /// Compiles an expression.
    pub fn filter(&mut self, expression: &Expression) -> Option<Filter> {
        let written = &expression.0;
        if let Some(brought) = expression.1.as_ref().and_then(|ready| ready.downcast_ref::<Filter>()) {
            return self.brought(brought.clone(), written);
        }
        let names: Vec<&str> = VARIABLES.iter().copied().chain(self.names.iter().map(String::as_str)).collect();
        match Filter::compile(&written.value, &names) {
            Ok(filter) => self.note_filter(filter, written),
            Err(faults) => {
                for fault in faults {
                    let place = written.at(fault.offset, fault.length);
                    let means = |name: &str| fault.message.contains(&format!("`${name}`"));
                    let remedy = match self.pending.iter().find(|name| means(name)) {
                        Some(name) => format!("`${name}` is known after a `merge`, not before"),
                        None if means(answers::ANSWER) => "`$answer` is known behind a `request`".to_owned(),
                        None if means(answers::ANSWERS) => {
                            "`$answers` is known in `requests` and behind its `merge`".to_owned()
                        }
                        None => fault.remedy,
                    };
                    self.problems.error::<()>(place, fault.message, remedy);
                }
                None
            }
        }
    }

    fn note_filter(&mut self, filter: Filter, written: &Located<String>) -> Option<Filter> {
        self.used.extend(filter.uses().iter().cloned());
        self.unused.retain(|(key, _)| !filter.may_take(key));
        self.reads_body |= filter.uses().iter().any(|name| name == "body");
        self.check_item(written, &filter);
        self.check_answers(written, &filter)?;
        Some(filter)
    }

    /// What a Rust program compiled before it knew where it would stand.
    fn brought(&mut self, filter: Filter, written: &Located<String>) -> Option<Filter> {
        let filter = filter.over(&self.answers);
        let known = |name: &&String| VARIABLES.contains(&name.as_str()) || self.names.contains(name);
        if let Some(unknown) = filter.uses().iter().find(|name| !known(name)) {
            let message = format!("no variable is named `${unknown}` here");
            return self.problems.error(written.span, message, "");
        }
        self.note_filter(filter, written)
    }

    /// Notes, once for a step, that `.` is nothing yet.
    fn check_item(&mut self, written: &Located<String>, filter: &Filter) {
        if self.item || !filter.reads_item() {
            return;
        }
        self.item = true;
        let remedy = "put a `request` before this step, or use `$query`, `$path`, `$headers` or `$body`";
        self.problems.warning(
            written.at(0, written.value.len()),
            "`.` is null: no step before this one gives anything",
            remedy,
        );
    }

    /// Notes which answers an expression asks for, and whether there are such calls.
    fn check_answers(&mut self, written: &Located<String>, filter: &Filter) -> Option<()> {
        let uses = |wanted: &str| filter.uses().iter().any(|name| name == wanted);
        if !uses(answers::ANSWER) && !uses(answers::ANSWERS) {
            return Some(());
        }
        self.asked.set();
        let mut sound = Some(());
        for (at, name) in answers::taken(&written.value) {
            self.taken.push(name.map(str::to_owned));
            self.used.extend(name.map_or(self.answers.clone(), |name| vec![name.to_owned()]));
            let Some(name) = name.filter(|name| !self.answers.iter().any(|known| known == name)) else { continue };
            let remedy = match suggest(name, self.answers.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `$answers.{near}`?"),
                None => format!("the calls are {}", self.answers.join(", ")),
            };
            let place = written.at(at, name.len());
            sound = self.problems.error(place, format!("no call is named `{name}`"), remedy);
        }
        sound
    }

    /// Makes a variable known to expressions from here on.
    pub fn know(&mut self, name: &str) {
        if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }

    /// Forgets a variable.
    pub fn forget(&mut self, name: &str) {
        self.names.retain(|known| known != name);
    }

    /// Compiles an expression that decides.
    pub fn condition(&mut self, expression: &Expression) -> Option<Filter> {
        let written = &expression.0;
        if let Some(at) = jq::assignment(written.as_str()) {
            let message = "`=` sets a value here, and compares nothing";
            return self.problems.error(written.at(at, 1), message, "write `==`");
        }
        self.filter(expression)
    }

    /// Compiles a template.
    pub fn template(&mut self, written: &Located<String>, kind: TemplateKind) -> Option<Template> {
        let pieces = match template::split(written) {
            Ok(pieces) => pieces,
            Err(at) => {
                let remedy = match kind {
                    TemplateKind::Target => "close it with `}`, or write a literal brace as `%7B` or `%7D`",
                    TemplateKind::Field => "close it with `}`, or write a literal brace as `{\"{\"}` or `{\"}\"}`",
                };
                return self.problems.error(written.at(at, 1), "this brace has no partner", remedy);
            }
        };
        let (mut sound, mut in_path) = (true, kind == TemplateKind::Target);
        for (at, piece) in &pieces {
            sound &= self.check_piece(written, *at, piece, in_path);
            if let Piece::Text(text) = piece {
                sound &= kind == TemplateKind::Field || self.check_target(written, *at, text, in_path);
                in_path &= !text.contains('?');
            }
        }
        let rest = self.rest;
        let pieces = pieces.into_iter().map(|(at, piece)| match piece {
            Piece::Param(name) if Some(name) == rest => (at, Piece::Rest(name)),
            piece => (at, piece),
        });
        if !sound {
            // What follows from it need not be told.
            self.item = true;
        }
        let template = Template::compile(pieces.collect(), kind, |at, source| {
            let expression = Expression::of(written.part(at, source.len()), self.problems)?;
            self.filter(&expression)
        });
        template.filter(|_| sound)
    }

    fn check_piece(&mut self, written: &Located<String>, at: usize, piece: &Piece<'_>, in_path: bool) -> bool {
        let (name, message, remedy) = match piece {
            Piece::Param(_) | Piece::Rest(_) if self.unread => return false,
            Piece::Jq(source) if doubled(source).is_some() => {
                let inner = doubled(source).unwrap_or_default();
                (source, "this is an object, and a URL takes a text".to_owned(), format!("write `{{{inner}}}`"))
            }
            Piece::Rest(name) if self.params.iter().any(|known| known == name) && self.rest != Some(name) => (
                name,
                format!("`{name}` is one segment of the path, not the rest of it"),
                format!("write `{{{name}}}`"),
            ),
            Piece::Param(name) | Piece::Rest(name) if !self.params.iter().any(|known| known == name) => {
                let remedy = match suggest(name, self.params.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{{{near}}}`?"),
                    None => format!("name it in the endpoint's path, or write `{{$query.{name}}}` for the query"),
                };
                (name, format!("no path parameter is named `{name}`"), remedy)
            }
            Piece::Segments(source) if !in_path => {
                (source, "only a path has segments".to_owned(), "leave out the `*`".to_owned())
            }
            _ => return true,
        };
        self.problems.error::<()>(written.at(at, name.len()), message, remedy);
        false
    }

    fn check_target(&mut self, written: &Located<String>, at: usize, text: &str, in_path: bool) -> bool {
        let foreign = |c: char| !c.is_ascii_graphic() || "\"#<>\\^`|".contains(c);
        // A variable's value is percent-encoded where it must be.
        let wrong = text.char_indices().find(|(offset, c)| foreign(*c) && !written.inserted(at + offset));
        if let Some((offset, c)) = wrong {
            let mut encoded = String::new();
            for byte in c.to_string().bytes() {
                encoded.push_str(&format!("%{byte:02X}"));
            }
            let place = written.at(at + offset, 1);
            let message = format!("{c:?} cannot stand in a URL");
            self.problems.error::<()>(place, message, format!("write it as `{encoded}`"));
            return false;
        }
        self.check_parameters(written, at, text);
        let path = if in_path { text.split('?').next().unwrap_or_default() } else { "" };
        let Some(offset) = template::bare_percent(path).filter(|offset| !written.inserted(at + offset)) else {
            return true;
        };
        let place = written.at(at + offset, 1);
        self.problems.error::<()>(place, "this `%` has no two hexadecimal digits behind it", "write it as `%25`");
        false
    }

    /// Warns of a parameter as other products write it: `/:id`, `$id`.
    fn check_parameters(&mut self, written: &Located<String>, at: usize, text: &str) {
        let word = |text: &str| text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
        for (offset, sign) in text.match_indices(['$', ':']) {
            let name = &text[offset + 1..][..word(&text[offset + 1..])];
            let begins = sign == "$" || text[..offset].ends_with('/');
            if begins && self.params.iter().any(|known| known == name) {
                let message = format!("`{sign}{name}` is sent as it stands");
                let place = written.at(at + offset, name.len() + 1);
                self.problems.warning(place, message, format!("write `{{{name}}}` for the path parameter"));
            }
        }
    }

    /// The upstream of this name.
    pub fn upstream(&mut self, name: &Located<String>) -> Option<Arc<Upstream>> {
        if let Some(upstream) = self.upstreams.get(&name.value) {
            self.used.extend(upstream.uses().cloned());
            return Some(upstream.clone());
        }
        // Without any upstream, what is wrong has been told: where they should stand, or at the first call.
        let told = self.upstreams.is_empty() && self.broken.is_empty() && self.problems.fatal();
        if told || self.broken.contains(&name.as_str()) {
            return None;
        }
        let known: Vec<&str> = self.upstreams.keys().map(String::as_str).chain(self.broken.iter().copied()).collect();
        let remedy = match suggest(&name.value, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if name.value.contains("://") => {
                "write an upstream's name here, and its URL under `upstreams`".to_owned()
            }
            None if known.is_empty() => "add it under `upstreams`".to_owned(),
            None => format!("the upstreams are {}", known.join(", ")),
        };
        self.problems.error(name.span, format!("no upstream is named `{}`", name.value), remedy)
    }

    /// Adds a line to `explain`.
    pub fn explain(&mut self, text: impl Into<String>, waits: Option<&str>, calls: u64) {
        let items = self.shape.most();
        self.outline.push(Outline { text: text.into(), waits: waits.map(str::to_owned), calls, together: None, items });
    }
}

/// `{{word}}`, as other products have it: the word.
fn doubled(source: &str) -> Option<&str> {
    let inner = source.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    (!inner.contains([':', ','])).then_some(inner)
}

/// Evaluates an expression for an item.
///
/// # Errors
/// What the expression fails with; `BadRequest` when only the client's request can be the cause.
pub fn evaluate(filter: &Filter, item: Value, names: &Names, scope: &Scope, blame: Blame) -> Result<Vec<Value>, Error> {
    filter.run(item, &mut |name| scope.variable(name, names)).map_err(|error| blame.lay(error))
}

/// The same on data that need not be parsed.
///
/// # Errors
/// As [`evaluate`].
pub fn apply(filter: &Filter, item: Data, names: &Names, scope: &Scope, blame: Blame) -> Result<Vec<Data>, Error> {
    filter.apply(item, &mut |name| scope.data(name, names)).map_err(|error| blame.lay(error))
}

/// About how many bytes an expression reads: of the item, and of the documents that its variables are.
pub fn weigh(filter: &Filter, item: &Data, names: &Names, scope: &Scope) -> usize {
    let own = if filter.reads_item() { item.weight() } else { 0 };
    let weight = own + scope.weight(filter.uses(), names);
    // To take parts of bytes costs a fraction of reading them.
    if filter.is_native() { weight / 8 } else { weight }
}

/// The fields of a request for a part of an answer, or for none unless something has changed (RFC 9110, 13.1 and 14.2).
const CONDITIONS: [HeaderName; 4] = [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];
const RANGES: [HeaderName; 2] = [RANGE, IF_RANGE];

/// Asks for a whole answer, as a step needs that reads it: a client's conditions are about what the client has of this
/// gateway. Those of a write stay, which must not be done without them.
pub fn ask_whole(headers: &mut HeaderMap, method: &Method) {
    let conditions: &[HeaderName] = if matches!(*method, Method::GET | Method::HEAD) { &CONDITIONS } else { &[] };
    for name in RANGES.iter().chain(conditions) {
        headers.remove(name);
    }
}

/// The part of an item that an expression begins with: a key of it, a named result as `$name`, or nothing.
pub fn part(expression: &str) -> &str {
    let text = expression.trim_start_matches(|c: char| c.is_whitespace() || c == '(' || c == '[');
    let word = |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    match (text.strip_prefix('$'), text.strip_prefix('.')) {
        (Some(name), _) => &text[..=word(name)],
        (None, Some(key)) => match key.strip_prefix("[\"").or_else(|| key.strip_prefix('"')) {
            Some(quoted) => quoted.split('"').next().unwrap_or_default(),
            None => &key[..word(key)],
        },
        (None, None) => "",
    }
}

/// Whether a condition holds for an item: it gives something that is neither false nor null.
///
/// # Errors
/// As `evaluate`.
pub fn holds(
    condition: &Filter,
    item: impl Into<Data>,
    names: &Names,
    scope: &Scope,
    blame: Blame,
) -> Result<bool, Error> {
    Ok(apply(condition, item.into(), names, scope, blame)?.iter().any(Data::holds))
}

/// Whose fault a failing expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// It reads only what the client sent.
    Client,
    /// It reads what an upstream sent.
    Upstream,
    /// It reads nothing that could differ: whoever wrote it sees it fail each time.
    Operator,
}

impl Blame {
    /// Of an expression in a step that reads `item` from an upstream unless the step is `first`.
    pub fn of(filter: &Filter, first: bool) -> Self {
        let named = filter.uses().iter().any(|name| !VARIABLES.contains(&name.as_str()));
        if filter.uses().is_empty() && !filter.reads_item() {
            return Blame::Operator;
        }
        if named || (!first && filter.reads_item()) { Blame::Upstream } else { Blame::Client }
    }

    /// The error, with the kind that says so.
    pub fn lay(self, error: Error) -> Error {
        match self {
            Blame::Client if error.kind() == Kind::Expression => {
                Error::new(Kind::BadRequest, error.detail().to_owned())
            }
            Blame::Operator if error.kind() == Kind::Expression => {
                Error::new(Kind::Internal, error.detail().to_owned())
            }
            _ => error,
        }
    }
}
