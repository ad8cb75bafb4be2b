//! A client with settings.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{HeaderName, HeaderValue, USER_AGENT};
use http::{Request, Response, Uri};
use tower_service::Service;

use super::body::Body;
use super::faults::Faults;
use super::guard;
use super::handle::Client;
use super::observe::{Hooks, Observe};
use super::servers::SharedUpstreams;
use super::transport::Tower;
use super::upstream::Upstream;
use crate::cache::UNBUILT;
use crate::config::problem::{Problems, Span};
use crate::config::spec::Located;
use crate::error::{BoxError, Error};
use crate::upstream::Resolver;
use crate::upstream::program::{Program, Transport, Via};

/// Puts a [`Client`] together; [`Client::builder`] begins one.
///
/// ```
/// use std::time::Duration;
/// use crocodile_pear::{Client, Error, Upstream};
/// use http::HeaderValue;
///
/// async fn token() -> Result<String, Error> {
///     Ok("Bearer …".replace('…', "t"))
/// }
///
/// let client = Client::builder()
///     .upstream("shop", Upstream::at("http://127.0.0.1:9000/shop").timeout(Duration::from_secs(2)).retry(2))
///     .defaults(Upstream::default().in_flight(100))
///     .header("x-caller", "report")
///     .before(async |mut request| {
///         let token = HeaderValue::try_from(token().await?).map_err(Error::of_program)?;
///         request.headers_mut().insert("authorization", token);
///         Ok(request)
///     })
///     .build()?;
/// # drop(client);
/// # Ok::<(), Error>(())
/// ```
///
/// ```
/// use crocodile_pear::Client;
///
/// let client = Client::builder()
///     .via("report")
///     .resolver(["127.0.0.1:53".parse()?])
///     .cache(16 << 20)
///     .build()?;
/// # drop(client);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
#[must_use = "`build` makes the client"]
pub struct ClientBuilder {
    upstreams: Vec<(String, Upstream)>,
    defaults: Upstream,
    hooks: Hooks,
    transport: Option<Arc<dyn Transport>>,
    via: Option<String>,
    resolver: Option<Vec<SocketAddr>>,
    cache: Option<usize>,
    wrong: Vec<String>,
}

impl ClientBuilder {
    /// Adds an upstream by name. Its settings hold for all calls to its servers, from Rust and from YAML.
    pub fn upstream(mut self, name: &str, upstream: Upstream) -> Self {
        self.upstreams.push((name.to_owned(), upstream));
        self
    }

    /// The settings of all servers that no upstream names.
    pub fn defaults(self, defaults: Upstream) -> Self {
        ClientBuilder { defaults, ..self }
    }

