// says: write two to eight calls with their types
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let c = Client::new();
    let _ = c.join((c.get("http://a/"), c.get("http://b/")));
}
