//! Values of the environment in what operators read: `${NAME}` is shown in their place.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A shorter value would be found in every other word. Texts that keep the places of their variables need no such bound.
const SHORTEST: usize = 6;

/// The characters that are encoded when values are written into URLs.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The values that a configuration has taken from the environment, in each form in which a text may have them, the
/// longest first.
#[derive(Clone, Debug, Default)]
pub struct Mask(Vec<SecretForm>);

/// A value as a text may have it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SecretForm {
    text: String,
    /// `${NAME}`
    name: String,
}

impl Mask {
    /// A mask over the values of these variables.
    pub fn new(variables: &BTreeMap<String, String>) -> Self {
        let mut forms: Vec<SecretForm> = Vec::new();
        for (name, value) in variables {
            let quoted = serde_json::Value::from(value.as_str()).to_string();
            let debugged = format!("{value:?}");
            let texts = [
                value.clone(),
                value.split_whitespace().collect::<Vec<_>>().join(" "),
                quoted[1..quoted.len() - 1].to_owned(),
                debugged[1..debugged.len() - 1].to_owned(),
                utf8_percent_encode(value, ENCODED).to_string(),
            ];
            let name = format!("${{{name}}}");
            forms.extend(texts.into_iter().map(|text| SecretForm { text, name: name.clone() }));
        }
        forms.retain(|form| !form.text.is_empty());
        forms.sort_by_key(|form| std::cmp::Reverse(form.text.len()));
        forms.dedup();
        Mask(forms)
    }

    /// The text without the values, but for short ones.
    pub fn hide(&self, text: &str) -> String {
        self.hide_where(text, |_| false)
    }

    /// The text without the values. Short ones are hidden too where `line`, which the text is about, names their variable.
    pub fn hide_of(&self, text: &str, line: &str) -> String {
        self.hide_where(text, |form| line.contains(form.name.trim_end_matches('}')))
    }

    fn hide_where(&self, text: &str, meant: impl Fn(&SecretForm) -> bool) -> String {
        let known: Vec<(&SecretForm, bool)> = self.0.iter().map(|form| (form, meant(form))).collect();
        let mut shown = String::with_capacity(text.len());
        let (mut rest, mut before) = (text, ' ');
        while let Some(first) = rest.chars().next() {
            let found = known.iter().map(|(form, meant)| (*form, *meant)).find(|(form, meant)| {
                let Some(after) = rest.strip_prefix(form.text.as_str()) else { return false };
                // A short value is a whole word, or another word would be taken for it.
                let alone = !before.is_alphanumeric() && !after.starts_with(char::is_alphanumeric);
                form.text.chars().count() >= SHORTEST || (*meant && alone)
            });
            let end = match found {
                Some((form, _)) => {
                    shown.push_str(&form.name);
                    form.text.len()
                }
                None => {
                    shown.push(first);
                    first.len_utf8()
                }
            };
            before = rest[..end].chars().next_back().unwrap_or(' ');
            rest = &rest[end..];
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_hidden_in_every_form() {
        let variables = [("KEY", "a b\"c/d"), ("LONG", "a b\"c/d and more"), ("SHORT", "shop")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mask = Mask::new(&variables);
        let text = "a b\"c/d, a b\\\"c/d, a%20b%22c%2Fd, a b\"c/d and more, shop";
        assert_eq!(mask.hide(text), "${KEY}, ${KEY}, ${KEY}, ${LONG}, shop");
        let text = "found `shop`, not a workshop: shop's";
        assert_eq!(mask.hide_of(text, "  to: ${SHORT:-x}"), "found `${SHORT}`, not a workshop: ${SHORT}'s");
        assert_eq!(mask.hide_of(text, "  to: shop"), text);
    }
}
