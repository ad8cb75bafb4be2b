// says: is not a future
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let _ = Client::new().items([1]).then(2, |n: u8| Ok::<_, Error>(n));
}
