//! The context in which a step is compiled.

use std::sync::Arc;

use super::answers;
use super::flowing::{Ahead, Findings, Flowing, Outline};
use super::known::Known;
use super::sink::Sink;
use crate::config::problem::{Problems, Span};
use crate::config::spec::{ExpressionSpec, Json, Literal, Located, suggest};
use crate::database::Database;
use crate::jq::{self, Filter};
use crate::json::Raw;
use crate::request::context::VARIABLES;
use crate::telemetry::request_record::{CallingStep, Hidden};
use crate::upstream::ReadyUpstream;

/// The names that a step may refer to while it is compiled, what the other steps declare, and what is found on the way.
pub struct Compile<'a> {
    /// The names that expressions and settings may use.
    pub known: Known<'a>,
    /// Where problems go.
    pub problems: Sink<'a>,
    /// The state that the previous step hands to this one, and this one to the next.
    pub flow: Flowing,
    /// The needs of the later steps.
    pub ahead: Ahead,
    /// The findings so far.
    pub found: Findings,
    /// How many steps come before.
    pub index: u16,
}

impl<'a> Compile<'a> {
    /// At the beginning of what stands at `place`.
    pub fn new(known: Known<'a>, place: Span, problems: &'a mut Problems) -> Self {
        Compile {
            known,
            problems: Sink::new(problems, place),
            flow: Flowing::default(),
            ahead: Ahead::default(),
            found: Findings::default(),
            index: 0,
        }
    }
}

