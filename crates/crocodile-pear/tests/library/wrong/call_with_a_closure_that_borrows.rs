// says: use the `move` keyword
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let c = Client::new();
    let base = String::from("http://a");
    let _ = c.items([1]).call(20, |id| Client::new().get(format!("{base}/{id}")).as_json::<u8>());
}
