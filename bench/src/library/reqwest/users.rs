//! `users` with reqwest and futures.

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use reqwest::{Client, Error};

#[derive(serde::Deserialize)]
struct User {
    name: String,
}

async fn user(client: Client, api: String, id: u64) -> Result<(u64, String), Error> {
    let answer = client.get(format!("{api}/users/{id}")).send().await?.error_for_status()?;
    Ok((id, answer.json::<User>().await?.name))
}

pub async fn names(client: &Client, api: &str, ids: Vec<u64>) -> Result<Vec<(u64, String)>, Error> {
    let calls = stream::iter(ids).map(|id| user(client.clone(), api.to_owned(), id));
    calls.buffered(20).try_collect().await
}

pub fn arriving(client: &Client, api: &str, ids: Vec<u64>) -> impl Stream<Item = Result<(u64, String), Error>> {
    let (client, api) = (client.clone(), api.to_owned());
    stream::iter(ids).map(move |id| user(client.clone(), api.clone(), id)).buffer_unordered(20)
}
