// says: the trait bound `User: serde::de::DeserializeOwned` is not satisfied
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    struct User;
    let _ = Client::new().get("http://a/").as_json::<User>();
}
