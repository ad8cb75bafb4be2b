//! A field of a spec, as the configuration names it.

/// A field of a spec.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key as written.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// The key that it had before.
    pub was: Option<&'static str>,
}

impl Field {
    /// A field that has always had this key.
    pub const fn new(name: &'static str, doc: &'static str) -> Self {
        Field { name, doc, was: None }
    }
}
