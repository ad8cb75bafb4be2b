//! Which fields of its input an expression may look at, as far as its text tells.

use std::collections::HashSet;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::path::Part;

/// The keys of the input that a term may look at; `None` if it may be all of them.
pub fn keys(term: &Term<&str>) -> Option<Box<[String]>> {
    let mut keys = HashSet::new();
    gather(term, &mut keys).then(|| keys.into_iter().collect())
}

/// Whether no more than these are looked at.
fn gather(term: &Term<&str>, keys: &mut HashSet<String>) -> bool {
    let mut all =
        |mut terms: &mut dyn Iterator<Item = &Term<&str>>| Iterator::all(&mut terms, |term| gather(term, keys));
    match term {
        Term::Num(_) | Term::Arr(None) | Term::Break(_) | Term::Var(_) => true,
        Term::Id | Term::Recurse | Term::Def(..) => false,
        Term::Path(head, path) => {
            let inner = path.0.iter().skip(1).flat_map(|(part, _)| match part {
                Part::Index(index) => vec![index],
                Part::Range(start, end) => start.iter().chain(end).collect(),
            });
            all(&mut inner.filter(|index| literal(index).is_none()))
                && first(head, path.0.first().map(|part| &part.0), keys)
        }
        Term::BinOp(left, BinaryOp::Pipe(None), right) => match &**left {
            Term::Id => gather(right, keys),
            // It hands on its input.
            Term::Call("select", condition) => condition.iter().chain([&**right]).all(|term| gather(term, keys)),
            left => gather(left, keys),
        },
        Term::BinOp(_, BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt, _) => false,
        Term::BinOp(left, _, right) => all(&mut [&**left, &**right].into_iter()),
        Term::Str(_, parts) => all(&mut parts.iter().filter_map(|part| match part {
            StrPart::Term(term) => Some(term),
            _ => None,
        })),
        Term::Arr(Some(inner)) | Term::Neg(inner) | Term::Label(_, inner) | Term::TryCatch(inner, _) => {
            gather(inner, keys)
        }
        Term::Obj(entries) => entries.iter().all(|(key, value)| match (literal(key), value) {
            (_, Some(value)) => (literal(key).is_some() || gather(key, keys)) && gather(value, keys),
            (Some(key), None) => {
                keys.insert(key.to_owned());
                true
            }
            (None, None) => matches!(key, Term::Var(_)),
        }),
        Term::IfThenElse(branches, Some(otherwise)) => {
            let branches = branches.iter().flat_map(|(condition, then)| [condition, then]);
            all(&mut branches.chain([&**otherwise]))
        }
        // Without `else`, the input comes out.
        Term::IfThenElse(_, None) => false,
        Term::Fold(_, items, _, arguments) => all(&mut [&**items].into_iter().chain(arguments.first())),
        Term::Call("empty" | "true" | "false" | "null" | "nan" | "infinite", _) => true,
        Term::Call("first" | "last" | "limit" | "isempty" | "error" | "range", arguments) if !arguments.is_empty() => {
            all(&mut arguments.iter())
        }
        Term::Call(..) => false,
    }
}

/// What a path looks at with its first part.
fn first(head: &Term<&str>, part: Option<&Part<Term<&str>>>, keys: &mut HashSet<String>) -> bool {
    match (head, part) {
        (Term::Id, Some(Part::Index(index))) => match literal(index) {
            Some(key) => {
                keys.insert(key.to_owned());
                true
            }
            None => false,
        },
        (Term::Id, _) => false,
        (head, Some(Part::Index(index))) if literal(index).is_none() => gather(head, keys) && gather(index, keys),
        (head, Some(Part::Range(start, end))) => {
            gather(head, keys) && start.iter().chain(end).all(|term| gather(term, keys))
        }
        (head, _) => gather(head, keys),
    }
}

/// A text without anything in it.
fn literal<'a>(term: &'a Term<&str>) -> Option<&'a str> {
    match term {
        Term::Str(None, parts) => match parts.as_slice() {
            [StrPart::Str(text)] => Some(text),
            _ => None,
        },
        _ => None,
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
