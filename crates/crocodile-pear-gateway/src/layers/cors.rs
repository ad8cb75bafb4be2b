//! `cors`: which pages of other origins may call the API from a browser (Fetch Standard, 3.2).

mod origin;

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Field, Located, Texts, only};
use crocodile_pear::unstable::http::list;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::spec;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY,
};
use http::{Method, Response, StatusCode};

use crate::http::response;
use crate::layer::{Compile, Layer, LayerPosition, Passage, Spec, Verdict};
use crate::telemetry::metrics::{Metrics, RefusedBy};
use origin::AllowedOrigin;

const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

spec! {
    /// Which pages of other origins may use the API from a browser (CORS). The gateway answers preflight requests. If
    /// a page's origin is not allowed, the browser hides the answers to its other requests. Browsers do not check who
    /// opens a WebSocket, so the gateway does: an upgrade from a page of another origin that is not allowed gets 403.
    /// Short form: one origin.
    pub struct Cors {
        /// The allowed origins: `https://shop.example`, `https://*.shop.example` for all subdomains, or `*` for all
        /// origins.
        pub origins: Located<Texts>,
        /// The allowed methods. Default: the methods that have an endpoint.
        pub methods: Option<Vec<Located<String>>>,
        /// The allowed request header fields. Default: all.
        pub headers: Option<Vec<Located<String>>>,
        /// Whether pages may send cookies and other credentials. Not possible with the origin `*`.
        pub credentials: Option<Located<bool>>,
        /// The answer header fields that pages may read, besides the few that are always allowed. `*` stands for all,
        /// but not with credentials.
        pub expose: Option<Vec<Located<String>>>,
        /// How long a browser may cache the answer to a preflight request. By default browsers use 5 s.
        pub max_age: Option<Duration>,
        /// Whether pages of public websites may call a gateway in a private network
        /// (`Access-Control-Request-Private-Network`).
        pub private_network: bool = false,
    }
    short(origin_alone)
}

fn origin_alone(origin: Located<String>, problems: &mut Problems) -> Option<Cors> {
    only([("origins", origin)], problems)
}

impl Spec for Cors {
    type Ready = CrossOrigin;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "cors",
        "Which pages of other origins may use the API from a browser. Default: none. Endpoints can override \
             it.",
    ));

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "cors",
        "Which pages of other origins may use it from a browser. Overrides the top-level setting; `off` for \
             none.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<CrossOrigin>> {
        let written = &self.origins.value.0;
        let origins: Vec<_> = written.iter().filter_map(|origin| AllowedOrigin::read(origin, cx.problems)).collect();
        let credentials = self.credentials.as_ref().is_some_and(|credentials| credentials.value);
        let any = written.iter().find(|origin| origin.as_str() == "*");
        if written.is_empty() {
            return cx.problems.error(self.origins.span, "no origin is allowed", "name one, or write `cors: off`");
        }
        if let (Some(any), true) = (any, written.len() > 1) {
            cx.problems.error::<()>(any.span, "`*` is every origin already", "leave it out, or leave out the others");
        }
        if let (Some(any), true) = (any, credentials) {
            let message = "credentials cannot be allowed for every origin: any page could act as its visitors";
            cx.problems.error::<()>(any.span, message, "name the origins, or leave out `credentials`");
        }
        let methods =
            self.methods.as_ref().map(|names| names.iter().filter_map(|name| method(name, cx.problems)).collect());
        let headers = self.headers.as_ref().filter(|names| !names.iter().any(|name| name.as_str() == "*"));
        let headers =
            headers.map(|names| names.iter().filter_map(|name| field(name, cx.problems)).collect::<Vec<HeaderName>>());
        let expose = self.exposed(credentials, cx.problems);
        (origins.len() == written.len()).then(|| {
            Arc::new(CrossOrigin {
                answers: true,
                any: any.is_some(),
                origins,
                allow_methods: methods,
                allow_headers: headers,
                credentials,
                expose,
                max_age: self.max_age.map(|age| age.as_secs().into()),
                private_network: self.private_network,
                metrics: cx.metrics(),
            })
        })
    }

    fn around(ready: &Arc<CrossOrigin>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        match at.route {
            Some(_) => Some(ready.clone()),
            None => Some(Arc::new(CrossOrigin { answers: false, ..CrossOrigin::clone(ready) })),
        }
    }
}

