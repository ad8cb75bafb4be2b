//! A part of a text, with its own position.

use super::node::{Located, TextRun};

impl Located<String> {
    /// The part of the text, `len` bytes from `offset` on, as its own text.
    pub fn part(&self, offset: usize, len: usize) -> Self {
        let value = self.value.get(offset..offset + len).unwrap_or_default().to_owned();
        let shifted = |run: &TextRun| TextRun { offset: run.offset.saturating_sub(offset), ..run.clone() };
        let runs = self.runs.as_deref().map(|runs| {
            // The part may begin inside a run: the rest of that run begins at the position of the part.
            let first = self.at(offset, 1);
            let before = runs.partition_point(|run| run.offset <= offset);
            let own = runs.get(before.saturating_sub(1));
            let (written, inserted) = own.map_or((0, None), |run| (run.written, run.inserted.clone()));
            let begin = TextRun { offset: 0, line: first.line, column: first.column, written, inserted };
            let end = runs.partition_point(|run| run.offset < offset + len).max(before);
            std::iter::once(begin).chain(runs[before..end].iter().map(shifted)).collect()
        });
        Self { value, span: self.at(offset, len), runs }
    }
}

#[cfg(test)]
mod tests {
    use super::super::part::*;
    use crate::problem::Span;

    #[test]
    fn a_part_stands_where_it_is_written() {
        let whole = Located::new("shop /orders?q={.x}".to_owned(), Span { file: 0, line: 3, column: 10, length: 19 });
        let part = whole.part(5, 14);
        assert_eq!((part.value.as_str(), part.span.column, part.at(9, 2).column), ("/orders?q={.x}", 15, 24));
    }

    #[test]
    fn a_part_has_the_runs_of_its_own_text() {
        let name = |inserted: bool| inserted.then(|| "NAME".into());
        let run = |offset| TextRun { offset, line: 1, column: 1, written: 0, inserted: name(offset == 4) };
        let runs = Some([0, 4, 8].map(run).into_iter().collect());
        let whole = Located { runs, ..Located::new("0123456789".to_owned(), Span::default()) };
        let offsets =
            |from, len| whole.part(from, len).runs.expect("runs").iter().map(|run| run.offset).collect::<Vec<_>>();
        assert_eq!((offsets(1, 2), offsets(1, 4), offsets(5, 5)), (vec![0], vec![0, 3], vec![0, 3]));
        assert!(whole.part(5, 2).inserted(0));
    }
}
