//! The inbound side: one runtime and one listener per core, and the protocols behind one handler.
//!
//! `listen` binds the addresses, `accept` accepts connections, `tls` does handshakes, `io` reads and writes the bytes of
//! a connection, `http1` and `http2` are the protocols. They pass a [`ClientRequest`] to the handler and get a
//! [`Reply`] back.

mod accept;
mod challenge;
mod copy;
pub mod grpc;
mod handler;
mod handover;
mod http1;
mod http2;
mod idle;
mod interim;
mod io;
mod listen;
pub(crate) mod min_rate_spec;
#[cfg(test)]
mod model;
mod occupancy;
mod outgoing;
mod pace;
mod provider;
mod relay;
mod reply;
mod request;
mod settings;
mod shared;
mod shutdown;
mod tls;
mod unix;

pub use accept::serve;
pub use challenge::{Challenges, http_file, tls_file};
pub use crocodile_pear::unstable::http::http1::request::Refusal;
pub use handler::Handler;
pub use handover::Handover;
pub use listen::{ListenerSettings, Listeners, Redirect, Unbound};
pub use pace::MinRate;
pub use reply::{Ending, Observer, Reply, ResponseEnd, Unfinished};
pub use request::{ClientRequest, Connection, NoMinimumRate};
pub use settings::Settings;
pub use shutdown::Shutdown;
pub use tls::{Acquired, ClientTrust, Day, Demand, Distrust, Identity, Overdue, Secured, Setup, Tls, Unfit};
pub use unix::Mode;
