//! A part of a text, with its own place.

use super::{Located, Run};

impl Located<String> {
    /// The part of the text, `len` bytes from `offset` on, as a text of its own.
    pub fn part(&self, offset: usize, len: usize) -> Self {
        let value = self.value.get(offset..offset + len).unwrap_or_default().to_owned();
        let shifted = |run: &Run| Run { offset: run.offset.saturating_sub(offset), ..*run };
        let runs = self.runs.as_deref().map(|runs| {
            // The run in which the part begins is split: its rest stands where the part begins.
            let first = self.at(offset, 1);
            let before = runs.partition_point(|run| run.offset <= offset);
            let written = runs.get(before.saturating_sub(1)).map_or(0, |run| run.written);
            let begin = Run { offset: 0, line: first.line, column: first.column, written };
            std::iter::once(begin).chain(runs[before..].iter().map(shifted)).collect()
        });
        Self { value, span: self.at(offset, len), runs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Span;

    #[test]
    fn a_part_stands_where_it_is_written() {
        let whole = Located::new("shop /orders?q={.x}".to_owned(), Span { file: 0, line: 3, column: 10, length: 19 });
        let part = whole.part(5, 14);
        assert_eq!((part.value.as_str(), part.span.column, part.at(9, 2).column), ("/orders?q={.x}", 15, 24));
    }
}
