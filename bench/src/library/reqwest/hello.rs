//! `hello` with reqwest.

#[derive(serde::Deserialize)]
struct User {
    name: String,
}

pub async fn name(url: &str) -> Result<String, reqwest::Error> {
    let user: User = reqwest::get(url).await?.error_for_status()?.json().await?;
    Ok(user.name)
}
