//! All routes as a tree of path segments, ready to be searched.

use std::borrow::Cow;
use std::sync::Arc;

use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::request::context::Params;
use http::Method;
use percent_encoding::percent_decode_str;

use super::spec::Route;

/// All endpoints, ready to be found.
pub struct Routes<T> {
    root: Node<T>,
}

/// The route that a request matches.
pub enum FoundRoute<'a, T> {
    /// An endpoint, with the path's parameters.
    Endpoint(&'a T, Params),
    /// A path that has other methods.
    Methods(Vec<&'a Method>),
    /// No route matches.
    Nothing,
}

/// The routes below a part of a path.
struct Node<T> {
    /// Segments that are text, sorted.
    texts: Vec<(Box<str>, Node<T>)>,
    /// A segment that is a parameter.
    param: Option<Box<Node<T>>>,
    /// The endpoints of the path that ends here.
    here: Vec<Leaf<T>>,
    /// The endpoints that take whatever follows.
    rest: Vec<Leaf<T>>,
}

/// An endpoint.
struct Leaf<T> {
    /// The method; `None` for all methods.
    method: Option<Method>,
    /// The parameters, each with the number of its segment.
    params: Box<[(Arc<str>, usize)]>,
    rest: Option<Arc<str>>,
    endpoint: T,
    path: Box<str>,
}

impl<T> Routes<T> {
    /// No routes.
    pub fn new() -> Self {
        Routes { root: Node::new() }
    }

    /// Adds an endpoint. Two that are `apart` never serve the same request, whatever their routes are.
    ///
    /// # Errors
    /// The path of the endpoint that takes the same requests.
    pub fn add(&mut self, route: &Route, endpoint: T, apart: impl Fn(&T, &T) -> bool) -> Result<(), String> {
        let (mut node, mut params) = (&mut self.root, Vec::new());
        for (at, segment) in route.segments().enumerate() {
            node = match segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}')) {
                Some(name) if name.starts_with('*') => break,
                Some(name) => {
                    params.push((name.into(), at));
                    node.param.get_or_insert_with(|| Box::new(Node::new()))
                }
                None => node.text(segment),
            };
        }
        let leaves = if route.rest.is_some() { &mut node.rest } else { &mut node.here };
        if let Some(same) = leaves.iter().find(|leaf| leaf.method == route.method && !apart(&leaf.endpoint, &endpoint))
        {
            return Err(same.path.to_string());
        }
        let rest = route.rest.as_deref().map(Arc::from);
        let (method, path) = (route.method.clone(), route.path.as_str().into());
        // Mostly there is one: each further one is a method, a version or a condition more.
        leaves.reserve_exact(1);
        leaves.push(Leaf { method, params: params.into(), rest, endpoint, path });
        Ok(())
    }

    /// Finds what a request is for, among the endpoints that `serves` says may serve it. Text beats a parameter, and a parameter beats the rest of the path, segment by
    /// segment; of those that serve the method the first counts. A HEAD is served by the GET of its path.
    ///
    /// A segment is compared decoded: `/%61` is `/a` (RFC 3986, 6.2.2.2), or who may not have `/a` would ask for
    /// `/%61`. An encoded slash divides nothing.
    ///
    /// # Errors
    /// `BadRequest` where a parameter is not UTF-8.
    pub fn find(
        &self,
        method: &Method,
        path: &str,
        serves: impl FnMut(&T) -> bool,
    ) -> Result<FoundRoute<'_, T>, Error> {
        let mut search = Search { method, serves, allowed: Vec::new() };
        match self.root.find(path, &mut search) {
            Some((leaf, rest)) => Ok(FoundRoute::Endpoint(&leaf.endpoint, leaf.params(path, rest)?)),
            None if search.allowed.is_empty() => Ok(FoundRoute::Nothing),
            None => Ok(FoundRoute::Methods(search.allowed)),
        }
    }
}

/// A search, with the methods that it came across.
struct Search<'a, 'b, S> {
    method: &'b Method,
    serves: S,
    allowed: Vec<&'a Method>,
}

impl<'a, S> Search<'a, '_, S> {
    /// The endpoint of a path that serves the method.
    fn choose<T>(&mut self, leaves: &'a [Leaf<T>]) -> Option<&'a Leaf<T>>
    where
        S: FnMut(&T) -> bool,
    {
        let (asked, serves) = (self.method, &mut self.serves);
        let mut of = |method: Option<&Method>| {
            leaves.iter().find(|leaf| leaf.method.as_ref() == method && serves(&leaf.endpoint))
        };
        let mut found = of(Some(asked));
        if found.is_none() && *asked == Method::HEAD {
            found = of(Some(&Method::GET));
        }
        let found = found.or_else(|| of(None));
        if found.is_none() {
            for leaf in leaves.iter().filter(|leaf| (self.serves)(&leaf.endpoint)) {
                let Some(method) = &leaf.method else { continue };
                if !self.allowed.contains(&method) {
                    self.allowed.push(method);
                }
            }
        }
        found
    }
}

