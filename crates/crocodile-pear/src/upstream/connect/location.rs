//! Where a server is: as it is written, and ready.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use http::Uri;

use crate::config::problem::Problems;
use crate::config::spec::{Located, only};
use crate::net::url::url;
use crate::runtime::socket;
use crate::spec;

spec! {
    /// A server of an upstream. Short form: the URL.
    pub struct ServerSpec {
        /// Like `url` of an upstream.
        pub url: Located<String>,
        /// Like `socket` of an upstream.
        pub socket: Option<Located<String>>,
        /// Its share of the calls, relative to the weights of the other servers: 1 to 100.
        pub weight: NonZeroU32 = NonZeroU32::MIN,
    }
    short(server)
}

fn server(url: Located<String>, problems: &mut Problems) -> Option<ServerSpec> {
    only([("url", url)], problems)
}

/// Where a server is.
#[derive(Clone, Debug)]
pub struct Location {
    /// Scheme `http` or `https`, authority, base path.
    pub url: Uri,
    /// Its share of the calls, relative to those of the other servers.
    pub weight: u32,
    /// The Unix socket that it listens on, instead of the host and port of the URL.
    pub socket: Option<Arc<Path>>,
}

/// The name of a DNS service: `_http._tcp.example.com`.
#[derive(Clone, Debug)]
pub struct DnsService(pub Arc<str>);

/// How operators read where a Unix socket is.
pub(crate) fn place_of(path: &Path) -> Box<str> {
    format!("unix:{}", path.display()).into()
}

/// The round robin has one entry per unit of weight; a hundred is fine enough.
pub(crate) const MOST_WEIGHT: u32 = 100;

/// Every server.
pub(crate) fn servers(written: &[ServerSpec], problems: &mut Problems) -> Option<Vec<Location>> {
    let server = |written: &ServerSpec| {
        let weight = written.weight.get();
        if weight > MOST_WEIGHT {
            let message = format!("the weight {weight} is more than {MOST_WEIGHT}");
            problems.error::<()>(written.url.span, message, "weights are relative: make all of them smaller");
        }
        let (url, socket) = (url(&written.url, problems), unix(written.socket.as_ref(), problems));
        Some(Location { url: url?, weight, socket: socket? }).filter(|_| weight <= MOST_WEIGHT)
    };
    // All are read before a failure ends it, so that every problem is reported.
    let servers: Vec<_> = written.iter().map(server).collect();
    servers.into_iter().collect()
}

/// The Unix socket, if one is written.
fn unix(written: Option<&Located<String>>, problems: &mut Problems) -> Option<Option<Arc<Path>>> {
    let Some(written) = written else { return Some(None) };
    match socket::path(written.as_str()) {
        Ok(path) => Some(Some(path.into())),
        Err(_) if problems.found_within(written.span) => None,
        Err((message, remedy)) => problems.error(written.span, message, remedy),
    }
}
