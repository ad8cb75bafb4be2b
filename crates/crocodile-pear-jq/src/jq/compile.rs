//! Compiles source to a filter, or reports every fault in it.

pub(crate) mod byte_paths;
pub(crate) mod filter;
pub(crate) mod library;
pub(crate) mod resolve;
use std::sync::Arc;
use std::thread;

use super::read;
use super::syntax::compile_error::Fault;
use super::syntax::lex::{fault, offset};
use super::syntax::parse::parse;
use super::syntax::{ast, foreign_syntax, read_fields};
use byte_paths::Native;
use filter::{Filter, Program};
use library::REFUSED;
use resolve::{Resolver, Wrong};

/// Largest source of an expression, in bytes. Anything larger is a program.
const SOURCE: usize = 16 << 10;

/// How deep the source of an expression may nest.
const NESTING: usize = 400;

/// Stack for the parser, which recurses; enough for `SOURCE` brackets. It is reserved, but rarely used.
const STACK: usize = 256 << 20;

/// An expression with at most this many words and signs is compiled on the calling thread: at `STACK / SOURCE` bytes
/// for each, the stack of any thread is enough. Most expressions are that short, and starting a thread takes longer
/// than compiling them.
const FEW: usize = 40;

/// An upper bound for the number of words and signs. No expression nests deeper than this number.
fn nesting(source: &str) -> usize {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let mut inside = false;
    let begins = source.bytes().filter(|byte| {
        let goes_on = std::mem::replace(&mut inside, is_word(*byte)) && inside;
        !goes_on && !byte.is_ascii_whitespace()
    });
    begins.count()
}

impl Filter {
    /// Compiles `source`; `known` are the variables it may use, without `$`.
    ///
    /// # Errors
    /// Every fault of the expression.
    pub fn compile(source: &str, known: &[&str]) -> Result<Self, Vec<Fault>> {
        let filter = compile(source, known).map_err(|faults| foreign_syntax::explain(source, faults))?;
        foreign_syntax::hidden(source).map_or(Ok(filter), |fault| Err(vec![fault]))
    }
}

/// Compiles a long expression on its own thread, for a large stack.
fn compile(source: &str, known: &[&str]) -> Result<Filter, Vec<Fault>> {
    if source.len() > SOURCE {
        let message = format!("the expression is longer than {SOURCE} bytes");
        return Err(vec![fault(source, source, message, "split it into several steps")]);
    }
    if nesting(source) <= FEW {
        return translate(source, known);
    }
    thread::scope(|scope| {
        let worker = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || translate(source, known));
        let result = worker.ok().and_then(|worker| worker.join().ok());
        result.unwrap_or_else(|| {
            Err(vec![fault(source, source, "the expression could not be compiled", "write it in a simpler way")])
        })
    })
}

fn translate(source: &str, known: &[&str]) -> Result<Filter, Vec<Fault>> {
    alone(source)?;
    let term = parse(source)?;
    if ast::nesting(&term) > NESTING {
        return Err(vec![deep(source)]);
    }
    let mut resolver = Resolver::new(known);
    let main = resolver.term(&term);
    if !resolver.wrong.is_empty() {
        return Err(resolver.wrong.iter().map(|wrong| describe(source, wrong, known)).collect());
    }
    let functions = resolver.functions();
    Ok(Filter {
        program: Arc::new(Program { main, functions }),
        native: Native::from_term(&term).map(Arc::new),
        reads: read::reads(&term, &resolver.uses).into(),
        uses: resolver.uses,
        reads_item: ast::reads(&term),
        takes: read_fields::keys(&term),
        closure: None,
    })
}

/// Rejects `import` and `include`, which read other files.
fn alone(source: &str) -> Result<(), Vec<Fault>> {
    let head = source.trim_start();
    for word in ["import", "include", "module"] {
        if head.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '"', '{', '[', '('])) {
            let message = format!("`{word}` is not allowed: expressions cannot load modules");
            return Err(vec![fault(source, &head[..word.len()], message, "write the definitions into the expression")]);
        }
    }
    Ok(())
}

