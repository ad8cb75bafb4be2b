//! The server's side of a connection of HTTP/2.

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};

/// A request, and who answers it.
pub type Asked = (Request<RecvStream>, SendResponse<Bytes>);

/// Speaks it from the first byte on; each request goes to `serve`, which need not wait for the others.
pub async fn converse<T, F>(stream: T, builder: Builder, serve: impl Fn(Asked) -> F)
where
    T: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output: Send> + Send + 'static,
{
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok(asked)) = connection.accept().await {
        tokio::spawn(serve(asked));
    }
}
