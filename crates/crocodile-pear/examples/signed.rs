//! Calls that are signed, by a token that is fetched first, and a step of one's own.
//!
//! `cargo run -p crocodile-pear --example signed -- http://127.0.0.1:9000`, with the address of the API.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::{Client, Cx, Error, Pulled, Step, Upstream};
use http::{HeaderValue, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

#[derive(Deserialize)]
struct Token {
    token: String,
}

#[derive(Deserialize)]
struct Order {
    user: u64,
    total: f64,
}

#[derive(Deserialize)]
struct User {
    name: String,
}

#[derive(Serialize)]
struct Row {
    name: String,
    total: f64,
}

/// A client whose calls have the token that the API gives, and a signature.
pub fn client(api: &str) -> Result<Client, Error> {
    let token = Arc::new(OnceCell::new());
    let login = format!("{api}/token");
    Client::builder()
        .upstream("api", Upstream::at(api).timeout(Duration::from_secs(2)).in_flight(20).retry(2))
        .before(move |mut request| {
            let (token, login) = (token.clone(), login.clone());
            async move {
                // Fetched once, by a client that does not sign.
                let fetch = async || Client::new().get(&*login).as_json::<Token>().await;
                let Token { token } = token.get_or_try_init(fetch).await?;
                let signature = format!("{token}:{}", request.uri().path());
                let signature = HeaderValue::try_from(signature).map_err(Error::of_program)?;
                request.headers_mut().insert("x-signature", signature);
                Ok(request)
            }
        })
        .build()
}

/// Adds the name of the buyer, and leaves out what costs less.
struct Enrich {
    api: String,
    least: f64,
}

impl Step<Order> for Enrich {
    type Out = Row;

    fn name(&self) -> Cow<'static, str> {
        "enrich".into()
    }

    fn at_once(&self) -> usize {
        8
    }

    async fn run(&self, order: Order, cx: &Cx) -> Result<Option<Row>, Error> {
        if order.total < self.least {
            return Ok(None);
        }
        let user: User = cx.client().get(format!("{}/users/{}", self.api, order.user)).as_json().await?;
        Ok(Some(Row { name: user.name, total: order.total }))
    }
}

/// A line of JSON for each order of at least 10, while the list still arrives.
pub async fn orders(client: &Client, api: &str) -> Response<Pulled> {
    client
        .get(format!("{api}/orders"))
        .list::<Order>(".orders[]")
        .step(Enrich { api: api.to_owned(), least: 10.0 })
        .timer("enriched")
        .into_ndjson()
        .await
}

#[allow(dead_code, clippy::print_stdout, reason = "a program prints; the tests have a server of their own")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let api = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000".to_owned());
    print!("{}", orders(&client(&api)?, &api).await.into_body().text().await?);
    Ok(())
}
