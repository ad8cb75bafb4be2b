//! Which endpoint a request is for.

use std::sync::Arc;

use crocodile_pear::error::{Error, Kind};
use crocodile_pear::problem::Problems;
use crocodile_pear::spec::{Located, suggest};
use http::Method;
use percent_encoding::percent_decode_str;

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// `METHOD /path` as written.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path, in the router's own form.
    pub path: String,
    /// The parameters of the path, in order.
    pub params: Vec<String>,
    /// The parameter that takes the rest of the path.
    pub rest: Option<String>,
}

impl Route {
    /// Reads a route; every problem is noted.
    pub fn parse(written: &Located<String>, problems: &mut Problems) -> Option<Self> {
        let text = written.as_str();
        let remedy = "write a method, a space and a path: `GET /users/{id}`";
        let Some((method, path)) = text.split_once(' ') else {
            return problems.error(written.span, "an endpoint is `METHOD /path`", remedy);
        };
        let path_at = text.len() - path.trim_start().len();
        let path = written.part(path_at, path.trim().len());
        let known = method_of(&written.part(0, method.len()), problems);
        let segments = segments(&path, problems);
        let (method, (params, rest)) = (known?, segments?);
        Some(Route { method, path: path.value, params, rest })
    }
}

fn method_of(written: &Located<String>, problems: &mut Problems) -> Option<Method> {
    if METHODS.contains(&written.as_str()) {
        return Method::from_bytes(written.value.as_bytes()).ok();
    }
    let remedy = match suggest(&written.value.to_uppercase(), METHODS) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the methods are {}", METHODS.join(", ")),
    };
    problems.error(written.span, format!("no method is named `{written}`"), remedy)
}

type Segments = (Vec<String>, Option<String>);

fn segments(path: &Located<String>, problems: &mut Problems) -> Option<Segments> {
    let Some(inner) = path.value.strip_prefix('/') else {
        return problems.error(path.span, "a path begins with `/`", format!("write `/{path}`"));
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
        match segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}')) {
            None if segment.contains(['{', '}', '?', '#', '%', ' ']) => {
                let remedy = "a parameter is a whole segment, `{word}`; a path has no query and no escapes";
                return wrong("this segment is neither text nor a parameter", remedy, problems);
            }
            None => {}
            Some(name) => {
                let bare = name.strip_prefix('*').unwrap_or(name);
                if !word(bare) || params.iter().any(|known| known == bare) {
                    let remedy = "each is named once, with letters, digits and `_`";
                    return wrong("this is no name for a path parameter", remedy, problems);
                }
                rest = (bare != name).then(|| bare.to_owned());
                params.push(bare.to_owned());
            }
        }
    }
    Some((params, rest))
}

fn word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// All endpoints, ready to be found.
pub struct Routes<T> {
    paths: matchit::Router<usize>,
    found: Vec<Path<T>>,
}

struct Path<T> {
    path: String,
    methods: Vec<(Method, Arc<T>)>,
}

/// What a request is for.
pub enum Found<'a, T> {
    /// An endpoint, with the path's parameters, percent-decoded.
    Endpoint(&'a Arc<T>, Vec<(Arc<str>, String)>),
    /// A path that has other methods.
    Methods(Vec<&'a Method>),
    /// Nothing.
    Nothing,
}

/// An endpoint that says which of its parameters takes the rest of the path, as it came.
pub trait Rest {
    /// Its name.
    fn rest(&self) -> Option<&str>;
}

impl<T: Rest> Routes<T> {
    /// No routes.
    pub fn new() -> Self {
        Routes { paths: matchit::Router::new(), found: Vec::new() }
    }

    /// Adds an endpoint.
    ///
    /// # Errors
    /// The path that it would be taken for.
    pub fn add(&mut self, route: &Route, endpoint: Arc<T>) -> Result<(), String> {
        if let Some(path) = self.found.iter_mut().find(|path| path.path == route.path) {
            if path.methods.iter().any(|(method, _)| *method == route.method) {
                return Err(route.path.clone());
            }
            path.methods.push((route.method.clone(), endpoint));
            return Ok(());
        }
        match self.paths.insert(&route.path, self.found.len()) {
            Ok(()) => {
                let methods = vec![(route.method.clone(), endpoint)];
                self.found.push(Path { path: route.path.clone(), methods });
                Ok(())
            }
            Err(matchit::InsertError::Conflict { with }) => Err(with),
            Err(_) => Err(route.path.clone()),
        }
    }

    /// Finds what a request is for. A HEAD is served by the GET of its path.
    ///
    /// # Errors
    /// `BadRequest` where a parameter is no UTF-8.
    pub fn find(&self, method: &Method, path: &str) -> Result<Found<'_, T>, Error> {
        let Ok(matched) = self.paths.at(path) else { return Ok(Found::Nothing) };
        let methods = &self.found[*matched.value].methods;
        let of = |wanted: &Method| methods.iter().find(|(known, _)| known == wanted).map(|(_, endpoint)| endpoint);
        let fallback = || of(&Method::GET).filter(|_| *method == Method::HEAD);
        let Some(endpoint) = of(method).or_else(fallback) else {
            return Ok(Found::Methods(methods.iter().map(|(method, _)| method).collect()));
        };
        let params = matched.params.iter().map(|(name, value)| param(name, value, endpoint.rest()));
        Ok(Found::Endpoint(endpoint, params.collect::<Result<_, _>>()?))
    }
}

fn param(name: &str, value: &str, rest: Option<&str>) -> Result<(Arc<str>, String), Error> {
    if rest == Some(name) {
        return Ok((name.into(), value.to_owned()));
    }
    let decoded = percent_decode_str(value).decode_utf8();
    let decoded = decoded.map_err(|_| Error::new(Kind::BadRequest, "a segment of the path is no UTF-8"))?;
    Ok((name.into(), decoded.into_owned()))
}
