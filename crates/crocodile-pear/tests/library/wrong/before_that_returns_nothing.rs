// says: expected `Result<Request<Body>, Error>`, found `()`
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let _ = Client::builder()
        .before(async |request| {
            drop::<http::Request<crocodile_pear::Body>>(request);
        })
        .build();
}
