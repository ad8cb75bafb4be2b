//! Purges of the cache, as operators and events ask for them.

use crocodile_pear::unstable::cache::{Purge, PurgeMode, Store};
use crocodile_pear::unstable::config::spec::suggest;
use serde_json::{Map, Value};

crocodile_pear::unstable::choice! {
    /// The effect on purged answers.
    pub enum ModeSpec {
        /// They become stale: the gateway fetches or validates them before it serves them again. It may still serve
        /// them if the upstream fails.
        Soft = "soft",
        /// They are removed.
        Hard = "hard",
    }
}

impl ModeSpec {
    pub fn mode(self) -> PurgeMode {
        match self {
            ModeSpec::Soft => PurgeMode::Soft,
            ModeSpec::Hard => PurgeMode::Hard,
        }
    }
}

/// A request to purge: the names, and the mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purging {
    /// The names to purge.
    pub what: Vec<Purge>,
    pub mode: PurgeMode,
}

/// The most tags that are purged at once: each of them is looked for in every answer, to count them.
const MOST: usize = 256;

/// The longest tag or URL.
const LONGEST: usize = 8 << 10;

/// The fields that one may write.
const FIELDS: [&str; 6] = ["url", "prefix", "tag", "tags", "all", "mode"];

const WANTED: &str = "write one of `url`, `prefix`, `tag`, `tags` and `all`";

impl Purging {
    /// A map with one of `url`, `prefix`, `tag`, `tags` and `all`, and perhaps `mode`.
    ///
    /// # Errors
    /// The fault, and the text to write instead.
    pub fn of_map(fields: &Map<String, Value>, usual: ModeSpec) -> Result<Self, String> {
        if let Some(unknown) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            let near = suggest(unknown, FIELDS).map(|near| format!("; did you mean `{near}`?"));
            return Err(format!("there is no `{unknown}`{}", near.unwrap_or_else(|| format!("; {WANTED}"))));
        }
        let mode = match fields.get("mode").map(Value::as_str) {
            None => usual,
            Some(Some("soft")) => ModeSpec::Soft,
            Some(Some("hard")) => ModeSpec::Hard,
            Some(_) => return Err("`mode` is \"soft\" or \"hard\"".to_owned()),
        };
        let mut named = fields.iter().filter(|(name, _)| *name != "mode");
        let (Some((name, value)), None) = (named.next(), named.next()) else { return Err(WANTED.to_owned()) };
        let what = match (name.as_str(), value) {
            ("url", Value::String(url)) => vec![Purge::Url(url.clone())],
            ("prefix", Value::String(prefix)) => vec![Purge::Prefix(prefix.clone())],
            ("tag", Value::String(tag)) => vec![Purge::Tag(tag.clone())],
            ("tags", Value::Array(tags)) => tags.iter().map(tag).collect::<Result<_, _>>()?,
            ("all", Value::Bool(true)) => vec![Purge::All],
            ("all", _) => return Err("`all` is true".to_owned()),
            ("tags", _) => return Err("`tags` is a list of texts".to_owned()),
            _ => return Err(format!("`{name}` is a text")),
        };
        Purging { what, mode: mode.mode() }.checked()
    }

    /// The purges for the output of an expression for an event: a tag, a list of tags, or a map as above.
    ///
    /// # Errors
    /// The other output of the expression.
    pub fn of_event(given: &Value, usual: ModeSpec) -> Result<Self, String> {
        let what = match given {
            Value::Object(fields) => return Purging::of_map(fields, usual),
            Value::Array(tags) => tags.iter().map(tag).collect::<Result<_, _>>()?,
            given => vec![tag(given)?],
        };
        Purging { what, mode: usual.mode() }.checked()
    }

    fn checked(self) -> Result<Self, String> {
        if self.what.len() > MOST {
            return Err(format!("more than {MOST} tags at once; purge `all`, or a tag that they share"));
        }
        for what in &self.what {
            let (Purge::Url(text) | Purge::Prefix(text) | Purge::Tag(text)) = what else { continue };
            if text.is_empty() || text.len() > LONGEST {
                return Err(format!("a tag or a URL has from 1 to {LONGEST} bytes"));
            }
            let local = text.starts_with('/') || text.starts_with("http://") || text.starts_with("https://");
            if !local && !matches!(what, Purge::Tag(_)) {
                return Err("a URL begins with `http://`, with `https://`, or with `/` for all hosts".to_owned());
            }
        }
        Ok(self)
    }

    /// Does it.
    pub fn apply(&self, cache: &Store) {
        self.what.iter().for_each(|what| cache.purge(what, self.mode));
    }

    /// Does it, and says how many answers it was about. Every answer is looked at.
    pub fn apply_counted(&self, cache: &Store) -> usize {
        self.what.iter().map(|what| cache.purge_counted(what, self.mode)).sum()
    }
}

fn tag(value: &Value) -> Result<Purge, String> {
    match value {
        Value::String(tag) => Ok(Purge::Tag(tag.clone())),
        Value::Null => Err("a tag is a text, not null".to_owned()),
        Value::Bool(_) | Value::Number(_) => Err("a tag is a text: write `tostring`".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("a tag is a text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::purge::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Purging, String> {
        Purging::of_event(&value, ModeSpec::Soft)
    }

    #[test]
    fn a_tag_a_list_and_a_map_are_purges() {
        let tags = |names: &[&str]| names.iter().map(|name| Purge::Tag((*name).to_owned())).collect::<Vec<_>>();
        let soft = |what| Ok(Purging { what, mode: PurgeMode::Soft });
        assert_eq!(read(json!("a")), soft(tags(&["a"])));
        assert_eq!(read(json!(["a", "b"])), soft(tags(&["a", "b"])));
        assert_eq!(read(json!({"tags": ["a"]})), soft(tags(&["a"])));
        assert_eq!(read(json!({"url": "/a?b"})), soft(vec![Purge::Url("/a?b".to_owned())]));
        assert_eq!(
            read(json!({"all": true, "mode": "hard"})),
            Ok(Purging { what: vec![Purge::All], mode: PurgeMode::Hard })
        );
    }

    #[test]
    fn what_is_no_purge_is_told() {
        for (value, told) in [
            (json!(null), "a tag is a text, not null"),
            (json!(7), "a tag is a text: write `tostring`"),
            (json!(""), "a tag or a URL has from 1 to 8192 bytes"),
            (json!({}), WANTED),
            (json!({"tag": "a", "all": true}), WANTED),
            (json!({"all": false}), "`all` is true"),
            (json!({"tag": "a", "mode": "gentle"}), "`mode` is \"soft\" or \"hard\""),
            (json!({"tga": "a"}), "there is no `tga`; did you mean `tag`?"),
            (json!({"tags": "a"}), "`tags` is a list of texts"),
            (json!({"url": ["/a"]}), "`url` is a text"),
            (json!({"prefix": "items"}), "a URL begins with `http://`, with `https://`, or with `/` for all hosts"),
        ] {
            assert_eq!(read(value), Err(told.to_owned()));
        }
    }
}
