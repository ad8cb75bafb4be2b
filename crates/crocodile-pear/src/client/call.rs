//! A call of a typed program.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::body::{Body, MAX_BODY, Pulled};
use super::body_with_call::BodyWithCall;
use super::dispatch::{PreparedRequest, TimeoutChange, send};
use super::guard;
use super::handle::Client;
use super::one::One;
use super::read;
use crate::config::spec::Timeout;
use crate::error::{BoxError, CallId, Error, Kind};
use crate::format;
use crate::message::answer::Answer;
use crate::pipeline::step::status::refuse;
use crate::upstream::Timeouts;

/// The characters that a query need not encode (RFC 3986, 2.3).
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A call that is put together: [`Client::get`](crate::Client::get) and [`Client::call`](crate::Client::call) begin one.
///
/// A mistake in it (in a URL, a header field) is the error of its answer, [`Kind::InvalidCall`].
///
/// ```
/// use std::time::Duration;
/// use crocodile_pear::{Client, Error};
/// use http::Method;
///
/// #[derive(serde::Serialize)]
/// struct Order { item: u64 }
/// #[derive(serde::Deserialize)]
/// struct Ordered { id: u64 }
///
/// async fn order(client: &Client) -> Result<u64, Error> {
///     let ordered: Ordered = client
///         .call(Method::POST, "http://127.0.0.1:9000/orders")
///         .header("x-shop", "lund")
///         .json(&Order { item: 7 })
///         .timeout(Duration::from_secs(2))
///         .as_json()
///         .await?;
///     Ok(ordered.id)
/// }
/// ```
#[must_use = "nothing is called before its answer is awaited"]
pub struct Call {
    client: Client,
    method: Method,
    url: Result<Uri, Error>,
    headers: HeaderMap,
    body: Option<Body>,
    timeouts: Limits,
    name: Option<Arc<str>>,
    most: usize,
}

/// The timeouts that the call sets.
#[derive(Clone, Copy, Default)]
struct Limits {
    whole: Option<Duration>,
    first_byte: Option<Duration>,
    idle: Option<Duration>,
}

impl Limits {
    fn change(self) -> Option<TimeoutChange> {
        let Limits { whole, first_byte, idle } = self;
        whole.or(first_byte).or(idle)?;
        Some(Box::new(move |own: &Timeouts| Timeouts {
            connect: own.connect,
            first_byte: first_byte.map_or(own.first_byte, Timeout::After),
            idle: idle.map_or(own.idle, Timeout::After),
            call: whole.map_or(own.call, Timeout::After),
        }))
    }
}

impl Call {
    pub(super) fn new(client: Client, method: Method, url: Result<Uri, Error>) -> Self {
        let (headers, body, timeouts, name) = (HeaderMap::new(), None, Limits::default(), None);
        Call { client, method, url, headers, body, timeouts, name, most: MAX_BODY }
    }

    pub(super) fn of_request(client: Client, request: http::Request<Body>) -> Self {
        let (head, body) = request.into_parts();
        let url = super::servers::url(&head.uri.to_string());
        let client = Client { extensions: merged(client.extensions, head.extensions), ..client };
        Call { headers: head.headers, body: Some(body), ..Call::new(client, head.method, url) }
    }

    fn spoil(mut self, error: impl Into<BoxError>, what: &str) -> Self {
        let error = error.into();
        let detail = format!("{what}: {error}");
        self.url = self.url.and(Err(Error::new(Kind::InvalidCall, detail).with_source(error)));
        self
    }

    /// Adds a header field. It replaces one of the same name that the settings of the upstream add.
    pub fn header<N, V>(mut self, name: N, value: V) -> Self
    where
        N: TryInto<HeaderName, Error: Into<BoxError>>,
        V: TryInto<HeaderValue, Error: Into<BoxError>>,
    {
        match (name.try_into(), value.try_into()) {
            (Ok(name), Ok(value)) => {
                self.headers.append(name, value);
                self
            }
            (Err(error), _) => self.spoil(error, "the name of a header field is not valid"),
            (_, Err(error)) => self.spoil(error, "the value of a header field is not valid"),
        }
    }

