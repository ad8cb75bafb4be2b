//! Several values at once.

use futures_util::future::try_join_all;

use super::one::One;
use crate::error::CallId;

/// The argument of [`Client::join`](crate::Client::join): a tuple of two to eight values that are still to come, or a `Vec` of them.
///
/// ```
/// use crocodile_pear::{Client, Join, One};
///
/// fn both(first: One<u8>, second: One<String>) -> One<(u8, String)> {
///     Client::new().join((first, second))
/// }
/// fn all(many: Vec<One<u8>>) -> One<Vec<u8>> {
///     many.join()
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be joined",
    label = "not a tuple of values that are still to come",
    note = "write two to eight calls with their types: `client.join((client.get(a).as_json::<A>(), client.get(b).as_json::<B>()))`",
    note = "for a number that is known later, write a `Vec<One<T>>`; with a bound, `client.items(values).call(20, …)`"
)]
pub trait Join {
    /// All of the values.
    type Out: Send + 'static;

    /// All of them at once. The first failure is the failure of all, and cancels the others.
    fn join(self) -> One<Self::Out>;
}

macro_rules! tuples {
    ($($name:ident $at:tt),+) => {
        impl<$($name: Send + 'static),+> Join for ($(One<$name>,)+) {
            type Out = ($($name,)+);

            fn join(self) -> One<Self::Out> {
                One::new(None, async move |_: CallId| tokio::try_join!($(self.$at.start($at)),+))
            }
        }
    };
}

tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

impl<T: Send + 'static> Join for Vec<One<T>> {
    type Out = Vec<T>;

    fn join(self) -> One<Vec<T>> {
        One::new(None, async move |_: CallId| {
            try_join_all(self.into_iter().enumerate().map(|(at, one)| one.start(at as u64))).await
        })
    }
}