impl Cors {
    fn exposed(&self, credentials: bool, problems: &mut Problems) -> Option<HeaderValue> {
        let names = self.expose.as_deref().filter(|names| !names.is_empty())?;
        if let (Some(any), true) = (names.iter().find(|name| name.as_str() == "*"), credentials) {
            let message = "with credentials, `*` is the name of a field and not all fields";
            return problems.error(any.span, message, "name the fields, or leave out `credentials`");
        }
        let read: Vec<String> = names
            .iter()
            .filter_map(|name| match name.as_str() {
                "*" => Some("*".to_owned()),
                _ => field(name, problems).map(|name| name.to_string()),
            })
            .collect();
        HeaderValue::from_str(&read.join(", ")).ok()
    }
}

fn method(written: &Located<String>, problems: &mut Problems) -> Option<Method> {
    let capitals = written.value.to_ascii_uppercase();
    match Method::from_bytes(written.value.as_bytes()) {
        _ if written.as_str() == "*" => {
            problems.error(written.span, "`*` is not a method", "leave out `methods` for all that have an endpoint")
        }
        Ok(_) if capitals != written.value => {
            problems.error(written.span, format!("no method is named `{written}`"), format!("write `{capitals}`"))
        }
        Ok(method) => Some(method),
        Err(_) => problems.error(written.span, format!("no method is named `{written}`"), "write it as `GET` or `PUT`"),
    }
}

fn field(written: &Located<String>, problems: &mut Problems) -> Option<HeaderName> {
    HeaderName::from_bytes(written.value.as_bytes()).ok().or_else(|| {
        let message = format!("`{written}` is not the name of a header field");
        problems.error(written.span, message, "names are of letters, digits and `-`")
    })
}

/// Answers preflights, and sets the fields that let pages read answers.
#[derive(Clone)]
pub struct CrossOrigin {
    /// Whether there is an endpoint that a preflight could be about.
    answers: bool,
    any: bool,
    origins: Vec<AllowedOrigin>,
    allow_methods: Option<Vec<Method>>,
    allow_headers: Option<Vec<HeaderName>>,
    credentials: bool,
    expose: Option<HeaderValue>,
    max_age: Option<HeaderValue>,
    private_network: bool,
    metrics: Arc<Metrics>,
}

/// The request of a preflight (Fetch, 4.8).
struct Preflight<'a> {
    origin: &'a HeaderValue,
    method: &'a HeaderValue,
}

/// Parses a request as a preflight, if it is one.
fn preflight(scope: &Scope) -> Option<Preflight<'_>> {
    if *scope.method() != Method::OPTIONS {
        return None;
    }
    let headers = scope.headers();
    Some(Preflight { origin: headers.get(ORIGIN)?, method: headers.get(ACCESS_CONTROL_REQUEST_METHOD)? })
}

impl CrossOrigin {
    fn admits(&self, origin: &HeaderValue) -> bool {
        self.any || origin.to_str().is_ok_and(|origin| self.origins.iter().any(|allowed| allowed.admits(origin)))
    }

    /// Whether a page of another origin that is not allowed asks for an upgrade. Pages of the gateway's own host may.
    fn is_foreign_upgrade(&self, scope: &Scope) -> bool {
        if scope.passage().upgrade.is_none() || self.any {
            return false;
        }
        let mut origins = scope.headers().get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            // Only browsers send it.
            (None, _) => false,
            (Some(origin), None) => !self.admits(origin) && !is_own(origin, scope),
            (Some(_), Some(_)) => true,
        }
    }

    fn decide(&self, asked: &Preflight<'_>, headers: &HeaderMap) -> Result<Response<AnswerBody>, &'static str> {
        if !self.admits(asked.origin) {
            return Err("pages of this origin are not allowed");
        }
        let method = Method::from_bytes(asked.method.as_bytes()).map_err(|_| "the method is not allowed")?;
        if self.allow_methods.as_ref().is_some_and(|methods| !methods.contains(&method)) {
            return Err("the method is not allowed");
        }
        let fields = asked_fields(headers).ok_or("a header field is not allowed")?;
        if self.allow_headers.as_ref().is_some_and(|allowed| fields.iter().any(|name| !allowed.contains(name))) {
            return Err("a header field is not allowed");
        }
        let mut response = Response::new(AnswerBody::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let answer = response.headers_mut();
        self.allow(asked.origin, answer);
        let methods = self.allow_methods.as_deref().map_or_else(|| method.to_string(), join);
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, text(&methods));
        let fields = join(self.allow_headers.as_deref().unwrap_or(&fields));
        if !fields.is_empty() {
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, text(&fields));
        }
        if let Some(age) = &self.max_age {
            answer.insert(ACCESS_CONTROL_MAX_AGE, age.clone());
        }
        if self.private_network && headers.get(REQUEST_PRIVATE_NETWORK).is_some_and(|asked| asked == "true") {
            answer.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
        }
        Ok(response)
    }

    /// Sets the fields that let a page of this origin read the answer.
    fn allow(&self, origin: &HeaderValue, headers: &mut HeaderMap) {
        let origin = if self.any { HeaderValue::from_static("*") } else { origin.clone() };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }
}

