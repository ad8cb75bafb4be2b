// says: expected `One
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let c = Client::new();
    let _ = c.clone().items([1]).call(20, move |id| c.get(format!("http://a/{id}")));
}
