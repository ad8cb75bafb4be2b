// says: is no step for items of type
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let _ = Client::new().items([1]).step(|n: u8| n);
}
