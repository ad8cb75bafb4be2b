//! Recognizes habits from other languages (JavaScript, JSONPath, shells) in an expression that does not compile, so
//! that the error can explain them.

use super::compile_error::Fault;

/// The fault that a habit explains; `faults` are the ones from the compiler.
pub fn explain(source: &str, faults: Vec<Fault>) -> Vec<Fault> {
    let code = code(source);
    let looks = [sign, quote, negation, ternary, arrow, method, root, predicate, star, braces, comparison, unfinished];
    let found = looks.iter().find_map(|look| look(source, &code));
    match found.or_else(|| faults.iter().find_map(|fault| hyphen(source, fault).or_else(|| commas(source, fault)))) {
        Some(fault) => vec![fault],
        None => faults,
    }
}

/// Code that compiles, but does not mean what it looks like: `.a ?? .b` is two `?` and the path `.a.b`.
pub fn hidden(source: &str) -> Option<Fault> {
    let code = code(source);
    let question = code.find("??").map(|at| told(at, 2, "`??` is not an operator".into(), "write `//`".into()));
    question.or_else(|| selected(&code)).or_else(|| interpolation(source, &code))
}

/// `select(.id = 1)`, `if .id = 1 then`: always true.
fn selected(code: &str) -> Option<Fault> {
    let begins = |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || "._$".contains(c));
    let calls = code.match_indices("select(").filter(|(at, _)| begins(*at)).filter_map(|(at, word)| {
        let open = at + word.len() - 1;
        Some(open..open + closing(&code[open..])?)
    });
    let words = code.match_indices("if ").filter(|(at, _)| begins(*at) || code[..*at].ends_with(" el"));
    let tests = words.filter_map(|(at, _)| Some(at..at + code[at..].find(" then")?));
    // An assignment within brackets of its own is meant.
    let bare = |range: &std::ops::Range<usize>| !code[range.start + 1..range.end].contains(['(', '|', '{']);
    let at = calls.chain(tests).filter(bare).find_map(|range| Some(range.start + assignment(&code[range])?))?;
    Some(told(at, 1, "`=` assigns a value, it does not compare".into(), "write `==`".into()))
}

/// `"${.name}"`, as in JavaScript.
fn interpolation(source: &str, code: &str) -> Option<Fault> {
    let within = |at: &usize| code[*at..].starts_with("  ");
    let begins = source.match_indices("${.").chain(source.match_indices("${$")).map(|(at, _)| at);
    let at = begins.filter(within).min()?;
    let length = source[at..].find('}')? + 1;
    let inner = &source[at + 2..at + length - 1];
    Some(told(at, length, "`${…}` in a string is text".into(), format!("write `\\({inner})`")))
}

/// `.a is null`, `.a in [1, 2]`
fn comparison(source: &str, code: &str) -> Option<Fault> {
    for (words, meant) in [(" is not null", "!= null"), (" is null", "== null")] {
        if let Some(at) = code.find(words) {
            let length = words.len() - 1;
            return Some(told(at + 1, length, "`is` is not an operator".into(), format!("write `{meant}`")));
        }
    }
    let at = code.find(" in [")?;
    let length = code[at..].find(']')? + 1;
    let list = &source[at + 5..at + length - 1];
    let remedy = format!("write ` | IN({list})` instead of `{}`", &source[at..at + length]);
    Some(told(at + 1, length - 1, "`in` is not an operator".into(), remedy))
}

/// The position of `=` in a condition that sets a value instead of comparing.
pub fn assignment(source: &str) -> Option<usize> {
    let code = code(source);
    let sign = |at: usize| code.as_bytes().get(at).copied().unwrap_or(b' ');
    let alone = |at: &usize| sign(at + 1) != b'=' && (*at == 0 || !b"=!<>|+-*/%".contains(&sign(at - 1)));
    code.match_indices('=').map(|(at, _)| at).find(alone)
}

fn told(offset: usize, length: usize, message: String, remedy: String) -> Fault {
    Fault { offset, length, message, remedy }
}

