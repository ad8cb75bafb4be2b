//! From source to a filter, or to every fault of it.

use std::collections::HashSet;
use std::thread;

use jaq_core::load::lex::{self, Lexer};
use jaq_core::load::parse::{self, Def, Parser, Term};
use jaq_core::load::{Arena, File, Loader, span};

use super::library::{self, REFUSED};
use super::native::Native;
use super::scope::{self, NESTING, Scope, Wrong};
use super::{Fault, Filter, budget, taken};

/// Bytes of an expression: more is a program.
const SOURCE: usize = 16 << 10;

/// The engine's parser recurses; this suffices for `SOURCE` brackets. It is reserved, not used.
const STACK: usize = 256 << 20;

/// The name of the expression among the definitions.
const MAIN: &str = "__main";

/// Compiles on a thread of its own, for its stack.
pub fn compile(source: &str, known: &[&str]) -> Result<Filter, Vec<Fault>> {
    if source.len() > SOURCE {
        let message = format!("the expression is longer than {SOURCE} bytes");
        return Err(vec![fault(source, source, message, "split it into several steps")]);
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
    let mut term = read(source)?;
    if scope::nesting(&term) > NESTING {
        return Err(vec![deep(source)]);
    }
    let reads_item = scope::reads(&term);
    let native = Native::of(&term);
    let takes = taken::keys(&term);
    let natives = library::natives();
    let mut definitions: Vec<Def<&str>> = library::definitions();
    let mut scope = Scope::new(natives.iter().map(|(name, arguments, _)| (*name, arguments.len())).collect(), known);
    scope.library(&mut definitions);
    debug_assert!(scope.wrong.is_empty(), "the library resolves");
    let depth = scope.expression(&mut term);
    if !scope.wrong.is_empty() {
        return Err(scope.wrong.iter().map(|wrong| describe(source, wrong, &scope, known)).collect());
    }
    if depth > NESTING {
        return Err(vec![deep(source)]);
    }
    let uses = scope.uses;
    let mut names = HashSet::new();
    scope::calls(&term, &mut names);
    let mut needed = library::needed(names, definitions);
    needed.push(Def { name: MAIN, args: Vec::new(), body: term });
    let arena = Arena::default();
    let broken = || vec![fault(source, source, "the expression could not be compiled", "write it in a simpler way")];
    let modules = Loader::new(needed).load(&arena, File { code: MAIN, path: () }).map_err(|_| broken())?;
    let variables: Vec<String> = uses.iter().map(|name| format!("${name}")).collect();
    let compiler =
        jaq_core::Compiler::default().with_funs(natives).with_global_vars(variables.iter().map(String::as_str));
    let engine = compiler.compile(modules).map_err(|_| broken())?;
    // Each output passes every level of the expression on its way out.
    let work = budget::WORK / (1 + depth as u64 / 32);
    Ok(Filter { engine, native, uses, reads_item, takes, work })
}

fn read(source: &str) -> Result<Term<&str>, Vec<Fault>> {
    let head = source.trim_start();
    for word in ["import", "include", "module"] {
        if head.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '"', '{'])) {
            let message = format!("`{word}` is refused: an expression stands alone");
            return Err(vec![fault(source, &head[..word.len()], message, "write the definitions into the expression")]);
        }
    }
    let lexed = Lexer::new(source).lex();
    let tokens = lexed.map_err(|errors| errors.iter().map(|error| unlexed(source, error)).collect::<Vec<_>>())?;
    let parsed = Parser::new(&tokens).parse(Parser::term);
    parsed.map_err(|errors| {
        let found = errors.into_iter().map(|(expected, token)| (expected, token.map(lex::Token::as_str)));
        found.map(|(expected, found)| unparsed(source, &expected, found)).collect()
    })
}

fn unlexed(source: &str, (expected, rest): &lex::Error<&str>) -> Fault {
    let first = rest.chars().next().map_or("", |first| &rest[..first.len_utf8()]);
    let message = match expected {
        lex::Expect::Delim(open) => {
            let at = if source.len() >= span(source, open).end { *open } else { first };
            let message =
                format!("this {} is never closed", if *open == "\"" { "quote".into() } else { format!("`{open}`") });
            return fault(source, at, message, format!("close it: a {} is missing", expected.as_str()));
        }
        lex::Expect::Digit => "the number breaks off",
        lex::Expect::Ident => "a name is missing",
        lex::Expect::Escape => "strings have no such escape",
        lex::Expect::Unicode => "`\\u` takes four hexadecimal digits of a character",
        _ => "expressions have no such character",
    };
    fault(source, first, message, format!("a {} belongs here", expected.as_str()))
}

