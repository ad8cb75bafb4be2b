//! A share: `20%`, or `0.2`.

use serde_json::{Value, json};

use super::decode::Decode;
use super::definitions::Definitions;
use super::node::Node;
use crate::problem::Problems;

/// A share, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl Decode for Share {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        const WANTED: &str = "a share from 0% to 100%";
        let text = node.expect_text(WANTED, problems)?.value;
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
            None => text.parse(),
        };
        match share {
            Ok(share) if (0.0..=1.0).contains(&share) => Some(Share(share)),
            Ok(share) if !text.ends_with('%') && (1.0..=100.0).contains(&share) => {
                node.wrong(WANTED, format!("write `{text}%`"), problems)
            }
            _ => node.wrong(WANTED, "write it as `20%` or `0.2`", problems),
        }
    }

    fn schema(definitions: &mut Definitions) -> Value {
        let percent = json!({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?%$", "examples": ["20%"]});
        definitions.or_variable(json!({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, percent]}))
    }

    fn written(&self) -> Option<Value> {
        Some(format!("{}%", self.0 * 100.0).into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::share::*;

    #[test]
    fn a_share_is_a_percentage_or_a_fraction() {
        let read = |text: &str| {
            let mut problems = Problems::default();
            let share = Share::decode(&Node::from_json(&json!(text)), &mut problems);
            share.ok_or_else(|| problems.into_sorted().remove(0).remedy.unwrap_or_default())
        };
        assert_eq!((read("20%"), read("0.2"), read("1")), (Ok(Share(0.2)), Ok(Share(0.2)), Ok(Share(1.0))));
        assert_eq!(read("20"), Err("write `20%`".to_owned()));
        for text in ["", "%", "-1%", "120%", "NaN", "half"] {
            assert_eq!(read(text), Err("write it as `20%` or `0.2`".to_owned()), "{text}");
        }
        assert_eq!(Share(0.2).written(), Some(json!("20%")));
    }
}
