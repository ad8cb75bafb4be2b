//! A single value that is still to come.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;

use super::answer::failure;
use super::body::Pulled;
use super::guard;
use super::handle::Client;
use crate::error::{BoxError, CallId, Error, Kind};
use crate::telemetry::timeline::passed;

/// How a value comes about, once its place is known.
type ValueMaker<T> = Box<dyn FnOnce(CallId) -> BoxFuture<'static, Result<T, Error>> + Send>;

/// A single value that is still to come: of a call, of several, or of a future. `.await` gives it.
///
/// The calls begin when it is awaited. Dropping the future cancels the calls behind it.
///
/// ```
/// # use crocodile_pear::{Client, Error};
/// #[derive(serde::Deserialize)]
/// struct Order { total: f64 }
///
/// async fn total(client: &Client) -> Result<f64, Error> {
///     let orders = client.get("http://127.0.0.1:9000/orders").as_json::<Vec<Order>>();
///     orders.map(|orders| orders.iter().map(|order| order.total).sum()).await
/// }
/// ```
#[must_use = "nothing is called before it is awaited"]
pub struct One<T> {
    run: ValueMaker<T>,
    name: Option<Arc<str>>,
    client: Option<Client>,
}

impl<T: Send + 'static> One<T> {
    pub(super) fn new<F>(name: Option<Arc<str>>, run: impl FnOnce(CallId) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        One { run: Box::new(|id| Box::pin(run(id))), name, client: None }
    }

    /// A value that is there, to stand beside calls.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), crocodile_pear::Error> {
    /// use crocodile_pear::{Client, One};
    ///
    /// let (one, two) = Client::new().join((One::of(1), One::of("two"))).await?;
    /// assert_eq!((one, two), (1, "two"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(value: T) -> Self {
        One::new(None, async move |_| Ok(value))
    }

    /// The value of a future, to stand beside calls.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), crocodile_pear::Error> {
    /// use std::time::Duration;
    /// use crocodile_pear::{Error, One};
    ///
    /// let late = One::from_future(async {
    ///     std::future::pending::<()>().await;
    ///     Ok::<u32, Error>(1)
    /// });
    /// let value = late.within(Duration::from_millis(1)).or_else(|_| Ok::<u32, Error>(2)).await?;
    /// assert_eq!(value, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_future<E: Into<BoxError> + 'static>(
        future: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Self {
        One::new(None, |_| guard::wait(future))
    }

    /// Starts it, as the call with this index.
    pub(super) fn start(self, index: u64) -> BoxFuture<'static, Result<T, Error>> {
        (self.run)(CallId { index, name: self.name })
    }

    fn next<U: Send + 'static, F>(self, next: impl FnOnce(Result<T, Error>) -> F + Send + 'static) -> One<U>
    where
        F: Future<Output = Result<U, Error>> + Send + 'static,
    {
        let (run, client) = (self.run, self.client);
        One { client, ..One::new(self.name, async move |id| next(run(id).await).await) }
    }

    pub(super) fn with_client(self, client: Client) -> Self {
        One { client: Some(client), ..self }
    }

    pub(super) fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// Gives the call a name, which its errors and spans have.
    pub fn name(self, name: &str) -> Self {
        One { name: Some(name.into()), ..self }
    }

    /// If it fails for whatever reason, this value stands in its place. The failure is logged at the level debug.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), crocodile_pear::Error> {
    /// use crocodile_pear::Client;
    ///
    /// let news = Client::new().get("http://127.0.0.1:1/news").as_json::<Vec<String>>();
    /// assert_eq!(news.otherwise(vec![]).await?, Vec::<String>::new());
    /// # Ok(())
    /// # }
    /// ```
    pub fn otherwise(self, value: T) -> Self {
        self.or_else(move |error| {
            tracing::debug!(target: "crocodile_pear::client", %error, "a call failed; its fallback is used");
            Ok::<T, Error>(value)
        })
    }

    /// If it fails, the closure decides what stands in its place.
    pub fn or_else<E: Into<BoxError>>(self, or: impl FnOnce(Error) -> Result<T, E> + Send + 'static) -> Self {
        self.next(async move |outcome| match outcome {
            Ok(value) => Ok(value),
            Err(error) => guard::attempt(|| or(error)),
        })
    }

    /// Makes another value of it.
    pub fn map<U: Send + 'static>(self, map: impl FnOnce(T) -> U + Send + 'static) -> One<U> {
        self.next(async move |outcome| {
            let value = outcome?;
            guard::call(|| map(value))
        })
    }

    /// The same with a closure that may fail.
    pub fn try_map<U: Send + 'static, E: Into<BoxError>>(
        self,
        map: impl FnOnce(T) -> Result<U, E> + Send + 'static,
    ) -> One<U> {
        self.next(async move |outcome| {
            let value = outcome?;
            guard::attempt(|| map(value))
        })
    }

    /// The same with a future: another call, a query of a database.
    ///
    /// ```
    /// # use crocodile_pear::{Client, Error};
    /// # #[derive(serde::Deserialize)] struct Order { user: u64 }
    /// # #[derive(serde::Deserialize)] struct User { name: String }
    /// async fn buyer(client: Client) -> Result<User, Error> {
    ///     let order = client.get("http://127.0.0.1:9000/orders/7").as_json::<Order>();
    ///     order.then(async move |order| {
    ///         client.get(format!("http://127.0.0.1:9000/users/{}", order.user)).as_json().await
    ///     }).await
    /// }
    /// ```
    pub fn then<U: Send + 'static, E: Into<BoxError>, F>(self, then: impl FnOnce(T) -> F + Send + 'static) -> One<U>
    where
        F: Future<Output = Result<U, E>> + Send + 'static,
    {
        self.next(async move |outcome| {
            let value = outcome?;
            let future = guard::call(|| then(value))?;
            guard::wait(future).await
        })
    }

    /// Fails as a timeout, if the value is not there in time.
    pub fn within(self, limit: Duration) -> Self {
        let (run, client) = (self.run, self.client);
        let within =
            One::new(self.name, async move |id: CallId| match tokio::time::timeout(limit, run(id.clone())).await {
                Ok(outcome) => outcome,
                Err(elapsed) => {
                    Err(Error::new(Kind::Timeout, "the value was not there in time").caused_by(elapsed).at_call(id))
                }
            });
        One { client, ..within }
    }

    /// Logs one line when the value is there or has failed, by [`tracing`](https://docs.rs/tracing) with the target
    /// `crocodile_pear::timer`.
    pub fn timer(self, label: &str) -> Self {
        let (run, client, label) = (self.run, self.client, label.to_owned());
        let timed = One::new(self.name, async move |id: CallId| {
            let (begun, index) = (tokio::time::Instant::now(), id.index);
            let outcome = run(id).await;
            passed(&label, index, begun.elapsed(), outcome.as_ref().map(drop).map_err(|error| error.kind().name()));
            outcome
        });
        One { client, ..timed }
    }

    /// The value; the same as `.await`.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn value(self) -> Result<T, Error> {
        self.start(0).await
    }

    /// The value as a response: JSON with the status 200. A failure is a problem document (RFC 9457) with the status that its
    /// kind has, and the [`Error`] in its extensions.
    pub async fn into_response(self) -> Response<Pulled>
    where
        T: Serialize,
    {
        self.try_into_response().await.unwrap_or_else(|error| failure(&error))
    }

    /// The same, but a failure is an [`Error`].
    ///
    /// # Errors
    /// Why there is no value.
    pub async fn try_into_response(self) -> Result<Response<Pulled>, Error>
    where
        T: Serialize,
    {
        let value = self.value().await?;
        let json = guard::call(|| serde_json::to_vec(&value))?
            .map_err(|error| Error::new(Kind::Closure, "the value cannot be JSON").caused_by(error))?;
        let mut response = Response::new(Pulled::of_bytes(json.into()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }
}

impl<T: Send + 'static> IntoFuture for One<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        self.start(0)
    }
}

impl<T> fmt::Debug for One<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("One").field("name", &self.name).finish_non_exhaustive()
    }
}
