//! Steps and sources of a program's own.

use std::borrow::Cow;

use futures_util::stream::Stream;
use http::Extensions;

use super::handle::Client;
use crate::error::{CallId, Error};

/// A step of one's own: async, typed, with a name for errors, timers and spans. [`Items::step`](crate::Items::step) takes one.
///
/// ```
/// use std::borrow::Cow;
/// use crocodile_pear::{Client, Cx, Error, Step};
/// use http::Response;
///
/// # #[derive(serde::Deserialize)] struct Order { user: u64, total: f64 }
/// # #[derive(serde::Deserialize)] struct User { name: String }
/// #[derive(serde::Serialize)]
/// struct Row { name: String, total: f64 }
///
/// /// Adds the name of the buyer, and leaves out what costs less.
/// struct Enrich { least: f64 }
///
/// impl Step<Order> for Enrich {
///     type Out = Row;
///
///     fn name(&self) -> Cow<'static, str> {
///         "enrich".into()
///     }
///
///     fn at_once(&self) -> usize {
///         8
///     }
///
///     async fn run(&self, order: Order, cx: &Cx) -> Result<Option<Row>, Error> {
///         let user = cx.client().get(format!("http://127.0.0.1:9000/users/{}", order.user));
///         let user: User = user.as_json().await?;
///         Ok((order.total >= self.least).then_some(Row { name: user.name, total: order.total }))
///     }
/// }
///
/// async fn rows(client: &Client) -> Response<crocodile_pear::Pulled> {
///     let orders = client.get("http://127.0.0.1:9000/orders").list::<Order>(".orders[]");
///     orders.step(Enrich { least: 10.0 }).into_ndjson().await
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no step for items of type `{In}`",
    label = "no step for `{In}`",
    note = "for a closure, write `.map(|item| …)`, `.try_map(…)` or `.then(20, async |item| …)`",
    note = "for a step of your own, write `impl Step<{In}> for …` with `name` and `run`"
)]
pub trait Step<In>: Send + Sync + 'static {
    /// The type that it makes of an item.
    type Out: Send + 'static;

    /// Its name, for [`Error::step`] and spans.
    fn name(&self) -> Cow<'static, str>;

    /// For how many items it runs at the same time.
    fn at_once(&self) -> usize {
        1
    }

    /// Makes another item of one; `None` leaves it out. An error or a panic is the failure of this item alone.
    fn run(&self, item: In, cx: &Cx) -> impl Future<Output = Result<Option<Self::Out>, Error>> + Send;
}

/// A source of one's own: a queue, a cursor of a database, the pages of an API. [`Client::source`](crate::Client::source)
/// takes one.
///
/// ```
/// use std::borrow::Cow;
/// use crocodile_pear::{Client, Cx, Error, Source};
/// use futures_util::stream::{self, Stream};
///
/// #[derive(serde::Deserialize)]
/// struct Page { ids: Vec<u64>, next: Option<String> }
///
/// /// The ids of all pages; a page is fetched when those before are used up.
/// struct Pages(String);
///
/// impl Source for Pages {
///     type Item = Vec<u64>;
///
///     fn name(&self) -> Cow<'static, str> {
///         "pages".into()
///     }
///
///     fn items(self, cx: Cx) -> impl Stream<Item = Result<Vec<u64>, Error>> + Send + 'static {
///         stream::try_unfold(Some(self.0), move |next| {
///             let client = cx.client().clone();
///             async move {
///                 let Some(url) = next else { return Ok(None) };
///                 let page: Page = client.get(url).as_json().await?;
///                 Ok(Some((page.ids, page.next)))
///             }
///         })
///     }
/// }
///
/// let ids = Client::new().source(Pages("http://127.0.0.1:9000/ids".into())).each(|ids| ids);
/// # drop(ids);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no source",
    note = "for values, write `client.items(values)`; for a stream of results, `client.stream(stream)`"
)]
pub trait Source: Send + 'static {
    /// The type of its items.
    type Item: Send + 'static;

    /// Its name, for [`Error::step`].
    fn name(&self) -> Cow<'static, str>;

    /// The items. Nothing is fetched before the stream is polled, and it is polled only when there is room for another item.
    fn items(self, cx: Cx) -> impl Stream<Item = Result<Self::Item, Error>> + Send + 'static;
}

/// The context of a step or a source.
///
/// ```
/// use crocodile_pear::Cx;
///
/// /// The number of an item, and the tenant for whom the program runs the pipeline.
/// fn describe(cx: &Cx) -> String {
///     let tenant: Option<&String> = cx.extensions().get();
///     format!("item {} for {tenant:?}", cx.id().index)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Cx {
    client: Client,
    id: CallId,
}

impl Cx {
    pub(super) fn new(client: Client, id: CallId) -> Self {
        Cx { client, id }
    }

    /// The client of the pipeline, to make calls.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The values that were given to [`Client::with`].
    pub fn extensions(&self) -> &Extensions {
        &self.client.extensions
    }

    /// Which item it is.
    pub fn id(&self) -> &CallId {
        &self.id
    }
}
