// says: `u8` is not an iterator
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let _ = Client::new().request(["http://a/"]).each(|n: u8| n);
}
