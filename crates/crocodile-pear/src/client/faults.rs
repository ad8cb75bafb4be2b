//! The faults of a pipeline that cannot run.

use std::fmt;

use crate::config::problem::{self, Problems, Severity, Span};
use crate::error::{Error, Kind};

/// Everything that is wrong in a pipeline, found before it makes a call. As text, a problem a line.
///
/// ```
/// use crocodile_pear::{Client, jq};
///
/// let users = Client::new().request(["http://127.0.0.1:9000/users"]);
/// let wrong = users.map(jq("$user")?).check().unwrap_err();
/// assert_eq!(wrong.to_string(), "no variable is named `$user` here");
/// # Ok::<(), crocodile_pear::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<Problem>);

impl Faults {
    /// Makes a fault that has no place.
    pub(super) fn one(message: impl Into<String>) -> Self {
        let mut problems = Problems::default();
        problems.error::<()>(Span::default(), message, "");
        Faults::from_problems(problems)
    }

    pub(super) fn from_problems(problems: Problems) -> Self {
        let problems = problems.into_sorted().into_iter();
        Faults(problems.filter(|problem| problem.severity == Severity::Error).map(Problem).collect())
    }

    /// Notes them among others.
    pub(super) fn note(self, problems: &mut Problems) {
        for Problem(problem) in self.0 {
            problems.error::<()>(problem.span, problem.message, problem.remedy.unwrap_or_default());
        }
    }

    /// The problems, each with its place if the pipeline was read from text.
    ///
    /// ```
    /// use crocodile_pear::Client;
    ///
    /// let wrong = Client::new().read("- request: shop /a\n- each: .[").err().unwrap();
    /// let lines = wrong.problems().iter().map(|problem| problem.line());
    /// assert!(lines.eq([Some(1), Some(2)]));
    /// ```
    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// A fault of a pipeline: what is wrong, what to write instead, and where it stands.
///
/// ```
/// use crocodile_pear::Client;
///
/// let wrong = Client::new().read("- request: shop /orders").err().unwrap();
/// let problem = &wrong.problems()[0];
/// assert_eq!((problem.line(), problem.column()), (Some(1), Some(12)));
/// assert_eq!(problem.message(), "no upstream is named `shop`");
/// assert_eq!(problem.remedy(), Some("add it under `upstreams`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(problem::ConfigProblem);

impl Problem {
    /// The fault.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The text to write instead.
    pub fn remedy(&self) -> Option<&str> {
        self.0.remedy.as_deref()
    }

    /// The line of the text that was read, from 1; `None` for a pipeline of methods.
    pub fn line(&self) -> Option<u32> {
        Some(self.0.span.line).filter(|line| *line > 0)
    }

    /// The column in that line, from 1, in characters.
    pub fn column(&self) -> Option<u32> {
        self.line().map(|_| self.0.span.column)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line(), self.column()) {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(self.message())?;
        match self.remedy() {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl From<Faults> for Error {
    fn from(faults: Faults) -> Self {
        Error::new(Kind::InvalidCall, faults.to_string()).caused_by(faults)
    }
}
