// says: nothing is called before the response is awaited
#![allow(unused_imports, unused_variables, dead_code)]
#![deny(unused_must_use)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    Client::new().request(["http://a/"]);
}
