//! Why an expression cannot be compiled.

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Byte offset into the expression.
    pub offset: usize,
    /// Bytes meant.
    pub length: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub remedy: String,
}
