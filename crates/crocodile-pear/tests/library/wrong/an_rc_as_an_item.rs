// says: `Rc<{integer}>` cannot be sent between threads safely
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let _ = Client::new().items([std::rc::Rc::new(1)]).map(|n| *n);
}
