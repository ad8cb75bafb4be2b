//! A call for each of 200 ids, 20 at once: in the order of the ids, and as the answers arrive.
//!
//! `cargo run -p crocodile-pear --example users -- http://127.0.0.1:9000/users/api`, with the address of the API.

use crocodile_pear::{Client, Error, ItemStream};
use futures_util::TryStreamExt;

#[derive(serde::Deserialize)]
struct User {
    name: String,
}

/// The names of these users, in this order.
pub async fn names(client: &Client, api: &str, ids: Vec<u64>) -> Result<Vec<(u64, String)>, Error> {
    let (c, api) = (client.clone(), api.to_owned());
    client
        .items(ids)
        .call(20, move |id| c.get(format!("{api}/users/{id}")).as_json::<User>())
        .map(|(id, user)| (id, user.name))
        .ordered()
        .try_collect()
        .await
}

/// The same as a stream, as the answers arrive.
pub fn arriving(client: &Client, api: &str, ids: Vec<u64>) -> ItemStream<(u64, String)> {
    let (c, api) = (client.clone(), api.to_owned());
    client
        .items(ids)
        .call(20, move |id| c.get(format!("{api}/users/{id}")).as_json::<User>())
        .map(|(id, user)| (id, user.name))
        .into_stream()
}

#[allow(dead_code, clippy::print_stdout, reason = "a program prints; the tests have a server of their own")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let api = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000/users/api".to_owned());
    let client = Client::new();
    println!("{:?}", names(&client, &api, (1..=3).collect()).await?);
    let mut users = arriving(&client, &api, (1..=200).collect());
    while let Some((id, name)) = users.try_next().await? {
        println!("{id}: {name}");
    }
    Ok(())
}
