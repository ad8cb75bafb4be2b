// says: mismatched types
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let _ = Client::new().get("http://a/").as_json::<u8>().otherwise("none");
}
