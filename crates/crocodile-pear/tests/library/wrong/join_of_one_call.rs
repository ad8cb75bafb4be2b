// says: cannot be joined
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let c = Client::new();
    let _ = c.join(c.get("http://a/").as_json::<u8>());
}
