// says: is no step for items of type `u8`
#![allow(unused_imports, unused_variables, dead_code)]
use crocodile_pear::{Client, Error, One, Step};

fn main() {
    struct Own;
    impl Step<String> for Own {
        type Out = u8;
        fn name(&self) -> std::borrow::Cow<'static, str> {
            "own".into()
        }
        async fn run(&self, _: String, _: &crocodile_pear::Cx) -> Result<Option<u8>, Error> {
            Ok(None)
        }
    }
    let _ = Client::new().items([1_u8]).step(Own);
}