    /// A tower service makes the calls instead of sockets: a mock, a recorder, another HTTP client. Timeouts, retries, breakers,
    /// `in_flight` and caches stand around it as around sockets. It gets a clone of the service for each attempt.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), crocodile_pear::Error> {
    /// use std::convert::Infallible;
    /// use std::future::{Ready, ready};
    /// use std::task::{Context, Poll};
    /// use crocodile_pear::{Body, Client};
    /// use http::{Request, Response};
    ///
    /// #[derive(Clone)]
    /// struct Mock;
    ///
    /// impl tower_service::Service<Request<Body>> for Mock {
    ///     type Response = Response<Body>;
    ///     type Error = Infallible;
    ///     type Future = Ready<Result<Self::Response, Infallible>>;
    ///
    ///     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
    ///         Poll::Ready(Ok(()))
    ///     }
    ///
    ///     fn call(&mut self, request: Request<Body>) -> Self::Future {
    ///         ready(Ok(Response::new(Body::from(format!(r#"{{"path": "{}"}}"#, request.uri().path())))))
    ///     }
    /// }
    ///
    /// let client = Client::builder().transport(Mock).build()?;
    /// let answer: serde_json::Value = client.get("https://example.org/users/7").as_json().await?;
    /// assert_eq!(answer["path"], "/users/7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn transport<S, B>(mut self, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
        B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.transport = Some(Arc::new(Tower::new(service)));
        self
    }

    /// Runs before each call, also of pipelines from YAML: for signatures, tokens, trace context. It may change everything but the
    /// server, may wait, and may fail, which fails the call. A retry sends what it made. Several run in this order. What was given
    /// to [`Client::with`] is in the extensions of the request.
    pub fn before<F, Fut>(mut self, before: F) -> Self
    where
        F: Fn(Request<Body>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Request<Body>, Error>> + Send + 'static,
    {
        let step = move |request| -> BoxFuture<'static, Result<Request<Body>, Error>> {
            match guard::call(|| before(request)) {
                Ok(future) => Box::pin(future),
                Err(error) => Box::pin(std::future::ready(Err(error))),
            }
        };
        self.hooks.before.push(Box::new(step));
        self
    }

    /// Sees each call, for metrics and logs. Spans need none: they are made for whatever subscriber of
    /// [`tracing`](https://docs.rs/tracing) wants the target `crocodile_pear::call`.
    pub fn observe(mut self, observer: impl Observe) -> Self {
        self.hooks.observers.push(Box::new(observer));
        self
    }

    /// A header field of each call that does not set it.
    pub fn header<N, V>(mut self, name: N, value: V) -> Self
    where
        N: TryInto<HeaderName, Error: Into<BoxError>>,
        V: TryInto<HeaderValue, Error: Into<BoxError>>,
    {
        match (name.try_into(), value.try_into()) {
            (Ok(name), Ok(value)) => {
                self.hooks.headers.append(name, value);
            }
            (Err(error), _) => self.wrong.push(format!("the name of a header field is not valid: {}", error.into())),
            (_, Err(error)) => self.wrong.push(format!("the value of a header field is not valid: {}", error.into())),
        }
        self
    }

    /// The `user-agent` of calls that do not set one. Default: none.
    pub fn user_agent(self, product: &str) -> Self {
        self.header(USER_AGENT, product)
    }

    /// The name in the field `via`, for a program that is a gateway itself (RFC 9110, 7.6.3): `1.1 NAME`. Default: no such field.
    pub fn via(self, name: &str) -> Self {
        ClientBuilder { via: Some(name.to_owned()), ..self }
    }

    /// Hands these header fields on, from the [`HeaderMap`](http::HeaderMap) that was given to [`Client::with`]: those of the
    /// request that is served. For traces: `["traceparent", "tracestate"]`.
    pub fn propagate<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        for name in names {
            match HeaderName::try_from(name) {
                Ok(name) => self.hooks.propagated.push(name),
                Err(_) => self.wrong.push(format!("`{name}` is not the name of a header field")),
            }
        }
        self
    }

    /// The DNS servers to ask, instead of those of the system.
    pub fn resolver(self, servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        ClientBuilder { resolver: Some(servers.into_iter().collect()), ..self }
    }

    /// The bytes that all caches of the client hold together. Default: 64 MiB, taken when an upstream has a cache. Needs the
    /// feature `cache`; without it, [`build`](Self::build) refuses it.
    pub fn cache(self, bytes: usize) -> Self {
        ClientBuilder { cache: Some(bytes), ..self }
    }

    /// Makes the client. No connection is opened.
    ///
    /// # Errors
    /// [`Kind::InvalidCall`](crate::Kind::InvalidCall), with everything that is wrong in the settings; its
    /// [`source`](std::error::Error::source) is [`Faults`].
    pub fn build(mut self) -> Result<Client, Error> {
        let mut problems = Problems::default();
        for wrong in std::mem::take(&mut self.wrong) {
            problems.error::<()>(Span::default(), wrong, "");
        }
        if self.cache.is_some() && !cfg!(feature = "cache") {
            problems.error::<()>(Span::default(), UNBUILT, "build with it, or leave out `cache`");
        }
        let via = match self.via.map(|name| (HeaderValue::try_from(format!("1.1 {name}")), name)) {
            None => Via::Absent,
            Some((Ok(value), _)) => Via::Text(value),
            Some((Err(_), name)) => {
                problems.error::<()>(
                    Span::default(),
                    format!("`{name}` is not a name for `via`"),
                    "use letters and digits",
                );
                Via::Absent
            }
        };
        let program = Program { transport: self.transport, interceptor: Some(Arc::new(self.hooks)), via };
        if !self.defaults.is_empty() {
            self.defaults.with_url("http://localhost").read(&mut problems);
        }
        let resolver = self.resolver.map(Resolver::at);
        let servers = SharedUpstreams::new(program, self.defaults, resolver, self.cache);
        for (name, upstream) in &self.upstreams {
            add(&servers, name, upstream, &mut problems);
        }
        match problems.fatal() {
            true => Err(Faults::from_problems(problems).into()),
            false => Ok(Client::of(servers)),
        }
    }
}

/// Adds an upstream; every problem is noted, with its name.
pub(super) fn add(servers: &SharedUpstreams, name: &str, upstream: &Upstream, problems: &mut Problems) {
    let mut own = Problems::default();
    let spec = upstream.read(&mut own);
    let made = spec.as_ref().and_then(|spec| {
        let files = |written: &_| upstream.file(written);
        servers.compile((name, Span::default()), spec, &files, &mut own)
    });
    for problem in own.into_sorted() {
        let message = format!("upstream `{name}`: {}", problem.message);
        problems.error::<()>(problem.span, message, problem.remedy.unwrap_or_default());
    }
    let (Some(spec), Some(made)) = (spec, made) else { return };
    if spec.health.is_some() {
        let remedy = "leave `health` out: the gateway alone makes health checks";
        problems.error::<()>(Span::default(), format!("nothing makes the health checks of `{name}` here"), remedy);
    }
    let urls = spec.url.iter().map(Located::as_str).chain(spec.urls.iter().flatten().map(Located::as_str));
    let urls = urls.chain(spec.servers.iter().flatten().map(|server| server.url.as_str()));
    let urls: Vec<Uri> = urls.filter_map(|url| url.parse().ok()).collect();
    if let Err(message) = servers.add_upstream(name, made, &urls) {
        problems.error::<()>(Span::default(), message, "");
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.upstreams.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ClientBuilder").field("upstreams", &names).finish_non_exhaustive()
    }
}
