// says: the trait bound `Row: serde::Serialize` is not satisfied
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    struct Row;
    let _ = Client::new().items([Row]).into_json();
}