fn describe(source: &str, wrong: &Wrong<'_>, known: &[&str]) -> Fault {
    match wrong {
        Wrong::Variable(name @ ("$ENV" | "$__prog_args")) => {
            let message = format!("`{name}` is not allowed: it reads the gateway's environment");
            fault(source, name, message, "write `${NAME}` where the configuration takes a value of the environment")
        }
        Wrong::Variable(name) => nested(source, name, known).unwrap_or_else(|| {
            let message = format!("there is no variable `{name}` here");
            fault(source, name, message, variables(name.trim_start_matches('$'), known))
        }),
        Wrong::Label(name) => fault(
            source,
            name,
            format!("there is no label `{name}` here"),
            format!("write `label {name} | …` around it"),
        ),
        Wrong::Reserved(name) => fault(source, name, format!("`{name}` is reserved"), "call a function of jq's manual"),
        Wrong::Recursive(name) => {
            let message =
                format!("`{name}` calls itself: recursive definitions are not allowed, because nothing limits them");
            fault(source, name, message, "use `recurse`, `reduce`, `until` or `walk`")
        }
        Wrong::Format(name) => {
            let all: Vec<String> = library::format::FORMATS.iter().map(|(name, _)| format!("`{name}`")).collect();
            fault(source, name, format!("there is no format `{name}`"), format!("there are {}", all.join(", ")))
        }
        Wrong::Function(name, arity) => match REFUSED.iter().find(|(refused, _)| refused == name) {
            Some((_, why)) => {
                let remedy = environment(source, name).unwrap_or_else(|| "leave it out".to_owned());
                fault(source, name, format!("`{name}` is not allowed: {why}"), remedy)
            }
            None if *arity == 0 && known.contains(name) => variable(source, name),
            None => nested(source, name, known).unwrap_or_else(|| function(source, name, *arity)),
        },
    }
}

/// `env.TOKEN`, where the file itself may name a variable of the environment.
fn environment(source: &str, name: &str) -> Option<String> {
    let rest = source.get(offset(source, name)..)?.strip_prefix("env.").filter(|_| name == "env")?;
    let variable = &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())];
    (!variable.is_empty()).then(|| format!("write `${{{variable}}}`, which is replaced as the file is read"))
}

/// `query.page` where `$query.page` is meant.
fn variable(source: &str, name: &str) -> Fault {
    let rest = &source[offset(source, name)..];
    let meant = &rest[..reference(rest)];
    fault(source, name, format!("`{name}` is a variable"), format!("write `${meant}`"))
}

/// `$request.method` or `request.method` where `$method` is meant.
fn nested(source: &str, name: &str, known: &[&str]) -> Option<Fault> {
    let begin = offset(source, name);
    let bare = name.trim_start_matches('$');
    let rest = source.get(begin + name.len() - bare.len()..)?;
    let whole = |other: &str| {
        let next = rest.strip_prefix(other).map(|rest| rest.bytes().next());
        next.is_some_and(|next| !next.is_some_and(|next| next.is_ascii_alphanumeric() || next == b'_'))
    };
    let (other, own) = foreign().find(|(other, own)| other.contains('.') && known.contains(own) && whole(other))?;
    let written = &source[begin..begin + name.len() - bare.len() + other.len()];
    let message = match name == bare {
        true => format!("there is no function `{name}`"),
        false => format!("there is no variable `{name}` here"),
    };
    Some(fault(source, written, message, format!("write `${own}`")))
}

/// The length of a name with the fields that are taken of it: `query.page`, `headers["x-user"]`.
fn reference(text: &str) -> usize {
    let word = |text: &str| text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    let mut length = word(text);
    loop {
        let rest = &text[length..];
        let field = match (rest.strip_prefix('.'), rest.starts_with("[\"")) {
            (Some(name), _) if word(name) > 0 => 1 + word(name),
            (None, true) => rest.find("\"]").map_or(0, |end| end + 2),
            _ => 0,
        };
        if field == 0 {
            return length;
        }
        length += field;
    }
}

