//! Upgrades between a client of HTTP/1.1 and an upstream of HTTP/2.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};

use crate::stage::client::exchange;
use crate::upgrade::scene::Scene;

/// Hints, then the request's body as the answer's, with its trailers and what it said of them in the head.
async fn answer(listener: std::net::TcpListener) -> Option<()> {
    listener.set_nonblocking(true).ok()?;
    let stream = tokio::net::TcpListener::from_std(listener).ok()?.accept().await.ok()?.0;
    let mut connection = h2::server::handshake(stream).await.ok()?;
    while let Some(asked) = connection.accept().await {
        let (request, mut respond) = asked.ok()?;
        tokio::spawn(async move {
            let hint = Response::builder().status(103).header("link", "</a.css>").body(()).ok()?;
            respond.send_informational(hint).ok()?;
            let said = request.headers().get("te").cloned().unwrap_or(HeaderValue::from_static("nothing"));
            let (mut body, mut bytes) = (request.into_body(), Vec::new());
            while let Some(data) = body.data().await {
                bytes.extend(data.ok()?);
            }
            let trailers = body.trailers().await.ok()?.unwrap_or_default();
            let head = Response::builder().header("x-te", said).body(()).ok()?;
            let mut stream = respond.send_response(head, false).ok()?;
            stream.send_data(Bytes::from(bytes), false).ok()?;
            let sum = HeaderMap::from_iter(trailers.into_iter().map(|(name, value)| (name.unwrap(), value)));
            stream.send_trailers(sum).ok()
        });
    }
    Some(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_and_trailers_pass_from_one_version_of_http_to_the_other() {
    let Scene { gateway, listener, .. } = Scene::with(|upstream| {
        format!(
            "listen: 127.0.0.1:0\nthreads: 1\nupstreams: {{ shop: {{ url: 'http://{upstream}', protocol: http2, forward: [x-sum] }} }}\n\
             endpoints: {{ POST /: shop / }}\n"
        )
    });
    tokio::spawn(answer(listener));
    for (te, said, end) in [("te: trailers\r\n", "trailers", "0\r\nx-sum: 3\r\n\r\n"), ("", "nothing", "0\r\n\r\n")] {
        let request = format!(
            "POST / HTTP/1.1\r\nhost: h\r\n{te}connection: close\r\ntransfer-encoding: chunked\r\n\r\n\
             3\r\none\r\n0\r\nx-sum: 3\r\n\r\n"
        );
        let address = gateway.address;
        let answer = tokio::task::spawn_blocking(move || exchange(address, request)).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\n"),
            "{answer}"
        );
        assert!(answer.contains(&format!("\r\nx-te: {said}\r\n")), "{answer}");
        assert!(answer.ends_with(&format!("\r\n3\r\none\r\n{end}")), "{answer}");
    }
}