/// The expression with the content of strings and comments blanked, at the same length.
fn code(source: &str) -> String {
    let (mut code, mut quoted, mut escaped, mut comment) = (String::with_capacity(source.len()), false, false, false);
    for letter in source.chars() {
        let plain = !quoted && !comment;
        match letter {
            '\n' => comment = false,
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' if !comment => quoted = !quoted,
            '#' if !quoted => comment = true,
            _ => {}
        }
        if plain && !comment && letter != '"' {
            code.push(letter);
        } else {
            code.extend(std::iter::repeat_n(' ', letter.len_utf8()));
        }
    }
    code
}

/// Functions of jq, each with the names that other languages have for it.
const SAME: &[(&str, &[&str])] = &[
    ("+", &["concat"]),
    (".[…:…]", &["substring"]),
    ("//", &["coalesce"]),
    ("add", &["sum"]),
    ("add / length", &["avg"]),
    ("all", &["every"]),
    ("any", &["some"]),
    ("ascii_downcase", &["downcase", "lower", "lowercase", "toLowerCase"]),
    ("ascii_upcase", &["capitalize", "toUpperCase", "upper", "uppercase"]),
    ("contains", &["includes"]),
    ("endswith", &["endsWith"]),
    ("fromjson", &["fromJson", "from_json"]),
    ("group_by", &["groupBy", "group_by_key"]),
    ("index", &["indexOf"]),
    ("length", &["count", "len", "size"]),
    ("map(select(…))", &["filter"]),
    ("null", &["NULL", "None", "nil", "undefined"]),
    ("sort_by", &["orderBy", "sortBy"]),
    ("startswith", &["startsWith"]),
    ("sub", &["replace"]),
    ("tojson", &["toJson"]),
    ("tonumber", &["int", "parseFloat", "parseInt"]),
    ("tostring", &["str", "toString"]),
    ("unique", &["distinct", "uniq"]),
];

/// The function of jq that other languages call by this name.
pub fn same(name: &str) -> Option<&'static str> {
    SAME.iter().find(|(_, others)| others.contains(&name)).map(|(own, _)| *own)
}

/// Operators and quotes of other languages.
const SIGNS: [(&str, &str, &str); 11] = [
    ("++", "`++` is not an operator", "write `+`"),
    ("&&", "`&&` is not an operator", "write `and`"),
    ("||", "`||` is not an operator", "write `or`"),
    ("===", "`===` is not an operator", "write `==`"),
    ("!==", "`!==` is not an operator", "write `!=`"),
    ("<>", "`<>` is not an operator", "write `!=`"),
    ("\u{201c}", "a typographic quote", "write `\"`"),
    ("\u{201d}", "a typographic quote", "write `\"`"),
    ("\u{2018}", "a typographic quote", "write `\"`"),
    ("\u{2019}", "a typographic quote", "write `\"`"),
    ("\u{a0}", "a no-break space", "replace it with an ordinary space"),
];

fn sign(_: &str, code: &str) -> Option<Fault> {
    let found = SIGNS.iter().filter_map(|(sign, message, remedy)| Some((code.find(sign)?, sign, message, remedy)));
    let (at, sign, message, remedy) = found.min_by_key(|(at, sign, ..)| (*at, usize::MAX - sign.len()))?;
    Some(told(at, sign.len(), (*message).into(), (*remedy).into()))
}

fn quote(source: &str, code: &str) -> Option<Fault> {
    let at = code.find('\'')?;
    let length = source[at + 1..].find('\'').map_or(1, |end| end + 2);
    let inner = source[at..at + length].trim_matches('\'');
    let remedy = format!("write `\"{inner}\"`, and put the whole expression in `'…'`");
    Some(told(at, length, "jq's strings have double quotes".into(), remedy))
}