    /// Adds several header fields.
    pub fn headers(mut self, fields: HeaderMap) -> Self {
        let mut last = None;
        for (name, value) in fields {
            last = name.or(last);
            if let Some(name) = &last {
                self.headers.append(name.clone(), value);
            }
        }
        self
    }

    /// Adds `authorization: Bearer …`.
    pub fn bearer(self, token: &str) -> Self {
        match HeaderValue::try_from(format!("Bearer {token}")) {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.header(AUTHORIZATION, value)
            }
            // Without the token, which belongs into no log.
            Err(_) => self.spoil("it has characters that no header field may have", "the token is not valid"),
        }
    }

    /// Adds a parameter to the query, percent-encoded.
    ///
    /// ```
    /// # use crocodile_pear::Client;
    /// let call = Client::new().get("http://127.0.0.1:9000/weather").query("q", "Lund,SE").query("days", 3);
    /// assert_eq!(call.url().unwrap(), "http://127.0.0.1:9000/weather?q=Lund%2CSE&days=3");
    /// ```
    pub fn query(mut self, name: &str, value: impl fmt::Display) -> Self {
        let Ok(url) = &self.url else { return self };
        let text = url.to_string();
        let sign = if url.query().is_some() { '&' } else { '?' };
        let (name, value) = (name.to_owned(), value.to_string());
        let (name, value) = (utf8_percent_encode(&name, QUERY), utf8_percent_encode(&value, QUERY));
        self.url = super::servers::url(&format!("{text}{sign}{name}={value}"));
        self
    }

    /// The URL, if it is valid.
    pub fn url(&self) -> Option<&Uri> {
        self.url.as_ref().ok()
    }

    /// Sends a body. Bytes are sent again if the call is retried.
    pub fn body(self, body: impl Into<Body>) -> Self {
        Call { body: Some(body.into()), ..self }
    }

    /// Sends a value as JSON.
    pub fn json(self, body: &(impl Serialize + ?Sized)) -> Self {
        match Body::json(body) {
            Ok(json) if self.headers.contains_key(CONTENT_TYPE) => self.body(json),
            Ok(json) => self.header(CONTENT_TYPE, HeaderValue::from_static("application/json")).body(json),
            Err(error) => Call { url: self.url.and(Err(error)), ..self },
        }
    }

    /// How long the whole call may take, instead of what its upstream has.
    pub fn timeout(mut self, whole: Duration) -> Self {
        self.timeouts.whole = Some(whole);
        self
    }

    /// How long it may take from the request to the head of the answer, instead of what its upstream has.
    pub fn first_byte_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.first_byte = Some(limit);
        self
    }

    /// How long the body may pause, instead of what its upstream has.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.timeouts.idle = Some(limit);
        self
    }

    /// Gives the call a name, which its errors and spans have.
    pub fn name(self, name: &str) -> Self {
        Call { name: Some(name.into()), ..self }
    }

    /// The most bytes of the body that are read whole: 16 MiB ([`MAX_BODY`](crate::MAX_BODY)) unless this says otherwise.
    pub fn max_body(self, most: usize) -> Self {
        Call { most, ..self }
    }

    /// The answer as this type: JSON, or another format that its content type names (XML, CSV, NDJSON, YAML, MessagePack, a
    /// form), read as JSON. A status other than 2xx is an error, which has the status.
    pub fn as_json<T: DeserializeOwned + Send + 'static>(self) -> One<T> {
        let most = self.most;
        self.one(async move |answer| read::value(answer, most).await)
    }

    /// The whole body as bytes, decompressed. A status other than 2xx is an error.
    pub fn bytes(self) -> One<Bytes> {
        let most = self.most;
        self.one(async move |answer| Ok(whole(answer, most).await?.into_body()))
    }

    /// The whole body as text. A status other than 2xx is an error.
    pub fn text(self) -> One<String> {
        self.bytes().try_map(|bytes| {
            let unfit = |error| Error::new(Kind::Malformed, "the answer is not UTF-8").caused_by(error);
            String::from_utf8(bytes.into()).map_err(unfit)
        })
    }

    /// The answer in a form of one's own: the closure gets its header fields and its whole body, decompressed. A status other
    /// than 2xx is an error.
    ///
    /// ```
    /// # use crocodile_pear::{Client, Error, One};
    /// fn length(client: &Client) -> One<usize> {
    ///     client.get("http://127.0.0.1:9000/image").decode(|_, body| Ok::<_, Error>(body.len()))
    /// }
    /// ```
    pub fn decode<T: Send + 'static, E: Into<BoxError>>(
        self,
        read: impl FnOnce(&HeaderMap, Bytes) -> Result<T, E> + Send + 'static,
    ) -> One<T> {
        let most = self.most;
        self.one(async move |answer| {
            let (head, body) = whole(answer, most).await?.into_parts();
            guard::attempt(|| read(&head.headers, body))
        })
    }

    /// The answer with its head and its whole body, whatever its status.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), crocodile_pear::Error> {
    /// use std::time::Duration;
    /// use crocodile_pear::Client;
    /// use http::HeaderMap;
    ///
    /// let answer = Client::new()
    ///     .get("http://127.0.0.1:9000/users/api/users/7")
    ///     .headers(HeaderMap::new())
    ///     .bearer("token")
    ///     .first_byte_timeout(Duration::from_secs(1))
    ///     .idle_timeout(Duration::from_secs(5))
    ///     .max_body(1 << 20)
    ///     .whole()
    ///     .await?;
    /// println!("{}: {} bytes", answer.status(), answer.body().len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn whole(self) -> One<Response<Bytes>> {
        let most = self.most;
        self.one(async move |answer| collect(answer, most).await)
    }

    /// Makes the call, and gives the answer when its head is there, whatever its status. Its body streams as it comes, however
    /// long it is; an error in it has the URL of the call.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn send(self) -> Result<Response<Pulled>, Error> {
        let id = CallId { index: 0, name: self.name.clone() };
        let url = self.url.clone();
        let answer = self.answer(&id).await?;
        let status = answer.status;
        let body = BodyWithCall { body: answer.body.into_pulled()?, url: url.ok(), id, status };
        let mut response = Response::new(Pulled::new(Box::pin(body)));
        *response.status_mut() = status;
        *response.headers_mut() = answer.headers.into_map();
        Ok(response)
    }

    fn one<T: Send + 'static, F>(self, read: impl FnOnce(Answer) -> F + Send + 'static) -> One<T>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let client = self.client.clone();
        let one = One::new(self.name.clone(), async move |id: CallId| {
            let url = self.url.clone();
            let answer = self.answer(&id).await?;
            let read = read(answer).await;
            read.map_err(|error| url.into_iter().fold(error, Error::at_url).at_call(id))
        });
        one.with_client(client)
    }

    /// Makes the call.
    ///
    /// # Errors
    /// Why there is no answer, with the URL and the place of the call.
    pub(super) async fn answer(self, id: &CallId) -> Result<Answer, Error> {
        let url = self.url.map_err(|error| error.at_call(id.clone()))?;
        let (method, headers, body) = (self.method, self.headers, self.body.and_then(Body::into_message));
        let ready = PreparedRequest { method, url, headers, body, timeouts: self.timeouts.change() };
        send(&self.client, ready, id).await
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn named(&self) -> Option<Arc<str>> {
        self.name.clone()
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }
}

fn merged(mut own: http::Extensions, more: http::Extensions) -> http::Extensions {
    own.extend(more);
    own
}

/// The whole answer, if its status is 2xx.
async fn whole(answer: Answer, most: usize) -> Result<Response<Bytes>, Error> {
    match answer.is_usable() {
        true => collect(answer, most).await,
        false => Err(refuse(answer).await),
    }
}

async fn collect(answer: Answer, most: usize) -> Result<Response<Bytes>, Error> {
    let status = answer.status;
    let told = |error: Error| error.answered(status);
    let answer = format::plain(answer).map_err(told)?;
    let mut response = Response::new(answer.body.collect(most).await.map_err(told)?);
    *response.status_mut() = status;
    *response.headers_mut() = answer.headers.into_map();
    Ok(response)
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("method", &self.method).field("url", &self.url).finish_non_exhaustive()
    }
}
