//! The operators' listener: health and metrics, never on the clients' address.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use crocodile_pear::flow::Body;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};

use crate::live::Live;
use crate::metrics::cache;
use crate::respond;
use crate::server::{self, ClientRequest, Connection, Handler, Listeners, Refusal, Reply, Settings, Shutdown};

/// Serves operators on a thread of its own, until the process ends: they may watch how it does. `shutdown` is that of the
/// clients' listener.
///
/// # Errors
/// When the address cannot be listened on.
pub fn begin(address: SocketAddr, live: Arc<Live>, shutdown: Shutdown) -> Result<(), Box<dyn std::error::Error>> {
    let listeners = Listeners::bind(address, 1)?;
    tracing::info!("health and metrics on http://{}", listeners.address());
    let serve = move || -> io::Result<()> {
        let settings = Settings { max_connections: 64, stack: 2 << 20, ..Settings::default() };
        let admin = |_| Admin { live: live.clone(), shutdown: shutdown.clone() };
        server::serve(listeners, &settings, &Shutdown::default(), admin)
    };
    thread::Builder::new().name("admin".into()).spawn(serve)?;
    Ok(())
}

struct Admin {
    live: Arc<Live>,
    shutdown: Shutdown,
}

impl Handler for Admin {
    async fn handle(&self, request: ClientRequest) -> Reply {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return respond::other_method(&request.method, &[&Method::GET]).into();
        }
        let response = match request.target.path() {
            "/ready" if self.shutdown.leaves() => {
                let mut response = text("text/plain; charset=utf-8", "stopping\n".to_owned());
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response
            }
            "/ready" => text("text/plain; charset=utf-8", "ready\n".to_owned()),
            "/health" => text("text/plain; charset=utf-8", "ok\n".to_owned()),
            "/metrics" => {
                let gateway = self.live.current();
                let mut metrics = gateway.metrics().render(gateway.upstreams());
                cache::render(&gateway.cache().counters(), &mut metrics);
                text("text/plain; version=0.0.4", metrics)
            }
            _ => respond::not_found(),
        };
        response.into()
    }

    fn refuse(&self, refusal: Refusal, _: &Arc<Connection>) -> Reply {
        respond::refusal(&refusal).into()
    }
}

fn text(media: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::Bytes(Bytes::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
