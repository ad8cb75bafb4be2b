//! What is wrong in a pipeline that cannot run.

use std::fmt;

use crate::problem::{Problem, Problems, Severity};

/// Everything that is wrong in a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(Vec<Problem>);

impl Faults {
    pub(super) fn of(problems: Problems) -> Self {
        let problems = problems.into_sorted().into_iter();
        Faults(problems.filter(|problem| problem.severity == Severity::Error).collect())
    }

    /// Each of them, with its place in the text if there is one.
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