impl<T> Node<T> {
    fn new() -> Self {
        Node { texts: Vec::new(), param: None, here: Vec::new(), rest: Vec::new() }
    }

    /// The node behind a segment that is text.
    fn text(&mut self, segment: &str) -> &mut Self {
        let at = self.texts.binary_search_by(|(text, _)| (**text).cmp(segment)).unwrap_or_else(|at| {
            self.texts.insert(at, (segment.into(), Node::new()));
            at
        });
        &mut self.texts[at].1
    }

    /// The endpoint for what is left of a path, which begins with `/` or is empty; and what is left for `{*rest}`.
    fn find<'a, 'p, S: FnMut(&T) -> bool>(
        &'a self,
        path: &'p str,
        search: &mut Search<'a, '_, S>,
    ) -> Option<(&'a Leaf<T>, &'p str)> {
        if path.is_empty() {
            // `/a/{*rest}` takes `/a` too.
            let found = search.choose(&self.here).or_else(|| search.choose(&self.rest));
            return found.map(|leaf| (leaf, path));
        }
        let inner = path.strip_prefix('/')?;
        let (segment, after) = inner.split_at(inner.find('/').unwrap_or(inner.len()));
        let text = || {
            let segment = decode(segment);
            self.texts.binary_search_by(|(text, _)| (**text).cmp(&segment)).ok()
        };
        text()
            .and_then(|at| self.texts[at].1.find(after, search))
            .or_else(|| self.param.as_ref().filter(|_| !segment.is_empty())?.find(after, search))
            .or_else(|| search.choose(&self.rest).map(|leaf| (leaf, path)))
    }
}

impl<T> Leaf<T> {
    fn params(&self, path: &str, rest: &str) -> Result<Params, Error> {
        let mut segments = path.split('/').skip(1).enumerate();
        let mut param = |(name, wanted): &(Arc<str>, usize)| {
            let segment = segments.find(|(at, _)| at == wanted).map_or("", |(_, segment)| segment);
            Ok::<_, Error>((name.clone(), text(segment)?.into_owned()))
        };
        let values = self.params.iter().map(&mut param).collect::<Result<_, _>>()?;
        // Sent on as it came, and read by the upstream as each segment is read here.
        if memchr::memchr(b'%', rest.as_bytes()).is_some() {
            text(rest)?;
        }
        Ok(Params { values, rest: self.rest.as_ref().map(|name| (name.clone(), path.len() - rest.len())) })
    }
}

/// A part of the path, decoded.
fn text(part: &str) -> Result<Cow<'_, str>, Error> {
    let decoded = percent_decode_str(part).decode_utf8();
    decoded.map_err(|_| Error::new(Kind::BadRequest, "the path is not UTF-8"))
}

/// A segment as it is compared. One that is not UTF-8 keeps its `%`, which no text of a route has.
fn decode(segment: &str) -> Cow<'_, str> {
    match memchr::memchr(b'%', segment.as_bytes()) {
        None => segment.into(),
        Some(_) => percent_decode_str(segment).decode_utf8().unwrap_or(segment.into()),
    }
}

#[cfg(test)]
mod tests {
    use crocodile_pear::unstable::config::problem::{Problems, Span};
    use crocodile_pear::unstable::config::spec::Located;

    use super::super::tree::*;

    fn routes(written: &[&str]) -> Routes<String> {
        let mut routes = Routes::new();
        for text in written {
            let route = Route::parse(&Located::new((*text).to_owned(), Span::default()), &mut Problems::default());
            routes.add(&route.expect("a route"), (*text).to_owned(), |_, _| false).expect("no other");
        }
        routes
    }

