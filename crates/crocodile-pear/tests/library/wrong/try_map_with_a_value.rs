// says: expected `Result<
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let _ = Client::new().items([1]).try_map(|n: u8| n + 1);
}
