//! Which content types are worth compressing.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::Located;
use crocodile_pear::unstable::http::media_type::essence;

/// Media types that are text underneath. Pictures, films and archives are compressed already.
const USUAL: [&str; 20] = [
    "text/*",
    "*+json",
    "*+xml",
    "application/json",
    "application/x-ndjson",
    "application/jsonl",
    "application/json-seq",
    "application/xml",
    "application/yaml",
    "application/javascript",
    "application/x-javascript",
    "application/graphql",
    "application/wasm",
    "application/rtf",
    "application/x-www-form-urlencoded",
    "application/vnd.ms-fontobject",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/x-icon",
];

/// The types unless others are written.
pub fn usual() -> Vec<Located<String>> {
    USUAL.iter().map(|written| Located::new((*written).to_owned(), Default::default())).collect()
}

/// A type, or many: `text/html`, `text/*`, `*+json`.
#[derive(Debug)]
pub enum MediaRange {
    Exactly(Box<str>),
    /// With this before the rest, to the slash.
    Begins(Box<str>),
    /// With this at the end, from the plus on.
    Ends(Box<str>),
}

impl MediaRange {
    /// Reads a type; one that is none is noted.
    pub fn parse(written: &Located<String>, problems: &mut Problems) -> Option<Self> {
        let text = written.value.to_ascii_lowercase();
        match (text.strip_suffix('*'), text.strip_prefix('*'), text.split_once('/')) {
            (Some(begin), None, Some((_, "*"))) => Some(MediaRange::Begins(begin.into())),
            (None, Some(end), None) if end.starts_with('+') => Some(MediaRange::Ends(end.into())),
            (None, None, Some((kind, subtype))) if !kind.is_empty() && !subtype.is_empty() => {
                Some(MediaRange::Exactly(text.into()))
            }
            _ => {
                let message = format!("`{written}` is not a content type");
                problems.error(written.span, message, "write `text/html`, `text/*` or `*+json`")
            }
        }
    }

    /// Whether a `Content-Type` is one of these, whatever its parameters.
    pub fn matches(&self, value: &[u8]) -> bool {
        let essence = essence(value);
        match self {
            MediaRange::Exactly(wanted) => essence.eq_ignore_ascii_case(wanted.as_bytes()),
            MediaRange::Begins(begin) => {
                essence.get(..begin.len()).is_some_and(|has| has.eq_ignore_ascii_case(begin.as_bytes()))
            }
            MediaRange::Ends(end) => {
                let from = essence.len().saturating_sub(end.len());
                essence[from..].eq_ignore_ascii_case(end.as_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::media::*;

    fn usually(value: &str) -> bool {
        let mut problems = Problems::default();
        let types: Vec<MediaRange> =
            usual().iter().filter_map(|written| MediaRange::parse(written, &mut problems)).collect();
        assert_eq!((types.len(), problems.fatal()), (USUAL.len(), false));
        types.iter().any(|media| media.matches(value.as_bytes()))
    }

    #[test]
    fn text_is_worth_it() {
        for text in [
            "text/html; charset=utf-8",
            "TEXT/plain",
            "text/event-stream",
            "application/json",
            "Application/Problem+JSON;x=y",
            "image/svg+xml",
            "application/x-ndjson",
        ] {
            assert!(usually(text), "{text}");
        }
    }

    #[test]
    fn what_is_compressed_is_not() {
        for other in
            ["image/png", "video/mp4", "application/zip", "application/octet-stream", "font/woff2", "texture/x", ""]
        {
            assert!(!usually(other), "{other}");
        }
    }

    #[test]
    fn what_is_no_type_is_told() {
        for wrong in ["json", "*", "*/*", "text/", "*json", "a*b"] {
            let mut problems = Problems::default();
            let media = MediaRange::parse(&Located::new(wrong.to_owned(), Default::default()), &mut problems);
            assert!(media.is_none() && problems.fatal(), "{wrong}");
        }
    }
}
