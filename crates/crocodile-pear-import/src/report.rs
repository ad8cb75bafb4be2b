//! The report of an import: what became of every setting of the input.
//!
//! An importer keeps one [`Report`]. For each setting it calls [`Report::imported`], [`Report::remarked`] (imported, with
//! something to know), [`Report::reported`] (not imported) or [`Report::ignored`] (the source itself does nothing with it).
//! Each has its key as a path (`endpoints[3].backend[0].target`), its place, and a sentence.

use std::collections::HashMap;

use crocodile_pear_spec::problem::{ConfigProblem, Severity, Span};
use serde_json::{Value, json};

use crocodile_pear_spec::document::{self, ProblemFormat, Sources};
use crocodile_pear_spec::visible;

/// The fate of a setting. The more an operator must know of a fate, the later it stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fate {
    /// The source's own gateway does nothing with it.
    Ignored,
    /// The configuration has it.
    Imported,
    /// The configuration has it; the message says how it differs.
    Remarked,
    /// The configuration does not have it.
    Reported,
}

impl Fate {
    fn name(self) -> &'static str {
        match self {
            Fate::Imported => "imported",
            Fate::Remarked => "remarked",
            Fate::Reported => "reported",
            Fate::Ignored => "ignored",
        }
    }
}

/// A setting of the input, and what became of it.
#[derive(Clone, Debug)]
pub struct ImportedSetting {
    /// Its path: `endpoints[3].backend[0].target`.
    pub key: String,
    /// Its place.
    pub span: Span,
    /// The setting's fate.
    pub fate: Fate,
    /// Why it was not imported, or how it differs; empty if it was imported as it is.
    pub message: String,
    /// The remedy: what to do instead; may be empty.
    pub remedy: String,
}

/// How many further places a problem names.
const PLACES: usize = 3;

/// The fates of all settings of the input.
#[derive(Debug, Default)]
pub struct Report {
    /// The files of the input.
    pub sources: Sources,
    settings: Vec<ImportedSetting>,
}

impl Report {
    /// A report on these files. A `Span` names its file by its index.
    pub fn new(sources: Sources) -> Self {
        Self { sources, settings: Vec::new() }
    }

    /// Notes a setting that the configuration has.
    pub fn imported(&mut self, key: impl Into<String>, span: Span) {
        self.note(key.into(), span, Fate::Imported, String::new(), String::new());
    }

    /// Notes a setting that the configuration has, with a difference that its operator should know.
    pub fn remarked(
        &mut self,
        key: impl Into<String>,
        span: Span,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.note(key.into(), span, Fate::Remarked, message.into(), remedy.into());
    }

    /// Notes a setting that the configuration does not have: why, and what to use instead.
    pub fn reported(
        &mut self,
        key: impl Into<String>,
        span: Span,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.note(key.into(), span, Fate::Reported, message.into(), remedy.into());
    }

    /// Notes a setting with which the source's own gateway does nothing: why.
    pub fn ignored(&mut self, key: impl Into<String>, span: Span, why: impl Into<String>) {
        self.note(key.into(), span, Fate::Ignored, why.into(), String::new());
    }

    fn note(&mut self, key: String, span: Span, fate: Fate, message: String, remedy: String) {
        self.settings.push(ImportedSetting { key, span, fate, message, remedy });
    }

    /// All settings, in the order of the files.
    pub fn settings(&self) -> Vec<&ImportedSetting> {
        let mut settings: Vec<_> = self.settings.iter().collect();
        settings.sort_by_key(|setting| setting.span);
        settings
    }

    /// How many settings had this fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.settings.iter().filter(|setting| setting.fate == fate).count()
    }

    /// Whether every setting was imported or is ignored by the source itself.
    pub fn is_whole(&self) -> bool {
        self.count(Fate::Reported) == 0
    }

    /// The problems that an operator should read: what was not imported as errors, what differs as warnings. What is said of
    /// several places is one problem.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let mut folded: Vec<(&ImportedSetting, Vec<Span>)> = Vec::new();
        let mut known = HashMap::new();
        for setting in self.settings() {
            if !matches!(setting.fate, Fate::Reported | Fate::Remarked) {
                continue;
            }
            let at = *known.entry((setting.fate, &setting.message, &setting.remedy)).or_insert(folded.len());
            match folded.get_mut(at) {
                Some((_, more)) => more.push(setting.span),
                None => folded.push((setting, Vec::new())),
            }
        }
        folded.into_iter().map(|(setting, more)| self.problem(setting, &more)).collect()
    }

    /// The problem of a setting, and of those at more places of which the same is to be said.
    fn problem(&self, setting: &ImportedSetting, more: &[Span]) -> ConfigProblem {
        let severity = if setting.fate == Fate::Reported { Severity::Error } else { Severity::Warning };
        let mut message = setting.message.clone();
        if !more.is_empty() {
            let place = |span: &Span| match span.file == setting.span.file {
                true => format!("{}:{}", span.line, span.column),
                false => self.sources.place(*span).to_string(),
            };
            let places: Vec<String> = more.iter().take(PLACES).map(place).collect();
            message.push_str(&format!(" (also at {}", places.join(", ")));
            match more.len().saturating_sub(PLACES) {
                0 => {}
                1 => message.push_str(" and at one more place"),
                left => message.push_str(&format!(" and at {left} more places")),
            }
            message.push(')');
        }
        let remedy = Some(setting.remedy.clone()).filter(|text| !text.is_empty());
        ConfigProblem { span: setting.span, message, remedy, severity }
    }

    /// The report for people: as `check` prints problems, then what the source ignores, then the counts.
    pub fn text(&self, format: ProblemFormat) -> String {
        let mut text = document::report(&self.problems(), &self.sources, format);
        let ignored: Vec<_> = self.settings().into_iter().filter(|setting| setting.fate == Fate::Ignored).collect();
        for setting in &ignored {
            let place = self.sources.place(setting.span);
            text.push_str(&visible::plain(&format!("ignored: {place}: `{}`: {}", setting.key, setting.message)));
            text.push('\n');
        }
        let imported = self.count(Fate::Imported) + self.count(Fate::Remarked);
        let (reported, ignored) = (self.count(Fate::Reported), ignored.len());
        text + &format!("settings: {imported} imported, {reported} not imported, {ignored} without effect\n")
    }

    /// Every setting, for programs.
    pub fn json(&self) -> Value {
        let setting = |setting: &&ImportedSetting| {
            let file = self.sources.file(setting.span.file).map(|source| source.path.display().to_string());
            json!({
                "key": setting.key,
                "file": file,
                "line": setting.span.line,
                "column": setting.span.column,
                "state": setting.fate.name(),
                "message": setting.message,
                "remedy": setting.remedy,
            })
        };
        self.settings().iter().map(setting).collect()
    }
}