/// `!x`
fn negation(source: &str, code: &str) -> Option<Fault> {
    let (at, _) = code.match_indices('!').find(|(at, _)| !code[at + 1..].starts_with('='))?;
    let rest = source[at + 1..].trim_start();
    let operand = match rest.starts_with('(') {
        true => &rest[..closing(rest)?],
        false => &rest[..path(rest)],
    };
    let remedy =
        if operand.is_empty() { "write `| not` behind it".into() } else { format!("write `({operand} | not)`") };
    Some(told(at, 1, "`!` is not an operator".into(), remedy))
}

/// `x ? y : z`
fn ternary(source: &str, code: &str) -> Option<Fault> {
    let at = code.find(" ? ")?;
    let colon = at + 3 + code[at + 3..].find(" : ")?;
    let (condition, yes, no) = (&source[..at], &source[at + 3..colon], &source[colon + 3..]);
    let remedy = format!("write `if {} then {} else {} end`", condition.trim(), yes.trim(), no.trim());
    Some(told(at + 1, 1, "`? :` is not an operator".into(), remedy))
}

/// `map(x => x.name)`
fn arrow(source: &str, code: &str) -> Option<Fault> {
    let at = code.find("=>")?;
    let name = source[..at].trim_end().trim_end_matches(')');
    let name = &name[name.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len()..];
    let rest = source[at + 2..].trim_start();
    let body = rest[..outer(rest)].trim_end();
    let body = if name.is_empty() { body.to_owned() } else { body.replace(&format!("{name}."), ".") };
    let message = "`=>` is not an operator: the value is always `.`".to_owned();
    Some(told(at, 2, message, format!("leave out `{name} =>`, and write `{body}`")))
}

/// `.items.map(.name)`
fn method(source: &str, code: &str) -> Option<Fault> {
    let open = code.match_indices('(').map(|(at, _)| at).find(|at| {
        let word = code[..*at].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        word.len() < *at && word.ends_with('.') && word.len() > 1
    })?;
    let dot = code[..open].rfind('.')?;
    let message = format!("`{}` is not a method", &source[dot..open]);
    let name = &source[dot + 1..open];
    let own = same(name).unwrap_or(name);
    // A function without arguments has no parentheses either.
    let empty = code[open + 1..].trim_start();
    let end = if empty.starts_with(')') { code.len() - empty.len() + 1 } else { open };
    Some(told(dot, open - dot, message, format!("write ` | {own}` instead of `{}`", &source[dot..end])))
}

/// `$.items`
fn root(source: &str, code: &str) -> Option<Fault> {
    let at = code.find("$.").or_else(|| code.find("$["))?;
    let starred = |text: &str| text.find(|c: char| !(c.is_alphanumeric() || "._$[]?\"*".contains(c)));
    let end = starred(&source[at + 1..]).map_or(source.len(), |length| at + 1 + length);
    let rest = source[at + 1..end].replace("[*]", "[]");
    let rest = if rest.starts_with('[') { format!(".{rest}") } else { rest };
    Some(told(at, end - at, "`$` alone is JSONPath's: the item is `.`".into(), format!("write `{rest}`")))
}

/// `[?(@.id==1)]`
fn predicate(source: &str, code: &str) -> Option<Fault> {
    let at = code.find("[?(")?;
    let length = code[at..].find(")]")? + 2;
    let inner = source[at + 3..at + length - 2].replace('@', "");
    Some(told(at, length, "`[?(…)]` is JSONPath's".into(), format!("write `[] | select({inner})`")))
}

/// `.items[*]`
fn star(_: &str, code: &str) -> Option<Fault> {
    code.find("[*]").map(|at| told(at, 3, "`[*]` is JSONPath's".into(), "write `[]`".into()))
}

/// `{{name}}`
fn braces(source: &str, code: &str) -> Option<Fault> {
    let at = code.find("{{")?;
    let inner = source[at + 2..].split("}}").next().unwrap_or_default().trim();
    let right = if inner.starts_with('.') { inner.to_owned() } else { format!("{{{inner}}}") };
    Some(told(at, 2, "an expression has no `{{ }}`".into(), format!("write `{right}`")))
}

