// says: Deserialize
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    #[derive(serde::Deserialize)]
    struct User<'a> {
        name: &'a str,
    }
    let _ = Client::new().get("http://a/").as_json::<User<'_>>();
}
