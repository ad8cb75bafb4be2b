//! A configuration of several files: read into one tree, with every problem reported.

mod defaults;
mod include;
mod mask;
mod mend;
mod pattern;
mod report;
mod sources;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use crate::problem::Problems;
use crate::settings::Node;
use crate::yaml;

pub use mask::Mask;
pub use mend::mended;
pub use pattern::{expand, is_pattern};
pub use report::{Colour, ProblemFormat, report};
pub use sources::{Source, Sources, read};

/// Reads a configuration with all that it includes, and the environment's variables put in. There is no tree if a
/// file cannot be read or is no YAML; a tree may come with problems that stop it from running.
pub fn load(path: &Path) -> (Option<Node>, Sources, Problems) {
    let taken = UsedVariables::default();
    let (mut node, mut sources, mut problems) = include::load(path, &|name| taken.note(name, std::env::var(name).ok()));
    node.iter_mut().for_each(|node| defaults::apply(node, &mut problems));
    sources.mask = taken.mask();
    (node, sources, problems)
}

/// The variables that a configuration has asked for.
#[derive(Default)]
struct UsedVariables(RefCell<BTreeMap<String, String>>);

impl UsedVariables {
    fn note(&self, name: &str, value: Option<String>) -> Option<String> {
        if let Some(value) = &value {
            self.0.borrow_mut().insert(name.to_owned(), value.clone());
        }
        value
    }

    fn mask(self) -> Mask {
        Mask::new(&self.0.into_inner())
    }
}

/// Reads a configuration that is at hand as text, with these variables; it includes nothing.
pub fn parse(
    name: &str,
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> (Option<Node>, Sources, Problems) {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = sources.add(name.into(), text.to_owned());
    let taken = UsedVariables::default();
    let mut node = yaml::read(file, text, &|name| taken.note(name, environment(name)), &mut problems);
    node.iter_mut().for_each(|node| defaults::apply(node, &mut problems));
    sources.mask = taken.mask();
    (node, sources, problems)
}

#[cfg(test)]
#[allow(dead_code, reason = "some fields are there to be read alone")]
mod tests {
    use std::path::PathBuf;

    use crate::problem::Problems;
    use crate::settings::{Decode, Entries, ExpressionSpec, Located, Node};
    use crate::spec;

    use super::{Colour, ProblemFormat, Source, Sources, load, report};

    spec! {
        /// A pipeline's worth of fields.
        struct Pipeline {
            /// The upstream.
            to: Located<String>,
            /// How long to wait.
            timeout: Option<std::time::Duration>,
            /// The expression that makes the value.
            transform: Option<ExpressionSpec>,
        }
    }

    /// Reads a text as pipelines by name, and reports what is wrong, with `wrong` taken for a fault of each expression.
    fn told(text: &str, wrong: &str) -> String {
        let mut problems = Problems::default();
        let node = crate::yaml::read(0, text, &|_| None, &mut problems);
        let read = node.and_then(|node| Entries::<Pipeline>::decode(&node, &mut problems));
        for ExpressionSpec(text, _) in
            read.iter().flatten().filter_map(|(_, (_, pipeline))| pipeline.transform.as_ref())
        {
            let offset = text.value.find(wrong).expect("the wrong part");
            problems.error::<()>(text.at(offset, wrong.len()), "jq: unexpected token", "");
        }
        let files = vec![Source { path: PathBuf::from("gateway.yaml"), text: text.to_owned() }];
        let sources = Sources { files, ..Sources::default() };
        report(&problems.into_sorted(), &sources, ProblemFormat::Text(Colour::Never))
    }

    #[test]
    fn every_problem_is_shown_where_it_stands() {
        let text = "one:\n  ot: shop\n  timeout: 2\ntwo: [1]\nthree:\n  timeout: 1s\n  zzz: 1\n";
        let wanted = "\
error: unknown field `ot`
 --> gateway.yaml:2:3
  |
2 |   ot: shop
  |   ^^ did you mean `to`?

error: found `2`, wanted a duration
 --> gateway.yaml:3:12
  |
3 |   timeout: 2
  |            ^ add the unit: `2s` or `2ms`

error: found a list, wanted a map with `to`, `timeout`, `transform`
 --> gateway.yaml:4:6
  |
4 | two: [1]
  |      ^ write a map: `key: value` lines, indented

error: missing field `to`
 --> gateway.yaml:6:3
  |
6 |   timeout: 1s
  |   ^^^^^^^ add `to`: The upstream.

error: unknown field `zzz`
 --> gateway.yaml:7:3
  |
7 |   zzz: 1
  |   ^^^ known here: `to`, `timeout`, `transform`

5 problems
";
        assert_eq!(told(text, ""), wanted);
    }

    #[test]
    fn a_fault_in_a_long_expression_is_shown_in_its_line() {
        let text = "x:\n  to: shop\n  transform: '{id,  it''s: 1,\n     priority: (.p as $p | .levels[)}'\n";
        let wanted = "\
error: jq: unexpected token
 --> gateway.yaml:4:36
  |
4 |      priority: (.p as $p | .levels[)}'
  |                                    ^^

1 problem
";
        assert_eq!(told(text, ")}"), wanted);
    }

    #[test]
    fn a_faultless_file_has_no_problems() {
        let file = std::env::temp_dir().join(format!("crocodile-pear-{}-faultless.yaml", std::process::id()));
        std::fs::write(&file, "shop: {url: http://127.0.0.1}\n").expect("a file to write");
        let (node, _, problems) = load(&file);
        std::fs::remove_file(&file).expect("the file");
        assert!(node.as_ref().and_then(Node::as_map).is_some_and(|entries| entries.len() == 1) && !problems.fatal());
    }
}
