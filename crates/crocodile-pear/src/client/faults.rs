//! The faults of a pipeline that cannot run.

use std::fmt;

use crate::config::problem::{Problem, Problems, Severity, Span};
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
        Faults::of(problems)
    }

    pub(super) fn of(problems: Problems) -> Self {
        let problems = problems.into_sorted().into_iter();
        Faults(problems.filter(|problem| problem.severity == Severity::Error).collect())
    }

    /// The problems, each with its place if the pipeline was read from text.
    ///
    /// ```
    /// use crocodile_pear::Client;
    ///
    /// let wrong = Client::new().read("- request: shop /a\n- each: .[").err().unwrap();
    /// let lines = wrong.problems().iter().map(|problem| problem.span.line);
    /// assert!(lines.eq([1, 2]));
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
            if problem.span.line > 0 {
                write!(f, "line {}, column {}: ", problem.span.line, problem.span.column)?;
            }
            f.write_str(&problem.message)?;
            if let Some(remedy) = &problem.remedy {
                write!(f, "; {remedy}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

impl From<Faults> for Error {
    fn from(faults: Faults) -> Self {
        Error::new(Kind::InvalidCall, faults.to_string()).caused_by(faults)
    }
}