/// `if` without `end`
fn unfinished(_: &str, code: &str) -> Option<Fault> {
    let words = || code.split(|c: char| !(c.is_alphanumeric() || "._$".contains(c)));
    let (open, closed) = (words().filter(|word| *word == "if").count(), words().filter(|word| *word == "end").count());
    let message = "the expression is incomplete: an `if` has no `end`".to_owned();
    (open > closed).then(|| told(code.len(), 0, message, "write `end` where the `if` ends".into()))
}

/// `.user-id`: meant as a field, but it is a difference.
fn hyphen(source: &str, fault: &Fault) -> Option<Fault> {
    let end = fault.offset + fault.length;
    let begin = source.get(..fault.offset)?.rfind('.')?;
    let (first, rest) = source.get(begin + 1..end)?.split_once('-')?;
    let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !word(first) || !rest.split('-').all(word) {
        return None;
    }
    let message = format!("`{first}-{rest}` is a difference, not a field");
    Some(told(begin, end - begin, message, format!("write `.\"{first}-{rest}\"`")))
}

/// `sub("a", "b")`: meant as two arguments, but it is one argument with a comma.
fn commas(source: &str, fault: &Fault) -> Option<Fault> {
    let call = source.get(fault.offset..).filter(|_| fault.message.contains("arguments"))?;
    let open = call.find('(').filter(|open| *open == fault.length)?;
    let inside = &call[open..open + closing(&call[open..])?];
    let bare = code(inside);
    let mut depth = 0;
    let mut right = String::new();
    for (at, letter) in inside.char_indices() {
        let sign = bare.as_bytes()[at];
        depth += i32::from(b"([{".contains(&sign)) - i32::from(b")]}".contains(&sign));
        right.push(if sign == b',' && depth == 1 { ';' } else { letter });
    }
    let name = &call[..open];
    (right != inside).then(|| Fault { remedy: format!("separate them by `;`: write `{name}{right}`"), ..fault.clone() })
}

/// The length of the path at the start of a text.
fn path(text: &str) -> usize {
    text.find(|c: char| !(c.is_alphanumeric() || "._$[]?\"".contains(c))).unwrap_or(text.len())
}

/// The position after the bracket that closes the one at the start.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    code(text)
        .bytes()
        .position(|byte| {
            depth += i32::from(b"([{".contains(&byte)) - i32::from(b")]}".contains(&byte));
            depth == 0
        })
        .map(|at| at + 1)
}