/// Variables of the gateway, each with the names that other products have for it.
const FOREIGN: &[(&str, &[&str])] = &[
    ("body", &["req.body", "request.body"]),
    ("claims", &["auth", "jwt", "token"]),
    ("client.address", &["client_ip", "ip", "remote_addr"]),
    ("cookies", &["cookie", "req.cookies"]),
    ("headers", &["header", "req.headers", "request.headers"]),
    ("headers.host", &["http_host"]),
    ("host", &["hostname", "req.host", "request.host", "server_name"]),
    ("method", &["http_method", "req.method", "request.method", "request_method", "verb"]),
    ("path", &["params", "req.params"]),
    ("query", &["args", "query_string", "req.query", "request.query"]),
];

/// Pairs: the name that another product has for a variable, and the name that the gateway has for it.
fn foreign() -> impl Iterator<Item = (&'static str, &'static str)> {
    FOREIGN.iter().flat_map(|(own, others)| others.iter().map(|other| (*other, *own)))
}

fn variables(name: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return "no variables can be used here".to_owned();
    }
    let list: Vec<String> = known.iter().map(|name| format!("${name}")).collect();
    let begin = |own: &str| own.split('.').next().is_some_and(|first| known.contains(&first));
    if let Some((_, own)) = foreign().find(|(other, own)| *other == name && begin(own)) {
        return format!("write `${own}`");
    }
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `${near}`? There are {}", list.join(", ")),
        None => format!("there are {}", list.join(", ")),
    }
}

fn function(source: &str, name: &str, arity: usize) -> Fault {
    let mut arities: Vec<usize> = library::functions().filter(|(known, _)| *known == name).map(|it| it.1).collect();
    arities.sort_unstable();
    arities.dedup();
    if !arities.is_empty() {
        let takes: Vec<String> = arities.iter().map(usize::to_string).collect();
        let message = format!("`{name}` does not take {arity} arguments");
        return fault(source, name, message, format!("it takes {}; they are separated by `;`", takes.join(" or ")));
    }
    let near = nearest(name, library::functions().map(|it| it.0));
    let remedy = match (foreign_syntax::same(name), near) {
        (Some(same), _) => format!("write `{same}`"),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) if arity == 0 => format!("write `.{name}` for a field, `\"{name}\"` for text"),
        (None, None) => "use a function of jq's manual".to_owned(),
    };
    fault(source, name, format!("there is no function `{name}`"), remedy)
}

fn deep(source: &str) -> Fault {
    fault(source, source, "the expression nests too deep", "split it into several steps")
}

/// The nearest candidate by edit distance, if it is near enough for a typing error.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let slip = |candidate: &&'a str| edits(name, candidate);
    let near = candidates.min_by_key(slip)?;
    (edits(name, near) <= 1 + name.len() / 4).then_some(near)
}

/// The Levenshtein distance.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, a) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (at, b) in right.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{FEW, compile, nesting};

    #[test]
    fn words_and_signs_are_counted() {
        for (source, number) in [("", 0), (".", 1), ("{id, name}", 5), ("if .a then 1 else 2 end", 8), ("\"é x\"", 4)]
        {
            assert_eq!(nesting(source), number, "{source}");
        }
    }

    /// Tests the deepest expressions that are compiled on the calling thread.
    #[test]
    fn what_is_compiled_at_once_needs_little_stack() {
        let around = |open: &str, close: &str, times: usize| format!("{}.{}", open.repeat(times), close.repeat(times));
        let deep = [
            around("(", ")", FEW / 2 - 1),
            around("[", "]", FEW / 2 - 1),
            around("-", "", FEW - 1),
            around("try ", "", FEW - 1),
            around("{a:", "}", FEW / 4 - 1),
            around(".+", "", FEW / 2 - 1),
            around(".|", "", FEW / 2 - 1),
            around("reduce . as $x(", ";.)", FEW / 10),
            around("if ", " then . end", FEW / 4 - 1),
        ];
        for source in deep {
            assert!(nesting(&source) <= FEW, "{source}");
            let stack = thread::Builder::new().stack_size(1 << 20);
            let compiled = stack.spawn(move || drop(compile(&source, &[]))).expect("a thread");
            compiled.join().expect("within the stack");
        }
    }
}
