// says: write a `Vec<One<T>>`
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let one = || One::of(1);
    let _ = Client::new().join((one(), one(), one(), one(), one(), one(), one(), one(), one()));
}