fn unparsed(source: &str, expected: &parse::Expect<&str>, found: Option<&str>) -> Fault {
    let end = &source[source.len()..];
    let wanted = match expected {
        parse::Expect::Just("") => "the end".to_owned(),
        parse::Expect::Just(token) => format!("`{token}`"),
        parse::Expect::Nothing => "an operator such as `|` or the end".to_owned(),
        parse::Expect::Term => "a term such as `.name`, `$variable` or a string".to_owned(),
        parse::Expect::Key => "a key such as `.name` or `[\"name\"]`".to_owned(),
        other => format!("a {}", other.as_str()),
    };
    // Of a bracket only its beginning is meant.
    let token = found.map_or(end, |token| if token.starts_with(['(', '[', '{']) { &token[..1] } else { token });
    let message = match found {
        Some(_) => format!("`{token}` cannot stand here"),
        None => "the expression breaks off".to_owned(),
    };
    fault(source, token, message, format!("{wanted} belongs here"))
}

fn describe(source: &str, wrong: &Wrong<'_>, scope: &Scope<'_>, known: &[&str]) -> Fault {
    match wrong {
        Wrong::Variable(name @ ("$ENV" | "$__prog_args")) => {
            let message = format!("`{name}` is refused: it reads the gateway's environment");
            fault(source, name, message, "write `${NAME}` where the configuration takes a value of the environment")
        }
        Wrong::Variable(name) => {
            let message = format!("there is no variable `{name}` here");
            fault(source, name, message, variables(name.trim_start_matches('$'), known))
        }
        Wrong::Label(name) => fault(
            source,
            name,
            format!("there is no label `{name}` here"),
            format!("write `label {name} | …` around it"),
        ),
        Wrong::Reserved(name) => fault(
            source,
            name,
            format!("`{name}` is reserved"),
            "names that begin with two underscores are the gateway's",
        ),
        Wrong::Recursive(name) => {
            let message = format!("`{name}` calls itself: recursive definitions are refused, nothing bounds them");
            fault(source, name, message, "use `recurse`, `reduce`, `until` or `walk`")
        }
        Wrong::Function(name, arity) => match REFUSED.iter().find(|(refused, _)| refused == name) {
            Some((_, why)) => fault(source, name, format!("`{name}` is refused: {why}"), "leave it out"),
            None => function(source, name, *arity, scope),
        },
    }
}

fn variables(name: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return "no variables can be used here".to_owned();
    }
    let list: Vec<String> = known.iter().map(|name| format!("${name}")).collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `${near}`? There are {}", list.join(", ")),
        None => format!("there are {}", list.join(", ")),
    }
}

fn function(source: &str, name: &str, arity: usize, scope: &Scope<'_>) -> Fault {
    let mut arities: Vec<usize> = scope.functions().filter(|(known, _)| *known == name).map(|it| it.1).collect();
    arities.sort_unstable();
    arities.dedup();
    if !arities.is_empty() {
        let takes: Vec<String> = arities.iter().map(usize::to_string).collect();
        let message = format!("`{name}` does not take {arity} arguments");
        return fault(source, name, message, format!("it takes {}; they are separated by `;`", takes.join(" or ")));
    }
    let remedy = match nearest(name, scope.functions().map(|it| it.0)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if arity == 0 => format!("write `.{name}` for a field, `\"{name}\"` for text"),
        None => "use a function of jq's manual".to_owned(),
    };
    fault(source, name, format!("there is no function `{name}`"), remedy)
}

fn deep(source: &str) -> Fault {
    fault(source, source, "the expression nests too deep", "split it into several steps")
}

fn fault(source: &str, part: &str, message: impl Into<String>, remedy: impl Into<String>) -> Fault {
    let place = span(source, part);
    Fault { offset: place.start, length: place.len(), message: message.into(), remedy: remedy.into() }
}

/// The candidate fewest edits away, if few enough to be a slip.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let slip = |candidate: &&'a str| edits(name, candidate);
    let near = candidates.min_by_key(slip)?;
    (edits(name, near) <= 1 + name.len() / 4).then_some(near)
}

/// Levenshtein's distance.
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
