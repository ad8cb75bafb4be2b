//! Why an expression cannot be compiled.

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Byte offset into the expression.
    pub offset: usize,
    /// Length in bytes of the faulty part.
    pub length: usize,
    /// The reason, in a sentence.
    pub message: String,
    /// The text to write instead.
    pub remedy: String,
}
