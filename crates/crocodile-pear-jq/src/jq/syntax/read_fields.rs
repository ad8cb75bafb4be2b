//! Which fields of its input an expression may read, as far as its text shows.

use std::collections::HashSet;

use super::ast::{Operator, Part, Piece, Term};

/// The keys of the input that a term may read; `None` if it may read any.
pub fn keys(term: &Term<'_>) -> Option<Box<[String]>> {
    let mut keys = HashSet::new();
    gather(term, &mut keys).then(|| keys.into_iter().collect())
}

/// Adds the keys that a term reads; false if it may read others.
fn gather(term: &Term<'_>, keys: &mut HashSet<String>) -> bool {
    let mut all = |mut terms: &mut dyn Iterator<Item = &Term<'_>>| Iterator::all(&mut terms, |term| gather(term, keys));
    match term {
        Term::Number(_) | Term::List(None) | Term::Break(_) | Term::Variable(_) | Term::Location(_) => true,
        Term::Id | Term::Recurse | Term::Define(..) | Term::Format(_) => false,
        Term::Path(head, parts) => {
            let inner = parts.iter().skip(1).flat_map(|(part, _)| match part {
                Part::Index(index) => vec![index],
                Part::Slice(start, end) => start.iter().chain(end).collect(),
                Part::Each => Vec::new(),
            });
            all(&mut inner.filter(|index| index.text().is_none()))
                && first(head, parts.first().map(|part| &part.0), keys)
        }
        Term::Pipe(left, right) => match &**left {
            Term::Id => gather(right, keys),
            // `select` passes on its input.
            Term::Call("select", condition) => condition.iter().chain([&**right]).all(|term| gather(term, keys)),
            left => gather(left, keys),
        },
        Term::Binary(
            _,
            Operator::Assign | Operator::Update | Operator::UpdateMath(_) | Operator::UpdateAlternative,
            _,
        ) => false,
        Term::Binary(left, _, right) | Term::Comma(left, right) => all(&mut [&**left, &**right].into_iter()),
        Term::Bind(source, patterns, body) => {
            let mut plain = true;
            super::ast::keys(patterns, &mut |key| plain &= key.text().is_some());
            plain && all(&mut [&**source, &**body].into_iter())
        }
        Term::Text(_, pieces) => all(&mut pieces.iter().filter_map(|piece| match piece {
            Piece::Term(term) => Some(term),
            _ => None,
        })),
        Term::List(Some(inner)) | Term::Negate(inner) | Term::Label(_, inner) => gather(inner, keys),
        // The handler of an error reads only the error.
        Term::Try(inner, _) => gather(inner, keys),
        Term::Object(entries) => entries.iter().all(|(key, value)| match (key.text(), value) {
            (name, Some(value)) => (name.is_some() || gather(key, keys)) && gather(value, keys),
            (Some(name), None) => {
                keys.insert(name);
                true
            }
            (None, None) => matches!(key, Term::Variable(_) | Term::Location(_)),
        }),
        Term::If(branches, Some(otherwise)) => {
            let branches = branches.iter().flat_map(|(condition, then)| [condition, then]);
            all(&mut branches.chain([&**otherwise]))
        }
        // Without `else`, the output may be the input.
        Term::If(_, None) => false,
        Term::Fold(fold) => {
            let mut plain = true;
            super::ast::keys(&fold.patterns, &mut |key| plain &= key.text().is_some());
            plain && all(&mut [&fold.source, &fold.start].into_iter())
        }
        Term::Call("empty" | "true" | "false" | "null" | "nan" | "infinite" | "now", _) => true,
        Term::Call("first" | "last" | "limit" | "isempty" | "error" | "range", arguments) if !arguments.is_empty() => {
            all(&mut arguments.iter())
        }
        Term::Call(..) => false,
    }
}

/// Adds the key that the first part of a path reads.
fn first(head: &Term<'_>, part: Option<&Part<'_>>, keys: &mut HashSet<String>) -> bool {
    match (head, part) {
        (Term::Id, Some(Part::Index(index))) => match index.text() {
            Some(key) => {
                keys.insert(key);
                true
            }
            None => false,
        },
        (Term::Id, _) => false,
        (head, Some(Part::Index(index))) if index.text().is_none() => gather(head, keys) && gather(index, keys),
        (head, Some(Part::Slice(start, end))) => {
            gather(head, keys) && start.iter().chain(end).all(|term| gather(term, keys))
        }
        (head, _) => gather(head, keys),
    }
}

#[cfg(test)]
mod tests {
    use crate::jq::Filter;

    #[test]
    fn keys_are_seen_where_an_expression_names_them() {
        let takes = |source: &str, key: &str| Filter::compile(source, &["x"]).expect(source).may_take(key);
        for source in [
            ".a",
            ".a.b[0]",
            ".[\"a\"]",
            "{a, b: 1}",
            "{b: .a}",
            "{(.a): 1}",
            "[.b, .a[]?]",
            "\"x\\(.a)\"",
            ".b as $p | (.c[] | select(. == $p)), .a",
            "select(.b) | .a",
            "if .b then .c else .a end",
            ".b // .a",
            ".b[.a]",
            ".b[.a:]",
            "first(.a[])",
            ".",
            ".[]",
            "..",
            "to_entries",
            "del(.b)",
            ".b = 1",
            "if .b then .c end",
            "select(.b)",
        ] {
            assert!(takes(source, "a"), "{source}");
        }
        for source in [
            ".b",
            ".b.a",
            "{b}",
            "{a: .b}",
            "{a: 1}",
            ".b | .a",
            ".b[] | select(.a == 1)",
            ".b as $p | .c[] | select(. == $p), .a",
            "$x.a",
            "\"a\"",
            "1",
            "{$x}",
        ] {
            assert!(!takes(source, "a"), "{source}");
        }
    }
}
