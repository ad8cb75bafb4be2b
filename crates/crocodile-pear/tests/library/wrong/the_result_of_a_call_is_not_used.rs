// says: nothing is called before it is awaited
#![allow(unused_imports, unused_variables, dead_code)]
#![deny(unused_must_use)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    Client::new().get("http://a/").as_json::<u8>();
}
