//! How rows are written: their columns, and texts that a spreadsheet takes for formulas.

crate::choice! {
    /// How texts are written that a spreadsheet takes for formulas: those that begin with `=`, `+`, `-`, `@`, a tab or a
    /// line break.
    pub enum Formulas {
        /// Texts stay as they are.
        Keep = "keep",
        /// With a `'` before them, so that a spreadsheet shows them as text.
        Quote = "quote",
    }
}

/// The columns of rows, and how texts are written.
#[derive(Clone, Debug)]
pub struct CsvRules {
    /// The columns; without any, the fields of the items.
    pub columns: Vec<String>,
    pub formulas: Formulas,
}
