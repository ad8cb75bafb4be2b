// says: DeserializeOwned` is not satisfied
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    let c = Client::new();
    let _ = async move {
        let x = c.get("http://a/").as_json().await?;
        drop(x);
        Ok::<_, Error>(())
    };
}
