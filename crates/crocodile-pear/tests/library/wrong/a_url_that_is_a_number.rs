// says: the trait bound `http::uri::Uri: std::convert::From<{integer}>` is not satisfied
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let _ = Client::new().get(7);
}
