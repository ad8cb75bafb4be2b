//! The readable part of a configuration with errors, so that these do not hide other problems.

use crate::problem::{ConfigProblem, Problems, Severity, Span};
use crate::settings::{Decode, Node, NodeKind};

/// Faults are mended in so many rounds: one may stand behind another.
const ROUNDS: usize = 4;

/// Reads a value without the parts that cannot be read, or with what was probably meant. Its problems were reported before.
pub fn mended<T: Decode>(node: &Node) -> Option<T> {
    let mut node = node.clone();
    for _ in 0..ROUNDS {
        let mut problems = Problems::default();
        if let Some(read) = T::decode(&node, &mut problems) {
            return Some(read);
        }
        if !mend_all(&mut node, problems) {
            return None;
        }
    }
    None
}

/// Whether a problem could be mended.
fn mend_all(node: &mut Node, problems: Problems) -> bool {
    let errors = problems.into_sorted().into_iter().filter(|problem| problem.severity == Severity::Error);
    let mut changed = false;
    for problem in errors {
        changed |= mend(node, &problem) == Mended::Yes;
    }
    changed
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mended {
    Yes,
    /// The problem is elsewhere.
    No,
    /// This part has to be left out.
    Out,
}

fn mend(node: &mut Node, problem: &ConfigProblem) -> Mended {
    if let NodeKind::Scalar { text, quoted, runs } = &mut node.kind {
        return match (is_at(node.span, problem.span), meant(problem)) {
            (false, _) => Mended::No,
            (true, Some(meant)) => {
                (*text, *quoted, *runs) = (meant.to_owned(), false, None);
                Mended::Yes
            }
            (true, None) => Mended::Out,
        };
    }
    match &mut node.kind {
        NodeKind::Map(entries) => {
            for at in 0..entries.len() {
                let (key, value) = &mut entries[at];
                if is_at(key.span, problem.span) && key.span != value.span {
                    match meant(problem) {
                        Some(meant) => meant.clone_into(&mut key.value),
                        None => drop(entries.remove(at)),
                    }
                    return Mended::Yes;
                }
                match mend(value, problem) {
                    Mended::Out => {
                        entries.remove(at);
                        return Mended::Yes;
                    }
                    Mended::Yes => return Mended::Yes,
                    Mended::No => {}
                }
            }
            Mended::No
        }
        NodeKind::List(items) => {
            for at in 0..items.len() {
                match mend(&mut items[at], problem) {
                    Mended::Out => {
                        items.remove(at);
                        // An empty list may mean something else.
                        return if items.is_empty() { Mended::Out } else { Mended::Yes };
                    }
                    Mended::Yes => return Mended::Yes,
                    Mended::No => {}
                }
            }
            Mended::No
        }
        NodeKind::Scalar { .. } | NodeKind::Null => Mended::No,
    }
}

fn is_at(one: Span, other: Span) -> bool {
    (one.file, one.line, one.column) == (other.file, other.line, other.column) && one.line > 0
}

/// The word that a remedy suggests.
fn meant(problem: &ConfigProblem) -> Option<&str> {
    let remedy = problem.remedy.as_deref()?.strip_prefix("did you mean `")?;
    remedy.split_once('`').map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::spec;

    use super::*;

    crate::choice! {
        /// A colour.
        enum Hue {
            /// Red.
            Red = "red",
            /// Blue.
            Blue = "blue",
        }
    }

    spec! {
        /// A part.
        struct Part {
            /// Colours.
            hues: Vec<Hue> = Vec::new(),
            /// A time.
            wait: Option<Duration>,
        }
    }

    fn read(text: &str) -> Option<(usize, Option<Duration>)> {
        let node = crate::yaml::read(0, text, &|_| None, &mut Problems::default())?;
        mended::<Part>(&node).map(|part| (part.hues.len(), part.wait))
    }

    #[test]
    fn a_part_with_a_fault_is_read_without_it() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(read("hues: [rde, blue]\nwait: 1s"), Some((2, second)));
        assert_eq!(read("hues: [green, blue]\nwiat: 1s"), Some((1, second)));
        assert_eq!(read("hues: [green]\nwait: 1 fortnight\nelse: 1"), Some((0, None)));
        assert_eq!(read("[a]"), None);
    }
}
