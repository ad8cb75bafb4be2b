//! Closures of Rust programs in the place of expressions of a configuration. JSON goes in and comes out as bytes.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{BoxError, Error};
use crate::json::{self, Data, Raw};

/// Takes the JSON of an item; returns the JSON of each output, or the reason why there is none.
type Run = dyn Fn(&[u8]) -> Result<Vec<Vec<u8>>, BoxError> + Send + Sync;

/// A closure, shared by everything that runs it.
#[derive(Clone)]
pub struct Closure {
    run: Arc<Run>,
    /// Whether its input is one object of the named results, if there are any.
    takes_names: bool,
}

impl fmt::Debug for Closure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a closure")
    }
}

impl Closure {
    /// A closure over the JSON of an item.
    pub fn new<E: Into<BoxError>>(run: impl Fn(&[u8]) -> Result<Vec<Vec<u8>>, E> + Send + Sync + 'static) -> Self {
        Closure { run: Arc::new(move |item| run(item).map_err(Into::into)), takes_names: false }
    }

    /// The same closure, with one object of the named results as its input, if there are any.
    #[must_use]
    pub fn taking_names(self) -> Self {
        Closure { takes_names: true, ..self }
    }

    pub(crate) fn takes_names(&self) -> bool {
        self.takes_names
    }

    /// Its outputs for the item, or for these named results.
    pub(crate) fn run(
        &self,
        item: Data,
        names: &[String],
        lookup: &mut dyn FnMut(&str) -> Data,
    ) -> Result<Vec<Data>, Error> {
        let input = if names.is_empty() { written(&item)? } else { object(names, lookup)? };
        // A panic is the failure of this item, on whatever thread it is.
        let outputs = panic::catch_unwind(AssertUnwindSafe(|| (self.run)(&input)));
        let outputs = outputs.map_err(|payload| Error::of_panic(&*payload))?.map_err(Error::of_closure)?;
        outputs.into_iter().map(|output| Raw::check(&output.into()).map(Data::Json)).collect()
    }
}

fn written(data: &Data) -> Result<Bytes, Error> {
    match data {
        Data::Json(raw) => Ok(raw.bytes().clone()),
        Data::Value(value) => json::to_bytes(value),
    }
}

fn object(names: &[String], lookup: &mut dyn FnMut(&str) -> Data) -> Result<Bytes, Error> {
    let mut object = vec![b'{'];
    for (at, name) in names.iter().enumerate() {
        if at > 0 {
            object.push(b',');
        }
        json::write_string(name, &mut object);
        object.push(b':');
        lookup(name).write(&mut object)?;
    }
    object.push(b'}');
    Ok(object.into())
}
