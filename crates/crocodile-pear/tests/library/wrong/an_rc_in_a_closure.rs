// says: `Rc<i32>` cannot be sent between threads safely
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let n = std::rc::Rc::new(1);
    let _ = Client::new().items([1]).map(move |x| x + *n);
}
