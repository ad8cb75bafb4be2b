//! A pipeline that is read from YAML, behind hyper alone: three calls become one answer.
//!
//! `cargo run -p crocodile-pear --example dashboard -- http://127.0.0.1:9000`, with the APIs' address; the one
//! here is where `crocodile-pear demo` serves some. Then `curl http://127.0.0.1:3000/7`.

use std::convert::Infallible;
use std::sync::Arc;

use crocodile_pear::{Client, Faults, Prepared};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

const PIPELINE: &str = "
params: [user]
pipeline:
  - requests:
      user: users /api/users/{user}
      weather: { to: weather, path: '/data/2.5/weather?q=Lund,SE', otherwise: { main: {} } }
      news: { to: users, path: /nothing, otherwise: [] }
  - merge: '{name: $user.name, temperature: $weather.main.temp, news: $news}'
";

/// The pipeline over these APIs.
pub fn dashboard(apis: &str) -> Result<Prepared, Faults> {
    let client = Client::new();
    client.upstream("users", &format!("{apis}/users"))?;
    client.upstream("weather", &format!("{apis}/weather"))?;
    client.read(PIPELINE)
}

/// Serves it until the listener fails: the path is the user.
pub async fn serve(listener: TcpListener, prepared: Arc<Prepared>) -> std::io::Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        let prepared = prepared.clone();
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let prepared = prepared.clone();
            let user = request.uri().path().trim_start_matches('/').to_owned();
            async move { Ok::<_, Infallible>(prepared.answer(request, &[&user]).await) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    }
}

#[allow(dead_code, reason = "the tests serve it themselves")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let apis = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000".to_owned());
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    Ok(serve(listener, Arc::new(dashboard(&apis)?)).await?)
}
