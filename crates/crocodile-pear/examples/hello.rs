//! A typed call.
//!
//! `cargo run -p crocodile-pear --example hello -- http://127.0.0.1:9000/users/api/users/7`; the server here is that of
//! `crocodile-pear demo`.

use crocodile_pear::{Client, Error};

#[derive(serde::Deserialize)]
struct User {
    name: String,
}

/// The name of the user at this URL.
pub async fn name(url: &str) -> Result<String, Error> {
    let user: User = Client::new().get(url).as_json().await?;
    Ok(user.name)
}

#[allow(dead_code, clippy::print_stdout, reason = "a program prints; the tests have a server of their own")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000/users/api/users/7".to_owned());
    println!("Hello, {}!", name(&url).await?);
    Ok(())
}