/// The position before the bracket that closes one opened earlier.
fn outer(text: &str) -> usize {
    let mut depth = 0;
    let end = code(text).bytes().position(|byte| {
        depth += i32::from(b"([{".contains(&byte)) - i32::from(b")]}".contains(&byte));
        depth < 0
    });
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::super::foreign_syntax::*;
    use crate::jq::Filter;

    /// The only fault of an expression: its message and its remedy.
    fn fault(source: &str) -> (String, String) {
        let faults = Filter::compile(source, &["query"]).err().unwrap_or_default();
        let [fault] = faults.as_slice() else { panic!("{source}: {faults:?}") };
        (source[fault.offset..fault.offset + fault.length].to_owned(), fault.remedy.clone())
    }

    /// Expressions as other languages have them, the part that is shown, and the remedy.
    const HABITS: &[(&str, &str, &str)] = &[
        (".a && .b", "&&", "write `and`"),
        ("$query.a || .b && .c", "||", "write `or`"),
        (".a === 1", "===", "write `==`"),
        (".a !== 1", "!==", "write `!=`"),
        ("!$query.a", "!", "write `($query.a | not)`"),
        (".a and !(.b == 1)", "!", "write `((.b == 1) | not)`"),
        (".a + 'x, y'", "'x, y'", "write `\"x, y\"`, and put the whole expression in `'…'`"),
        (".a + “x”", "“", "write `\"`"),
        (".a ? 1 : 2", "?", "write `if .a then 1 else 2 end`"),
        (".a ?? .b", "??", "write `//`"),
        (".a | map(x => x.name)", "=>", "leave out `x =>`, and write `.name`"),
        (".items.map(.name)", ".map", "write ` | map` instead of `.map`"),
        (".name.toUpperCase()", ".toUpperCase", "write ` | ascii_upcase` instead of `.toUpperCase()`"),
        ("[.items[].price] | sum", "sum", "write `add`"),
        ("query.a", "query", "write `$query.a`"),
        ("query[\"a b\"].c + 1", "query", "write `$query[\"a b\"].c`"),
        ("$.items[*].id", "$.items[*].id", "write `.items[].id`"),
        (".items[*].id", "[*]", "write `[]`"),
        ("$.items[0]", "$.items[0]", "write `.items[0]`"),
        ("$[0]", "$[0]", "write `.[0]`"),
        (".items[?(@.id==1)]", "[?(@.id==1)]", "write `[] | select(.id==1)`"),
        ("{{.name}}", "{{", "write `.name`"),
        ("{{id}}", "{{", "write `{id}`"),
        ("if .a then 1", "", "write `end` where the `if` ends"),
        (".a ++ .b", "++", "write `+`"),
        ("if .a is null then 1 else 2 end", "is null", "write `== null`"),
        ("select(.a in [1, 2])", "in [1, 2]", "write ` | IN(1, 2)` instead of ` in [1, 2]`"),
        ("[.items[] | select(.id = 1)]", "=", "write `==`"),
        ("if .id = 1 then 2 else 3 end", "=", "write `==`"),
        ("if .a then 1 elif .id = 1 then 2 else 3 end", "=", "write `==`"),
        ("\"id ${.id}\"", "${.id}", "write `\\(.id)`"),
        (".a == None", "None", "write `null`"),
        (".user-id", ".user-id", "write `.\"user-id\"`"),
        (".a | sub(\"x,\", [1, 2] | tojson)", "sub", "separate them by `;`: write `sub(\"x,\"; [1, 2] | tojson)`"),
    ];

    #[test]
    fn other_languages_are_understood() {
        for (source, part, remedy) in HABITS {
            assert_eq!(fault(source), ((*part).to_owned(), (*remedy).to_owned()), "{source}");
        }
    }

    #[test]
    fn no_typing_error_ends_the_program() {
        for (source, ..) in HABITS {
            for wrong in [" ? : ", "=>", "'", "!", "[*]", "{{", "🦀", "\u{2028}", "("] {
                for at in 0..=source.len() {
                    if let Some((before, after)) = source.split_at_checked(at) {
                        let _ = Filter::compile(&format!("{before}{wrong}{after}"), &["query"]);
                    }
                }
            }
        }
    }

    #[test]
    fn strings_comments_and_sound_expressions_have_no_habits() {
        for source in [
            "\"&& || ! 'x' ?? => $. {{\"",
            ". # don't && ??\n",
            ".a != 1",
            "[.a, .b] | join(\", \")",
            "if .a then 1 elif .b then 2 else 3 end",
            ".\"user-id\"",
            ".a? // .b",
            "{a: {b: 1}}",
            "select((.a = 1) | .b)",
            ".notif = if .a then 1 else 2 end",
            "if (.a |= 1 | .b) then 1 else 2 end",
            "\"a $ {b} ${NAME}\"",
            "\"x is null\"",
            "\"\\\"'\" | ascii_downcase",
        ] {
            assert!(Filter::compile(source, &[]).is_ok(), "{source}");
        }
    }

    #[test]
    fn an_assignment_is_no_comparison() {
        assert_eq!(assignment("$query.a = \"b\""), Some(9));
        for source in [".a == 1", ".a != 1", ".a <= 1", ".a >= 1", ".a |= 1", ".a += 1", ".a //= 1", "\"=\""] {
            assert_eq!(assignment(source), None, "{source}");
        }
    }
}
