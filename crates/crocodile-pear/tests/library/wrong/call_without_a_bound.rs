// says: takes 2 arguments but 1 argument was supplied|argument #
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let c = Client::new(); let _ = c.clone().items([1]).call(move |id| c.get(format!("http://a/{id}")).as_json::<u8>());
}
