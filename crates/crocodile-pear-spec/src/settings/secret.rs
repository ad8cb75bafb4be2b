//! Values that must not be shown: not in a log, not in a problem, not in `explain`.

use std::fmt;

use serde_json::{Value, json};

use super::decode::Decode;
use super::definitions::Definitions;
use super::node::Node;
use crate::problem::Problems;

/// A secret text. It is printed as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Decode for Secret {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let text = node.expect_text("a secret text", problems)?;
        if text.value.is_empty() {
            let remedy = "keep it in a variable of the environment, as in `${CLIENT_SECRET}`";
            return problems.error(text.span, "the secret is empty", remedy);
        }
        Some(Secret(text.value))
    }

    fn schema(_: &mut Definitions) -> Value {
        json!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::super::secret::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::from("hunter2".to_owned());
        assert_eq!(format!("{secret} {secret:?} {:#?}", Some(&secret)), "*** *** Some(\n    ***,\n)");
        assert_eq!(secret.expose(), "hunter2");
    }
}
