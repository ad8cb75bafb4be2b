// says: the trait `std::error::Error` is not implemented for `Wrong`
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    struct Wrong;
    let _ = Client::new().items([1]).try_map(|n: u8| if n > 1 { Ok(n) } else { Err(Wrong) });
}
