//! Many HTTP calls out, one answer back, streamed as the parts arrive.
//!
//! A [`Client`] begins a [`Pipeline`]: calls to make, what to do with their answers, one response. The steps run side by
//! side: an item is handed on as soon as it is complete, nothing is read before somebody asks for it, and dropping the
//! response cancels every call behind it.
//!
//! ```no_run
//! use crocodile_pear::{Client, Parts};
//! use http_body_util::BodyExt;
//!
//! #[derive(serde::Deserialize)]
//! struct City {
//!     name: String,
//!     main: Weather,
//! }
//!
//! #[derive(serde::Deserialize)]
//! struct Weather {
//!     temp: f64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let api = "http://127.0.0.1:9000/weather/data/2.5/weather?q=";
//! let response = Client::new()
//!     .request(["Lund,SE", "Copenhagen,DK"].map(|city| format!("{api}{city}")))
//!     .map(|city: City| (city.name, city.main.temp))
//!     .concatenate_json(Parts::BodyOnly)
//!     .into_response()
//!     .await;
//! let body = response.into_body().collect().await?.to_bytes();
//! println!("{}", str::from_utf8(&body)?); // [["Copenhagen",282.4],["Lund",281.7]]
//! # Ok(())
//! # }
//! ```
//!
//! The response is an [`http::Response`](https://docs.rs/http/latest/http/struct.Response.html) whose body implements
//! [`http_body::Body`](https://docs.rs/http-body/latest/http_body/trait.Body.html): axum, hyper and tower send it as it
//! is. Everything runs on the Tokio runtime that awaits it.
//!
//! # Steps
//!
//! The methods of [`Pipeline`] have the names that the steps have in a configuration of the gateway.
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
//! - What is wrong in a pipeline itself (an unknown name, an expression that does not parse, steps in an order that cannot
//!   work) is [`Faults`]: all of it at once, from [`Pipeline::check`] or [`Client::read`], before any call is made.
//! - What goes wrong with one item (a call fails, a closure cannot read the item) is an [`Error`](error::Error) in the
//!   item's place. The other items are not affected. In a concatenated answer it stands as a problem document with its
//!   status.
//! - If the whole answer fails before its head, the response is a problem document (RFC 9457) with a status from one table
//!   ([`Kind::status`](error::Kind::status)). After the head, the body ends with an [`Error`](error::Error).
//!
//! # Bounds
//!
//! - A step that reads a body whole reads 16 MiB at most ([`MAX_BODY`]); its documentation says when it does. Other bodies
//!   stream through, however long they are.
//! - A list of [`each`](Pipeline::each) has at most 1000 items, unless its `limit` says otherwise.
//! - [`follow`](Pipeline::follow) goes only to servers that the client knows.
//! - A connection must be there after 3 s, the head of an answer after 30 s, a whole call after 5 min. A body may pause for
//!   30 s. The `timeouts` of an upstream in [`Client::read`] change that.
//! - Large documents are parsed and evaluated on helper threads, so they do not block the runtime.
//!
//! # Features
//!
//! All are on by default. A pipeline that needs one that is off is refused when it is compiled, or when an answer with
//! such a coding arrives.
//!
//! | feature | what it is for |
//! |---|---|
//! | `tls` | `https` |
//! | `postgres` | `sql`; with `tls` |
//! | `brotli`, `zstd` | answers in these content codings; gzip and deflate are always read |
//!
//! # Examples
//!
//! Three whole programs, from the folder `examples` of this crate. `cargo run -p crocodile-pear --example NAME` runs one.
//!
//! <details><summary><code>weather</code>: an endpoint in axum</summary>
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
//!
//! # Other modules
//!
//! The crate's other modules are public for the gateway's own crate alone. They may change at any time, and are not shown
//! here.

// Without a feature, some of what it uses is left.
#![cfg_attr(
    not(all(feature = "tls", feature = "postgres", feature = "brotli", feature = "zstd")),
    allow(dead_code, unused_imports)
)]

#[cfg_attr(doc, doc(hidden))]
pub mod cache;
mod client;
#[cfg_attr(doc, doc(hidden))]
pub mod config;
#[cfg(feature = "postgres")]
#[cfg_attr(doc, doc(hidden))]
pub mod database;
#[cfg(not(feature = "postgres"))]
#[path = "database/absent.rs"]
mod database;
pub mod error;
#[cfg_attr(doc, doc(hidden))]
pub mod format;
#[cfg_attr(doc, doc(hidden))]
pub mod http;
#[cfg_attr(doc, doc(hidden))]
pub mod hypermedia;
#[cfg_attr(doc, doc(hidden))]
pub mod jq;
#[cfg_attr(doc, doc(hidden))]
pub mod json;
#[cfg_attr(doc, doc(hidden))]
pub mod message;
#[cfg_attr(doc, doc(hidden))]
pub mod net;
#[cfg_attr(doc, doc(hidden))]
pub mod offload;
#[cfg_attr(doc, doc(hidden))]
pub mod pipeline;
#[cfg_attr(doc, doc(hidden))]
pub mod request;
#[cfg_attr(doc, doc(hidden))]
pub mod resilience;
#[cfg_attr(doc, doc(hidden))]
pub mod runtime;
#[cfg_attr(doc, doc(hidden))]
pub mod telemetry;
#[cfg_attr(doc, doc(hidden))]
pub mod template;
#[cfg_attr(doc, doc(hidden))]
pub mod upstream;

pub use client::{
    Client, Code, Faults, IntoExpression, IntoItems, IntoSelect, Jq, MAX_BODY, Parts, Pipeline, Prepared, Request,
    Whole, jq, select,
};
pub use config::problem::{Problem, Severity, Span};
pub use config::spec::{Expression, Located, Size};
pub use message::body::{Body, Pulled};
#[doc(inline)]
pub use pipeline::steps;
