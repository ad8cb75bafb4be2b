//! A build without YAML: a text is refused.

use crate::config::problem::{Problems, Span};
use crate::config::spec::Node;

/// The value of a variable, if it has one.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Refuses the text.
pub fn read(file: u32, _: &str, _: &Environment<'_>, problems: &mut Problems) -> Option<Node> {
    let start = Span { file, line: 1, column: 1, length: 1 };
    let message = "pipelines in YAML need the feature `yaml` of the crate crocodile-pear, which this build is without";
    problems.error(start, message, "build with it, or put the pipeline together by methods")
}