    /// The endpoint, its parameters and the rest; or the methods that there are.
    fn find(routes: &Routes<String>, method: &str, path: &str) -> String {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        match routes.find(&method, path, |_| true).expect("UTF-8") {
            FoundRoute::Nothing => "nothing".to_owned(),
            FoundRoute::Methods(methods) => methods.iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", "),
            FoundRoute::Endpoint(endpoint, Params { values, rest }) => {
                let values = values.iter().map(|(name, value)| format!(" {name}={value}"));
                let rest = rest.iter().map(|(name, at)| format!(" {name}={}", &path[*at..]));
                values.chain(rest).fold(endpoint.to_string(), |text, value| text + &value)
            }
        }
    }

    #[test]
    fn an_endpoint_without_a_method_serves_those_that_no_other_does() {
        let routes = routes(&["/api/{*path}", "GET /api/users", "POST /api/{*path}", "GET /api/{id}/x", "/one"]);
        for (method, path, wanted) in [
            ("GET", "/api/users", "GET /api/users"),
            ("HEAD", "/api/users", "GET /api/users"),
            ("POST", "/api/users", "POST /api/{*path} path=/users"),
            ("PURGE", "/api/users", "/api/{*path} path=/users"),
            ("GET", "/api/7/x", "GET /api/{id}/x id=7"),
            ("PUT", "/api/7/x", "/api/{*path} path=/7/x"),
            ("GET", "/api/7/y", "/api/{*path} path=/7/y"),
            ("OPTIONS", "/one", "/one"),
            ("get", "/one", "/one"),
            ("GET", "/one/", "nothing"),
        ] {
            assert_eq!(find(&routes, method, path), wanted, "{method} {path}");
        }
    }

    #[test]
    fn the_rest_of_a_path_may_be_nothing() {
        let routes = routes(&["/api/{*path}", "GET /{*all}", "GET /t/{id}/{*more}"]);
        for (path, wanted) in [
            ("/api", "/api/{*path} path="),
            ("/api/", "/api/{*path} path=/"),
            ("/api//a//", "/api/{*path} path=//a//"),
            ("/apis", "GET /{*all} all=/apis"),
            ("/", "GET /{*all} all=/"),
            ("//", "GET /{*all} all=//"),
            ("/t/7", "GET /t/{id}/{*more} id=7 more="),
            ("/t/", "GET /{*all} all=/t/"),
            ("/t//x", "GET /{*all} all=/t//x"),
        ] {
            assert_eq!(find(&routes, "GET", path), wanted, "{path}");
        }
        assert_eq!(find(&routes, "GET", "*"), "nothing");
    }

    #[test]
    fn text_is_compared_decoded_and_the_rest_is_kept() {
        let routes = routes(&["GET /admin/{*rest}", "GET /caf\u{e9}/{id}", "GET /{*all}"]);
        for (path, wanted) in [
            ("/%61dmin/%41%2f%zz", "GET /admin/{*rest} rest=/%41%2f%zz"),
            ("/caf%C3%A9/%2541", "GET /caf\u{e9}/{id} id=%41"),
            ("/admin%2Fx", "GET /{*all} all=/admin%2Fx"),
            ("/%c3%bf", "GET /{*all} all=/%c3%bf"),
        ] {
            assert_eq!(find(&routes, "GET", path), wanted, "{path}");
        }
        for path in ["/caf%C3%A9/%ff", "/%ff", "/admin/a/%c3"] {
            assert!(routes.find(&Method::GET, path, |_| true).is_err(), "{path}");
        }
    }

    #[test]
    fn a_path_that_nobody_serves_names_its_methods() {
        let routes = routes(&["GET /a", "POST /a", "PUT /{x}", "DELETE /{*rest}", "GET /b/c"]);
        assert_eq!(find(&routes, "PATCH", "/a"), "GET, POST, PUT, DELETE");
        assert_eq!(find(&routes, "PATCH", "/b"), "PUT, DELETE");
        assert_eq!(find(&routes, "DELETE", "/a"), "DELETE /{*rest} rest=/a");
    }

    #[test]
    fn endpoints_that_are_apart_share_a_path() {
        let mut routes: Routes<&str> = Routes::new();
        for text in ["GET /a/{id}", "GET /a/{name}", "DELETE /a/{id}", "GET /a/{*rest}"] {
            let route = Route::parse(&Located::new(text.to_owned(), Span::default()), &mut Problems::default());
            routes.add(&route.expect("a route"), text, |_, _| true).expect("apart");
        }
        let find = |method: Method, wanted: &'static str| match routes.find(&method, "/a/7", |text| *text == wanted) {
            Ok(FoundRoute::Endpoint(text, params)) => format!("{text} {}", params.values.len()),
            Ok(FoundRoute::Methods(methods)) => format!("{methods:?}"),
            _ => "nothing".to_owned(),
        };
        assert_eq!(find(Method::GET, "GET /a/{name}"), "GET /a/{name} 1");
        assert_eq!(find(Method::HEAD, "GET /a/{*rest}"), "GET /a/{*rest} 0");
        assert_eq!(find(Method::GET, "DELETE /a/{id}"), "[DELETE]");
        assert_eq!(find(Method::GET, "other"), "nothing");
    }

    #[test]
    fn the_same_requests_have_one_endpoint() {
        let mut routes = routes(&["GET /{id}/{*rest}", "/{id}"]);
        let mut again = |text: &str| {
            let route = Route::parse(&Located::new(text.to_owned(), Span::default()), &mut Problems::default());
            routes.add(&route.expect("a route"), String::new(), |_, _| false)
        };
        assert_eq!(again("GET /{name}/{*all}"), Err("/{id}/{*rest}".to_owned()));
        assert_eq!(again("/{name}"), Err("/{id}".to_owned()));
        assert_eq!(again("GET /{name}"), Ok(()));
    }
}
