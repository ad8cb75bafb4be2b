//! Closures of the program, of which a panic is the failure of one item.

use std::panic::{self, AssertUnwindSafe};

use futures_util::FutureExt;

use crate::error::{BoxError, Error};

/// Calls a closure; returns its result, or its panic as an error.
pub fn call<T>(closure: impl FnOnce() -> T) -> Result<T, Error> {
    panic::catch_unwind(AssertUnwindSafe(closure)).map_err(|payload| Error::of_panic(&*payload))
}

/// The same for one that may fail.
pub fn attempt<T, E: Into<BoxError>>(closure: impl FnOnce() -> Result<T, E>) -> Result<T, Error> {
    call(closure)?.map_err(Error::of_program)
}

/// The same for a future.
pub async fn wait<T, E: Into<BoxError>>(future: impl Future<Output = Result<T, E>>) -> Result<T, Error> {
    let done = AssertUnwindSafe(future).catch_unwind().await;
    done.map_err(|payload| Error::of_panic(&*payload))?.map_err(Error::of_program)
}
