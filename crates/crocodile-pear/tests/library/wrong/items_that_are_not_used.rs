// says: nothing is called before the items are asked for
#![allow(unused_imports, unused_variables, dead_code)]
#![deny(unused_must_use)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    Client::new().items([1]).map(|n| n + 1);
}
