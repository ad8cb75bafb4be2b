// says: Service<...>` is not satisfied
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let _ = Client::builder().transport(|_: http::Request<crocodile_pear::Body>| 7).build();
}
