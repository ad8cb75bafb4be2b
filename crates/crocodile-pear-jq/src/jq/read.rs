//! Which parts of its variables an expression may read, as far as its text shows.

use super::part::Read;
use super::syntax::ast::{Key, Part, Pattern, Piece, Term};
use super::syntax::read_fields;

/// The parts of these variables that a term reads, each once. A field is named only where the text names it; a variable of the same name
/// that the term binds itself counts, too.
pub fn reads(term: &Term<'_>, variables: &[String]) -> Vec<Read> {
    let mut found = FoundReads { variables, reads: Vec::new() };
    found.term(term);
    found.reads
}

struct FoundReads<'v> {
    variables: &'v [String],
    reads: Vec<Read>,
}

impl FoundReads<'_> {
    fn add(&mut self, name: &str, field: Option<String>) {
        let name = name.trim_start_matches('$');
        let read = Read { variable: name.to_owned(), field };
        if self.variables.iter().any(|known| known == name) && !self.reads.contains(&read) {
            self.reads.push(read);
        }
    }

    fn each<'t, 's: 't>(&mut self, terms: impl IntoIterator<Item = &'t Term<'s>>) {
        terms.into_iter().for_each(|term| self.term(term));
    }

    fn term(&mut self, term: &Term<'_>) {
        match term {
            Term::Variable(name) => self.add(name, None),
            Term::Path(head, parts) => {
                match (&**head, parts.first()) {
                    (Term::Variable(name), Some((Part::Index(index), _))) => self.add(name, index.text()),
                    (head, _) => self.term(head),
                }
                for (part, _) in parts {
                    match part {
                        Part::Index(index) => self.term(index),
                        Part::Slice(start, end) => self.each(start.iter().chain(end)),
                        Part::Each => {}
                    }
                }
            }
            Term::Pipe(left, right) => {
                match (&**left, read_fields::keys(right)) {
                    (Term::Variable(name), Some(keys)) => keys.iter().for_each(|key| self.add(name, Some(key.clone()))),
                    (left, _) => self.term(left),
                }
                self.term(right);
            }
            Term::Text(_, pieces) => {
                for piece in pieces {
                    if let Piece::Term(term) = piece {
                        self.term(term);
                    }
                }
            }
            Term::List(inner) => self.each(inner.as_deref()),
            Term::Negate(inner) | Term::Label(_, inner) => self.term(inner),
            Term::Object(entries) => {
                self.each(entries.iter().flat_map(|(key, value)| [Some(key), value.as_ref()]).flatten());
            }
            Term::Comma(left, right) | Term::Binary(left, _, right) => self.each([&**left, &**right]),
            Term::Bind(source, patterns, body) => {
                self.each([&**source, &**body]);
                patterns.iter().for_each(|pattern| self.pattern(pattern));
            }
            Term::Fold(fold) => {
                self.each([&fold.source, &fold.start, &fold.update].into_iter().chain(&fold.extract));
                fold.patterns.iter().for_each(|pattern| self.pattern(pattern));
            }
            Term::If(branches, otherwise) => {
                self.each(branches.iter().flat_map(|(condition, then)| [condition, then]));
                self.each(otherwise.as_deref());
            }
            Term::Try(inner, handler) => {
                self.term(inner);
                self.each(handler.as_deref());
            }
            Term::Define(definition, rest) => self.each([&definition.body, &**rest]),
            Term::Call(_, arguments) => self.each(arguments),
            Term::Id | Term::Recurse | Term::Number(_) | Term::Format(_) | Term::Break(_) | Term::Location(_) => {}
        }
    }

    /// The keys of a pattern are terms.
    fn pattern(&mut self, pattern: &Pattern<'_>) {
        match pattern {
            Pattern::Variable(_) => {}
            Pattern::List(inner) => inner.iter().for_each(|pattern| self.pattern(pattern)),
            Pattern::Object(entries) => {
                for (key, inner) in entries {
                    if let Key::Term(term) = key {
                        self.term(term);
                    }
                    inner.iter().for_each(|pattern| self.pattern(pattern));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::jq::Filter;

    #[test]
    fn fields_are_seen_where_an_expression_names_them() {
        for (source, wanted) in [
            ("$a.b", "a.b"),
            ("$a.b.c", "a.b"),
            ("$a[\"b-c\"]", "a.b-c"),
            ("$a[\"b\"]?", "a.b"),
            ("$a.b // $a.c", "a.b a.c"),
            ("$a | .b", "a.b"),
            ("$a | .b, .c", "a.b a.c"),
            ("[$a.b, {x: $a.c}]", "a.b a.c"),
            ("\"x\\($a.b)\"", "a.b"),
            ("@uri \"\\($a.b)\"", "a.b"),
            ("if $a.b then $a.c else 1 end", "a.b a.c"),
            ("def f: $a.b; f", "a.b"),
            (".x[$a.b]", "a.b"),
            (".x[$a.b:]", "a.b"),
            ("reduce $a.b[] as $x (0; . + $x)", "a.b"),
            (". as {($a.b): $x} | $x", "a.b"),
            ("try $a.b catch $a.c", "a.b a.c"),
            ("$a[$x.y]", "a x.y"),
            ("$a[]", "a"),
            ("$a", "a"),
            ("{$a}", "a"),
            ("$a | keys", "a"),
            ("$a | .[$x.y]", "a x.y"),
            ("$a as {b: $c} | $c", "a"),
            ("$a as $c | $c.b", "a"),
            ("[1, 2] | first(select($a.b))", "a.b"),
            (".a", ""),
        ] {
            let filter = Filter::compile(source, &["a", "x"]).expect(source);
            let reads = filter.reads().iter().map(|read| match &read.field {
                None => read.variable.clone(),
                Some(field) => format!("{}.{field}", read.variable),
            });
            let mut reads: Vec<String> = reads.collect();
            reads.sort();
            assert_eq!(reads.join(" "), wanted, "{source}");
        }
    }
}
