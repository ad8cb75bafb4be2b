//! `by`: where a request names its version.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Json, Located, Node, suggest};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName};

use crate::http::version::{MediaType, Selector, fold};

/// The places, in the order in which they are asked.
#[derive(Clone, Debug)]
pub struct BySpec(pub Vec<Selector>);

const WAYS: [&str; 4] = ["path", "header", "query", "media_type"];

impl Decode for BySpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let single = std::slice::from_ref(node);
        let nodes = node.as_list().unwrap_or(single);
        if nodes.is_empty() {
            return node.wrong("a way to name versions", "write `path`, or `{ header: api-version }`", problems);
        }
        let mut ways: Vec<Selector> = Vec::new();
        let mut sound = Some(());
        for node in nodes {
            match read(node, problems) {
                Some(Selector::Path(_)) if ways.iter().any(|way| matches!(way, Selector::Path(_))) => {
                    sound = problems.error(node.span, "the path names one version only", "leave out one `path`");
                }
                Some(way) if ways.contains(&way) => {
                    sound = problems.error(node.span, "this is written twice", "leave out one");
                }
                Some(way) => ways.push(way),
                None => sound = None,
            }
        }
        sound.map(|()| BySpec(ways))
    }

    fn schema(_: &mut Definitions) -> Json {
        let names = WAYS.map(|name| (name.to_owned(), serde_json::json!({ "type": "string" })));
        let map = serde_json::json!({
            "type": "object", "properties": serde_json::Map::from_iter(names), "additionalProperties": false,
            "minProperties": 1, "maxProperties": 1,
        });
        let one = serde_json::json!({ "anyOf": [{ "const": "path" }, map] });
        serde_json::json!({ "anyOf": [{ "const": "path" }, map, { "type": "array", "items": one }] })
    }
}

fn read(node: &Node, problems: &mut Problems) -> Option<Selector> {
    const WANTED: &str = "a way to name versions";
    if let Some(text) = node.as_text() {
        let remedy = match text.as_str() {
            "path" => return Some(Selector::Path("/".to_owned())),
            "header" => "write `{ header: api-version }`, with the field's name",
            "query" => "write `{ query: version }`, with the parameter's name",
            "media_type" | "accept" => "write `{ media_type: application/vnd.shop }`",
            _ => "write `path`, `{ header: NAME }`, `{ query: NAME }` or `{ media_type: NAME }`",
        };
        return node.wrong(WANTED, remedy, problems);
    }
    let (key, value) = node.expect_one(WANTED, problems)?;
    if !WAYS.contains(&key.as_str()) {
        let remedy = match suggest(key.as_str(), WAYS) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the ways are {}", WAYS.join(", ")),
        };
        return problems.error(key.span, format!("versions cannot be named by `{key}`"), remedy);
    }
    let text = value.expect_text("a text", problems)?;
    match key.as_str() {
        "path" => path(&text, problems),
        "header" => header(&text, problems),
        "query" if text.value.is_empty() => {
            problems.error(text.span, "this is not the name of a parameter", "write one, as in `{ query: version }`")
        }
        "query" => Some(Selector::Query(text.value)),
        _ => media(&text, problems),
    }
}

fn path(text: &Located<String>, problems: &mut Problems) -> Option<Selector> {
    let before = text.value.strip_suffix("{version}").filter(|before| {
        before.starts_with('/')
            && before.ends_with('/')
            && !before.contains("//")
            && !before.contains(['{', '}', '?', '#', '%', ' '])
    });
    if let Some(before) = before {
        return Some(Selector::Path(before.to_owned()));
    }
    let plain = text.value.trim_matches('/');
    let sound = !plain.is_empty() && !plain.contains(['{', '}', '?', '#', '%', ' ']) && !plain.contains("//");
    let remedy = match sound {
        true => format!("write `'/{plain}/{{version}}'`"),
        false => "write `path`, or text and then the version, as in `'/api/{version}'`".to_owned(),
    };
    problems.error(text.span, "this does not say where in the path the version is", remedy)
}

fn header(text: &Located<String>, problems: &mut Problems) -> Option<Selector> {
    let Ok(name) = HeaderName::from_bytes(text.value.as_bytes()) else {
        let remedy = "names are of letters, digits and `-`";
        return problems.error(text.span, format!("`{text}` is not the name of a header field"), remedy);
    };
    if name == ACCEPT || name == CONTENT_TYPE {
        let remedy = "write `{ media_type: application/vnd.shop }`";
        return problems.error(text.span, format!("`{text}` has media types, not versions alone"), remedy);
    }
    Some(Selector::Header(name))
}

fn media(text: &Located<String>, problems: &mut Problems) -> Option<Selector> {
    if let Some(media) = MediaType::parse(&text.value) {
        return Some(Selector::Media(media));
    }
    let bare = text.value.split([';', '+']).next().unwrap_or_default().trim_end_matches(['.', '*']);
    let bare = bare.split(".{").next().unwrap_or_default();
    let version = |last: &str| fold(last).bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let bare = bare.rsplit_once('.').filter(|(_, last)| version(last)).map_or(bare, |(bare, _)| bare);
    let remedy = match MediaType::parse(bare) {
        Some(_) => format!("write `{bare}`: the version and `+json` follow it, or `;version=` stands behind it"),
        None => "write it as `application/vnd.shop`".to_owned(),
    };
    problems.error(text.span, format!("`{text}` is not a media type without a version"), remedy)
}
