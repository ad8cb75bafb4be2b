//! `METHOD /path`, as it is written.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Located, suggest};
use crocodile_pear::unstable::template;
use http::Method;

/// The methods that an endpoint may have.
pub const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Words that other products have for an endpoint for all methods.
const ALL: [&str; 4] = ["ANY", "ALL", "*", "_"];

/// `METHOD /path`, or the path alone, as written.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method; nothing, for all methods.
    pub method: Option<Method>,
    pub path: String,
    /// The parameters of the path, in order, with `rest`.
    pub params: Vec<String>,
    /// The parameter that takes the rest of the path.
    pub rest: Option<String>,
    /// Whether these are the path's parameters: not where it cannot be read.
    pub readable: bool,
}

impl Route {
    /// Reads a route; every problem is noted.
    ///
    /// # Errors
    /// The route as far as it can be read, so that what uses its parameters is not faulted too.
    pub fn parse(written: &Located<String>, problems: &mut Problems) -> Result<Self, Self> {
        let text = written.as_str();
        let unread = Route { method: None, path: String::new(), params: Vec::new(), rest: None, readable: false };
        if let Some(meant) = pattern(text) {
            let message = "an endpoint's path is not a regular expression";
            problems.error::<()>(written.span, message, format!("write `{meant}`"));
            return Err(unread);
        }
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) => (Some(method), path),
            None if text.starts_with('/') => (None, text),
            None => {
                let remedy = "write a method, a space and a path: `GET /users/{id}`; a path alone is for all methods";
                problems.error::<()>(written.span, "an endpoint is `METHOD /path`", remedy);
                return Err(unread);
            }
        };
        let path_at = text.len() - path.trim_start().len();
        let path = written.part(path_at, path.trim().len());
        let method = method.map(|method| method_of(&written.part(0, method.len()), path.as_str(), problems));
        let Some((params, rest)) = segments(&path, problems) else { return Err(unread) };
        let route = Route { method: None, path: path.value, params, rest, readable: true };
        match method {
            None => Ok(route),
            Some(Some(method)) => Ok(Route { method: Some(method), ..route }),
            Some(None) => Err(route),
        }
    }

    /// The same behind a prefix.
    #[must_use]
    pub fn below(self, prefix: &str) -> Self {
        Route { path: format!("{prefix}{}", self.path), ..self }
    }

    /// The segments of the path.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.path.split('/').skip(1)
    }

    /// The name of the route in messages: `METHOD /path`.
    pub fn name(&self, path: &str) -> String {
        match &self.method {
            Some(method) => format!("{method} {path}"),
            None => path.to_owned(),
        }
    }
}

/// The path for a location of nginx, such as `~ ^/c`: all below the text that it begins with.
fn pattern(text: &str) -> Option<String> {
    let pattern = text.strip_prefix("~*").or_else(|| text.strip_prefix('~')).or_else(|| text.strip_prefix('^'))?;
    let pattern = pattern.trim().trim_start_matches(['~', '^', ' ']);
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
    let begin = &pattern[..pattern.find(|c| !plain(c)).unwrap_or(pattern.len())];
    Some(format!("/{}", format!("{}/{{*path}}", begin.trim_matches(['/', '.'])).trim_start_matches('/')))
}

fn method_of(written: &Located<String>, path: &str, problems: &mut Problems) -> Option<Method> {
    if METHODS.contains(&written.as_str()) {
        return Method::from_bytes(written.value.as_bytes()).ok();
    }
    let capitals = written.value.to_uppercase();
    let remedy = match suggest(&capitals, METHODS) {
        _ if ALL.contains(&capitals.as_str()) => format!("write the path alone for all methods: `{path}`"),
        Some(near) => format!("did you mean `{near}`?"),
        None if written.value.contains([',', '|']) => {
            format!("write an endpoint for each method, or the path alone for all methods: `{path}`")
        }
        None => format!("the methods are {}; a path alone is for all methods", METHODS.join(", ")),
    };
    problems.error(written.span, format!("no method is named `{written}`"), remedy)
}

type Segments = (Vec<String>, Option<String>);

fn segments(path: &Located<String>, problems: &mut Problems) -> Option<Segments> {
    let Some(inner) = path.value.strip_prefix('/') else {
        let remedy = match path.value.split_once("://") {
            Some((_, rest)) => {
                let path = rest.find('/').map_or("/", |begin| &rest[begin..]);
                format!(
                    "write `{path}`; endpoints of one host are a group: `groups: {{ NAME: {{ hosts: […], endpoints: {{…}} }} }}`"
                )
            }
            None => format!("write `/{path}`"),
        };
        return problems.error(path.span, "a path begins with `/`", remedy);
    };
    let (mut params, mut rest, mut at) = (Vec::new(), None, 1);
    for segment in inner.split('/') {
        let place = path.at(at, segment.len());
        at += segment.len() + 1;
        let wrong = |message: &str, remedy: &str, problems: &mut Problems| {
            problems.error::<Segments>(place, message.to_owned(), remedy.to_owned())
        };
        if rest.is_some() {
            return wrong("nothing can follow the rest of a path", "put `{*word}` last", problems);
        }
        if let Some(meant) = foreign(segment) {
            return wrong("this is not the syntax of a path parameter", &format!("write `{meant}`"), problems);
        }
        match segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}')) {
            None if segment.contains('?') && !segment.contains(['{', '}', '#', '%', ' ']) => {
                let own = path.value.split('?').next().unwrap_or_default();
                let remedy = format!("write `{own}`: an endpoint serves its path with any query");
                return wrong("a path has no query", &remedy, problems);
            }
            None if segment.contains(['{', '}', '?', '#', '%', ' ']) => {
                let remedy = "a parameter is a whole segment, `{word}`; a path has no query and no escapes";
                return wrong("this segment is neither text nor a parameter", remedy, problems);
            }
            None => {}
            Some(name) => {
                let bare = name.strip_prefix('*').unwrap_or(name);
                if !word(bare) || params.iter().any(|known| known == bare) {
                    let remedy = "each is named once, with letters, digits and `_`";
                    return wrong("this is not a name for a path parameter", remedy, problems);
                }
                if template::is_value(bare) {
                    let remedy = format!("take another word: `{{{bare}}}` is a value in paths and header fields");
                    return wrong("this is not a name for a path parameter", &remedy, problems);
                }
                rest = (bare != name).then(|| bare.to_owned());
                params.push(bare.to_owned());
            }
        }
    }
    Some((params, rest))
}

/// A parameter as other products write it, and how it is written here: `:id`, `<id>`, `{id:[0-9]+}`, `*`, `{path...}`.
fn foreign(segment: &str) -> Option<String> {
    let inner = |open, close| segment.strip_prefix(open).and_then(|rest: &str| rest.strip_suffix(close));
    let one = segment.strip_prefix(':').or_else(|| inner('<', '>').map(|name| name.rsplit(':').next().unwrap_or(name)));
    let pattern = inner('{', '}').and_then(|inner| inner.split_once(':')).map(|(name, _)| name);
    let many = inner('{', '}').and_then(|name| name.strip_suffix("...").or_else(|| name.strip_suffix('*')));
    match (one.or(pattern), many, segment.strip_prefix('*')) {
        (Some(name), ..) if word(name) => Some(format!("{{{name}}}")),
        (None, Some(name), _) | (None, None, Some(name)) if word(name) => Some(format!("{{*{name}}}")),
        (None, None, Some("" | "*")) => Some("{*rest}".to_owned()),
        _ => None,
    }
}

fn word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
