//! Many HTTP calls out, one answer back, streamed as the parts arrive.
//!
//! ```
//! # #[derive(serde::Deserialize)] struct User { name: String }
//! # use crocodile_pear::{Client, Error};
//! # async fn names(client: &Client, api: &'static str, ids: Vec<u64>) -> Result<Vec<(u64, String)>, Error> {
//! # let c = client.clone();
//! client.items(ids)
//!     .call(20, move |id| c.get(format!("{api}/users/{id}")).as_json::<User>())
//!     .map(|(id, user)| (id, user.name))
//!     .ordered()
//!     .try_collect().await
//! # }
//! ```
//!
//! That is a call for each id, 20 at once, typed, in order; the first failure cancels the rest. A [`Client`] makes
//!
//! - **one call**: [`get`](Client::get) or [`call`](Client::call), then [`as_json`](Call::as_json), [`text`](Call::text),
//!   [`list`](Call::list) for the items of a list while it arrives, or [`send`](Call::send) for a body of any size;
//! - **several at once**: [`join`](Client::join), each with its own type, timeout and [fallback](One::otherwise);
//! - **many, with a bound**: [`items`](Client::items) and [`stream`](Client::stream), then [`call`](Items::call),
//!   [`map`](Items::map), [`then`](Items::then), a [`Step`] of your own;
//! - **a pipeline of the gateway's steps**: [`request`](Client::request) or, from YAML, [`read`](Client::read).
//!
//! No call is made before a result is polled, no byte is read before somebody asks for it, and dropping a result cancels every
//! call behind it. Everything runs on the Tokio runtime that awaits it. Responses are those of the crate
//! [`http`](https://docs.rs/http), with a body that implements [`http_body::Body`](https://docs.rs/http-body): axum, hyper and
//! tower send them as they are.
//!
//! [`Client::builder`] has the settings: upstreams with timeouts, retries, breakers and caches ([`Upstream`]), what happens
//! [`before`](ClientBuilder::before) each call, a [`transport`](ClientBuilder::transport) of your own such as a mock, and an
//! [observer](Observe). Each call is a `tracing` span with the target `crocodile_pear::call` and the fields that OpenTelemetry
//! has for HTTP clients.
//!
//! # Steps
//!
//! The methods of [`Pipeline`] have the names that the steps have in a configuration of the gateway. Its items are JSON;
//! [`Pipeline::items`] and [`Items::into_pipeline`] lead from one face of the engine to the other.
//!
//! | step | method | what it does |
//! |---|---|---|
//! | `request`, first | [`Client::request`] | makes calls, all at the same time |
//! | `requests` | [`Client::requests`] | the same, each with a name |
//! | `request`, later | [`request_each`](Pipeline::request_each) | makes a call for each item |
//! | `each` | [`each`](Pipeline::each) | makes an item of each item of a list |
//! | `follow` | [`follow`](Pipeline::follow) | fetches what a link in an item leads to |
//! | `transform` | [`map`](Pipeline::map) | makes a new body of each item's |
//! | | [`transform`](Pipeline::transform) | the same with status and header fields |
//! | `select` | [`select`](Pipeline::select) | keeps some fields of an item |
//! | `dedupe` | [`dedupe`](Pipeline::dedupe) | keeps one item for each key |
//! | `merge` | [`merge`](Pipeline::merge) | makes one value of all answers |
//! | `sql` | [`Client::database`], [`sql`](Pipeline::sql) | runs a statement in PostgreSQL |
//! | `convert` | [`convert`](Pipeline::convert) | writes the answer as CSV, XML, NDJSON, ... |
//! | `concatenate` | [`concatenate_json`](Pipeline::concatenate_json), [`_ndjson`](Pipeline::concatenate_ndjson), [`_events`](Pipeline::concatenate_events) | makes one answer of all items |
//! | `timer` | [`timer`](Pipeline::timer) | logs when each message passes |
//! | `respond` | in YAML alone | sets the response's status, fields and body |
//!
//! Where a configuration has a jq expression, a method takes a closure over your own types, or [`jq()`]. A step that needs
//! more settings than its method has is a value of [`steps`], given to [`Pipeline::step`].
//!
//! A pipeline can also be read from YAML: [`Client::read`] compiles the text once, [`Prepared::answer`] runs it for any
//! number of requests.
//!
//! # Errors
//!
//! - A call, a closure or a step that fails is an [`Error`]: its [kind](Error::kind), [URL](Error::url), [place](Error::call) among
//!   the calls, the [status](Error::upstream_status) that the upstream answered, and the
//!   [cause](std::error::Error::source) (of the socket, of TLS, of the parser). An item that failed is an error in its place,
//!   never a row; the other items are not affected. A panic of a closure is the failure of its item.
//! - A response that fails before its head is a problem document (RFC 9457) with a status from one table
//!   ([`Kind::status`]), and has the error in its extensions. After the head, its body ends with an [`Error`].
//!   [`Error::from_document`] reads a problem document back.
//! - What is wrong in a pipeline of steps itself (an unknown name, an expression that does not parse, steps in an order that
//!   cannot work) is [`Faults`]: all of it at once, from [`Pipeline::check`] or [`Client::read`], before any call is made.
//!
//! # Bounds
//!
//! - A step that reads a body whole reads 16 MiB at most ([`MAX_BODY`]); its documentation says when it does. Other bodies
//!   stream through, however long they are.
//! - A list of [`each`](Pipeline::each) has at most 1000 items, unless its `limit` says otherwise. [`Call::list`] has no limit.
//! - [`follow`](Pipeline::follow) goes only to the servers of its pipeline's own first calls, and to named upstreams.
//! - A connection must be there after 3 s, the head of an answer after 30 s, a whole call after 5 min. A body may pause for
//!   30 s. [`Upstream`] and [`Call::timeout`] change that.
//! - A client remembers the connections of a hundred servers besides those that it is calling.
//! - Large documents are parsed and evaluated on helper threads, so they do not block the runtime.
//!
//! # Features
//!
//! All but `aws-lc-rs` are on by default. A pipeline that needs one that is off is refused when it is compiled; a body in such
//! a format or coding fails, and its error names the feature.
//!
//! | feature | what it is for |
//! |---|---|
//! | `tls` | `https`, with the default provider of rustls that the program installs |
//! | `ring`, `aws-lc-rs` | the same with this cryptography, unless the program installs a default provider |
//! | `http2` | HTTP/2 with upstreams |
//! | `dns` | a DNS resolver with a cache, SRV records and name servers that you choose; without it, the system looks names up |
//! | `cache` | answers of upstreams are kept (RFC 9111); without it, answers still tell caches downstream how they may be kept |
//! | `gzip`, `brotli`, `zstd` | answers in these content codings; `gzip` is also deflate |
//! | `jq` | jq expressions; closures, and paths to a list (`.orders[]`), do without |
//! | `yaml` | pipelines and bodies in YAML |
//! | `csv`, `xml` | bodies in these formats, read and written |
//! | `charsets` | texts in other character sets than UTF-8; part of `xml` |
//! | `postgres` | the step `sql`; with `tls` |
//! | `simd` | JSON is read by the vector instructions that the machine has |
//!
//! # Examples
//!
//! Whole programs, from the folder `examples` of this crate. `cargo run -p crocodile-pear --example NAME` runs one.
//!
//! <details><summary><code>hello</code>: one call, typed</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/hello.rs"), "```")]
//! </details>
//!
//! <details><summary><code>page</code>: three calls merged in a handler of axum, with an error type of one's own</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/page.rs"), "```")]
//! </details>
//!
//! <details><summary><code>users</code>: 200 ids, 20 at once, in order and by arrival</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/users.rs"), "```")]
//! </details>
//!
//! <details><summary><code>signed</code>: signatures, and an async step</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/signed.rs"), "```")]
//! </details>
//!
//! <details><summary><code>mock</code>: a test without sockets, with a paused clock</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/mock.rs"), "```")]
//! </details>
//!
//! <details><summary><code>failures</code>: every failure matched on</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/failures.rs"), "```")]
//! </details>
//!
//! <details><summary><code>runtimes</code>: the same client on every kind of runtime</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/runtimes.rs"), "```")]
//! </details>
//!
//! <details><summary><code>observed</code>: settings, metrics and traces</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/observed.rs"), "```")]
//! </details>
//!
//! <details><summary><code>streams</code>: server-sent events, NDJSON, a gigabyte up and down</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/streams.rs"), "```")]
//! </details>
//!
//! <details><summary><code>weather</code>: an endpoint in axum, with steps</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/weather.rs"), "```")]
//! </details>
//!
//! <details><summary><code>dashboard</code>: a pipeline from YAML, served with hyper alone</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/dashboard.rs"), "```")]
//! </details>
//!
//! <details><summary><code>inbox</code>: a command-line program that prints NDJSON while it makes 314 calls</summary>
//!
#![doc = concat!("```no_run\n", include_str!("../examples/inbox.rs"), "```")]
//! </details>

