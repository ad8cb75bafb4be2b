//! A field of a spec, with its name in the configuration.

/// A field of a spec.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key as written.
    pub name: &'static str,
    /// The meaning of the field.
    pub doc: &'static str,
    /// Its former key.
    pub was: Option<&'static str>,
}

impl Field {
    /// A field whose key never changed.
    pub const fn new(name: &'static str, doc: &'static str) -> Self {
        Field { name, doc, was: None }
    }
}