/// Whether an origin is that of the host which the request is for. A proxy in front may have ended its TLS.
fn is_own(origin: &HeaderValue, scope: &Scope) -> bool {
    let Some((scheme, host)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else { return false };
    let client = scope.facts().client();
    let told = client.and_then(|client| client.host.as_ref()).map(HeaderValue::as_bytes);
    let asked = told.or(scope.host()).and_then(|asked| std::str::from_utf8(asked).ok());
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let same = |asked: &str| asked.strip_suffix(usual).unwrap_or(asked).eq_ignore_ascii_case(host);
    let secure = scheme == "https" || scheme == "http" && !client.is_some_and(|client| client.tls);
    secure && asked.is_some_and(same)
}

/// The field names that a preflight asks for; `None` if one is not a valid name.
fn asked_fields(headers: &HeaderMap) -> Option<Vec<HeaderName>> {
    list::field(headers, &ACCESS_CONTROL_REQUEST_HEADERS).map(|name| HeaderName::from_bytes(name).ok()).collect()
}

fn join<T: AsRef<str>>(names: &[T]) -> String {
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

fn text(names: &str) -> HeaderValue {
    HeaderValue::from_str(names).expect("names of methods and fields are text")
}

/// The CORS fields of answers. Those of an upstream are removed, because they are about its address and not ours.
const OURS: [HeaderName; 7] = [
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE,
    ALLOW_PRIVATE_NETWORK,
];

impl Layer for CrossOrigin {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        if self.is_foreign_upgrade(scope) {
            self.metrics.count_refused(RefusedBy::Cors);
            let mut response = response::refuse(StatusCode::FORBIDDEN, "pages of this origin are not allowed");
            vary(response.headers_mut(), &[ORIGIN]);
            return Verdict::Answer(response);
        }
        // If no endpoint serves the announced request, the usual answer says so.
        let Some(asked) = preflight(scope).filter(|_| self.answers) else { return Verdict::Pass };
        let mut response = self.decide(&asked, scope.headers()).unwrap_or_else(|why| {
            self.metrics.count_refused(RefusedBy::Cors);
            response::refuse(StatusCode::FORBIDDEN, why)
        });
        vary(response.headers_mut(), &[ORIGIN, ACCESS_CONTROL_REQUEST_METHOD, ACCESS_CONTROL_REQUEST_HEADERS]);
        if self.private_network {
            vary(response.headers_mut(), &[REQUEST_PRIVATE_NETWORK]);
        }
        Verdict::Answer(response)
    }

    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        let headers = response.headers_mut();
        for name in &OURS {
            headers.remove(name);
        }
        // The answer depends on the origin even if the request has none or one that is not allowed.
        if !self.any {
            vary(headers, &[ORIGIN]);
        }
        if let Some(origin) = scope.headers().get(ORIGIN)
            && preflight(scope).is_none()
            && self.admits(origin)
        {
            self.allow(origin, headers);
            if let Some(expose) = &self.expose {
                headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, expose.clone());
            }
        }
        Passage::Done
    }

    fn answers_preflights(&self) -> bool {
        true
    }

    fn outline(&self) -> Option<String> {
        let origins: Vec<String> = self.origins.iter().map(ToString::to_string).collect();
        let credentials = if self.credentials { ", with credentials" } else { "" };
        Some(format!("answers preflights; allows {}{credentials}", origins.join(", ")))
    }
}

/// Adds these fields to `Vary`, unless they are there.
fn vary(headers: &mut HeaderMap, on: &[HeaderName]) {
    let missing: Vec<&str> = on.iter().map(HeaderName::as_str).filter(|name| !list::varies(headers, name)).collect();
    if !missing.is_empty() {
        headers.append(VARY, text(&missing.join(", ")));
    }
}