// Only the gateway sees the floors: their docs say what a name does not. What programs see is documented whole.
#![allow(missing_docs)]
// Without a feature, some of what it uses is left.
#![cfg_attr(
    not(all(
        feature = "brotli",
        feature = "cache",
        feature = "charsets",
        feature = "csv",
        feature = "dns",
        feature = "gzip",
        feature = "http2",
        feature = "jq",
        feature = "postgres",
        feature = "simd",
        feature = "tls",
        feature = "xml",
        feature = "yaml",
        feature = "zstd"
    )),
    allow(dead_code, unreachable_code, unreachable_patterns, unused_imports, unused_variables)
)]

mod cache;
#[warn(missing_docs)]
mod client;
mod config;
#[cfg(feature = "postgres")]
mod database;
#[cfg(not(feature = "postgres"))]
#[path = "database/absent.rs"]
mod database;
#[warn(missing_docs)]
mod error;
mod format;
mod http;
mod hypermedia;
mod jq;
mod json;
mod message;
mod net;
mod offload;
mod pipeline;
mod request;
mod resilience;
mod runtime;
mod telemetry;
mod template;
pub mod unstable;
mod upstream;

pub use client::{
    Body, Call, Client, ClientBuilder, Code, Cx, Expression, Faults, IntoExpression, IntoItems, IntoSelect, ItemStream,
    Items, Join, Jq, MAX_BODY, Observe, One, Parts, Pipeline, Prepared, Problem, Pulled, Request, Source, Step,
    Upstream, Whole, jq, select, steps,
};
pub use error::{BoxError, CallId, Error, Fault, Kind};
// Macros stand at the root of their crate.
pub(crate) use crocodile_pear_spec::{choice, spec};