impl Compile<'_> {
    /// The name of this step's calls in records.
    pub fn calling(&self, name: &str, hidden: Hidden) -> Arc<CallingStep> {
        Arc::new(CallingStep { index: self.index, name: name.into(), hidden })
    }

    /// Compiles expressions whose `.` is not the item that arrives.
    pub fn apart<T>(&mut self, compile: impl FnOnce(&mut Self) -> T) -> T {
        let unused = self.flow.unused.clone();
        let compiled = self.of_values(compile);
        self.flow.unused = unused;
        compiled
    }

    /// Compiles expressions whose `.` is a value of another expression, whether items flow or not.
    pub fn of_values<T>(&mut self, compile: impl FnOnce(&mut Self) -> T) -> T {
        let item = std::mem::replace(&mut self.flow.item, true);
        let compiled = compile(self);
        self.flow.item = item;
        compiled
    }

    /// A value that is written as it is; none, where none is written.
    pub fn literal(&mut self, written: Option<&Located<Literal>>) -> Option<Option<Raw>> {
        let Some(written) = written else { return Some(None) };
        self.check_text(written);
        match Raw::check(&written.value.as_str().to_owned().into()) {
            Ok(value) => Some(Some(value)),
            Err(error) => self.problems.error(written.span, error.detail(), "write a smaller value"),
        }
    }

    /// Notes a text that was meant as the value in it: `'[]'` is a text of two characters.
    fn check_text(&mut self, written: &Located<Literal>) {
        let Ok(Json::String(text)) = serde_json::from_str(written.value.as_str()) else { return };
        let meant = text.trim();
        let what = match meant.chars().next() {
            Some('[') => "list",
            Some('{') => "map",
            Some('n') if meant == "null" => "null",
            _ => return,
        };
        if serde_json::from_str::<Json>(meant).is_ok() {
            let what = if what == "null" { what.to_owned() } else { format!("a {what}") };
            let message = format!("this is a text, not {what}");
            self.problems.warning(written.span, message, format!("leave out the quotes: write `{meant}`"));
        }
    }

    pub fn filter(&mut self, expression: &ExpressionSpec) -> Option<Filter> {
        let written = &expression.0;
        if let Some(brought) = expression.1.as_ref().and_then(|ready| ready.downcast_ref::<Filter>()) {
            return self.brought(brought.clone(), written);
        }
        let mut names: Vec<&str> =
            VARIABLES.iter().copied().chain(self.flow.names.iter().map(String::as_str)).collect();
        if self.problems.doubts() {
            names.extend(jq::variables(&written.value));
        }
        match Filter::compile(&written.value, &names) {
            Ok(filter) => self.note_filter(filter, written),
            Err(faults) => {
                for fault in faults {
                    let place = written.at(fault.offset, fault.length);
                    let means = |name: &str| fault.message.contains(&format!("`${name}`"));
                    let remedy = match self.flow.pending.iter().find(|name| means(name)) {
                        Some(name) => format!("`${name}` is known after a `merge`, not before"),
                        None if means(answers::ANSWER) => "`$answer` is known behind a `request`".to_owned(),
                        None if means(answers::ANSWERS) => {
                            "`$answers` is known in `requests` and behind its `merge`".to_owned()
                        }
                        None if self.is_unnamed(&fault) => {
                            let name = fault.message.split('`').nth(1).unwrap_or_default().trim_start_matches('$');
                            format!(
                                "`${name}` is the answer of a named call, `requests: {{ {name}: … }}`; that of \
                                 `request` is `.`"
                            )
                        }
                        None => fault.remedy,
                    };
                    self.problems.sure::<()>(place, fault.message, remedy);
                }
                None
            }
        }
    }

    /// Whether a variable is unknown because no call has a name.
    fn is_unnamed(&self, fault: &jq::Fault) -> bool {
        let unknown = fault.message.starts_with("there is no variable") && fault.remedy.starts_with("there are");
        unknown && !self.flow.first && self.flow.item && self.flow.answers.is_empty()
    }

    fn note_filter(&mut self, filter: Filter, written: &Located<String>) -> Option<Filter> {
        self.found.used.extend(filter.uses().iter().cloned());
        self.found.note_reads(filter.reads());
        self.found.dependence.add_reads(filter.reads());
        self.flow.unused.retain(|(key, _)| !filter.may_take(key));
        let reads_body = filter.uses().iter().any(|name| name == "body");
        self.found.reads_body |= reads_body;
        self.found.needs_value |= reads_body;
        self.check_item(written, &filter);
        self.check_claims(written, &filter);
        self.check_answers(written, &filter)?;
        Some(filter)
    }

    /// A filter that a Rust program compiled before its place was known.
    fn brought(&mut self, filter: Filter, written: &Located<String>) -> Option<Filter> {
        let filter = filter.over(&self.flow.answers);
        let known = |name: &&String| VARIABLES.contains(&name.as_str()) || self.flow.names.contains(name);
        if let Some(unknown) = filter.uses().iter().find(|name| !known(name)) {
            let message = format!("no variable is named `${unknown}` here");
            return self.problems.error(written.span, message, "");
        }
        self.note_filter(filter, written)
    }

    /// Notes, once for a step, that `.` is nothing yet.
    fn check_item(&mut self, written: &Located<String>, filter: &Filter) {
        if self.flow.item || !filter.reads_item() {
            return;
        }
        self.flow.item = true;
        let remedy = "put a `request` before this step, or use `$query`, `$path`, `$headers` or `$body`";
        self.problems.warning(
            written.at(0, written.value.len()),
            "`.` is null: no step before this one gives anything",
            remedy,
        );
    }

    /// Notes that `$claims` is null for everybody.
    fn check_claims(&mut self, written: &Located<String>, filter: &Filter) {
        if !self.known.route.anonymous || !filter.uses().iter().any(|name| name == "claims") {
            return;
        }
        let offset = written.value.find("$claims").unwrap_or(0);
        let remedy = "add `authenticate`, or count and decide by `$client.address` or `$headers`";
        self.problems.sure::<()>(
            written.at(offset, "$claims".len()),
            "`$claims` is always null: nothing authenticates clients here",
            remedy,
        );
    }

    /// Notes which answers an expression asks for, and whether there are such calls.
    fn check_answers(&mut self, written: &Located<String>, filter: &Filter) -> Option<()> {
        let uses = |wanted: &str| filter.uses().iter().any(|name| name == wanted);
        if !uses(answers::ANSWER) && !uses(answers::ANSWERS) {
            return Some(());
        }
        self.found.answers_used.set();
        let mut sound = Some(());
        for (at, name) in answers::taken(&written.value) {
            self.found.taken.push(name.map(str::to_owned));
            self.found.used.extend(name.map_or(self.flow.answers.clone(), |name| vec![name.to_owned()]));
            let Some(name) = name.filter(|name| !self.flow.answers.iter().any(|known| known == name)) else { continue };
            let remedy = match suggest(name, self.flow.answers.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `$answers.{near}`?"),
                None => format!("the calls are {}", self.flow.answers.join(", ")),
            };
            let place = written.at(at, name.len());
            sound = self.problems.error(place, format!("no call is named `{name}`"), remedy);
        }
        sound
    }

    /// Makes a variable known to expressions from here on.
    pub fn know(&mut self, name: &str) {
        if !self.flow.names.iter().any(|known| known == name) {
            self.flow.names.push(name.to_owned());
        }
    }

    /// Forgets a variable.
    pub fn forget(&mut self, name: &str) {
        self.flow.names.retain(|known| known != name);
    }

    /// Compiles an expression that decides.
    pub fn condition(&mut self, expression: &ExpressionSpec) -> Option<Filter> {
        let written = &expression.0;
        if let Some(at) = jq::assignment(written.as_str()) {
            let message = "`=` assigns a value, it does not compare";
            return self.problems.sure(written.at(at, 1), message, "write `==`");
        }
        self.filter_without_value(expression)
    }

    /// Compiles an expression that sends nothing of the client's body on, or the body as it came: it may be no value.
    pub fn filter_without_value(&mut self, expression: &ExpressionSpec) -> Option<Filter> {
        let needs_value = self.found.needs_value;
        let filter = self.filter(expression);
        self.found.needs_value = needs_value;
        filter
    }

    pub fn upstream(&mut self, name: &Located<String>) -> Option<Arc<ReadyUpstream>> {
        // Without any upstream, the problem was already reported: at `upstreams`, or at the first call.
        if self.known.upstreams.is_empty() && self.problems.fatal() {
            return None;
        }
        let upstream = self.known.upstreams.find(name, "an upstream", &mut self.problems)?;
        upstream.name_it();
        self.found.used.extend(upstream.uses().cloned());
        self.found.note_upstream(&upstream);
        self.found.called.push(upstream.clone());
        Some(upstream)
    }

    /// Whether links in bodies that lead into an upstream are mapped here.
    pub fn maps_links(&self, upstream: &ReadyUpstream) -> bool {
        match self.known.route.links {
            Some(written) => written.public().is_some(),
            None => upstream.links().is_some(),
        }
    }

    /// All upstreams: links may lead to any of them.
    pub fn any_upstream(&mut self) -> Vec<Arc<ReadyUpstream>> {
        let own = self.known.upstreams.values().filter(|upstream| !upstream.is_choice());
        let all: Vec<Arc<ReadyUpstream>> = own.cloned().collect();
        for upstream in &all {
            upstream.name_it();
            self.found.note_reachable(upstream);
        }
        all
    }

    pub fn database(&mut self, name: &Located<String>) -> Option<Arc<Database>> {
        self.known.databases.find(name, "a database", &mut self.problems)
    }

    /// From here on, the item has a fetched document under this key.
    pub fn put_under(&mut self, key: &Located<String>) {
        self.flow.documents.push(key.value.clone());
        self.flow.unused.push((key.value.clone(), key.span));
    }

    /// Adds a line to `explain`.
    pub fn explain(&mut self, text: impl Into<String>, waits: Option<&str>, calls: u64) {
        let items = self.flow.shape.most();
        self.found.outline.push(Outline {
            text: text.into(),
            waits: waits.map(str::to_owned),
            calls,
            together: None,
            items,
            place: self.problems.place(),
        });
    }
}
