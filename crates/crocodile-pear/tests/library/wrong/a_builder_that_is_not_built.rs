// says: unused `ClientBuilder` that must be used
#![allow(unused_imports, unused_variables, dead_code)]
#![deny(unused_must_use)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    Client::builder().user_agent("a");
}
