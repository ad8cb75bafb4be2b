// says: closure is expected to take 1 argument, but it takes 2 arguments
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let _ = Client::new().request(["http://a/"]).map(|a: u8, b: u8| a + b);
}
