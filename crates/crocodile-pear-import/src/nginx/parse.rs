//! The directives of an nginx file and of all that it includes.

use std::fs;
use std::path::{Path, PathBuf};

use crocodile_pear_spec::problem::Span;

use super::known;
use super::lexer::{Lexer, SyntaxError, Token, Word};
use crate::outcome::Unreadable;
use crocodile_pear_spec::document::{self, Source, Sources, expand, is_pattern};

#[derive(Debug)]
pub struct Directive {
    pub name: String,
    pub span: Span,
    pub args: Vec<Word>,
    pub block: Option<Vec<Directive>>,
    /// Its number among all directives, in the order of reading.
    pub number: usize,
    /// The note about an `include` that names no file.
    pub note: Option<String>,
}

impl Directive {
    pub fn arg(&self, at: usize) -> Option<&str> {
        self.args.get(at).map(|word| word.text.as_str())
    }

    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.args.iter().map(|word| word.text.as_str())
    }

    /// The directives of its block.
    pub fn inner(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Whether its only argument is this word.
    pub fn is(&self, word: &str) -> bool {
        self.arg(0) == Some(word)
    }
}

/// Deeper blocks are a mistake; so are more files, and more directives.
const DEEPEST: usize = 64;
const MOST_FILES: usize = 512;
const MOST_DIRECTIVES: usize = 500_000;

/// All directives, with the files that they were read from.
pub struct ParsedConfig {
    pub directives: Vec<Directive>,
    pub sources: Sources,
}

/// Reads a file and all that it includes.
///
/// # Errors
/// Where a file cannot be read, or is no file of nginx.
pub fn read(path: &Path) -> Result<ParsedConfig, Unreadable> {
    let main = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut reader = ConfigReader { main, sources: Sources::default(), within: Vec::new(), count: 0 };
    match reader.file(path, Span::default(), 0) {
        Ok(directives) => Ok(ParsedConfig { directives, sources: reader.sources }),
        Err(SyntaxError { span, message, remedy }) => {
            if reader.sources.files.is_empty() {
                reader.sources.files.push(Source { path: path.to_owned(), text: String::new() });
            }
            let mut problems = crocodile_pear_spec::problem::Problems::default();
            problems.error::<()>(span, message, remedy);
            Err(Unreadable { sources: reader.sources, problems: problems.into_sorted() })
        }
    }
}

struct ConfigReader {
    /// The folder of the main file: includes are relative to it.
    main: PathBuf,
    sources: Sources,
    /// The files that are being read, outermost first.
    within: Vec<PathBuf>,
    count: usize,
}

impl ConfigReader {
    /// The directives of a file; `from` is where it is included.
    fn file(&mut self, path: &Path, from: Span, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
        let fault = |message: String, remedy| SyntaxError { span: from, message, remedy };
        let identity = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.within.contains(&identity) {
            let message = format!("`{}` includes itself, directly or through another file", path.display());
            return Err(fault(message, "leave this line out"));
        }
        if self.sources.files.len() >= MOST_FILES {
            return Err(fault(format!("more than {MOST_FILES} files are included"), "put some together"));
        }
        let bytes =
            document::read(path).map_err(|why| fault(format!("cannot read `{}`: {why}", path.display()), ""))?;
        let file = u32::try_from(self.sources.files.len()).unwrap_or(u32::MAX);
        let (text, invalid) = match String::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(wrong) => {
                let valid = String::from_utf8_lossy(&wrong.as_bytes()[..wrong.utf8_error().valid_up_to()]).into_owned();
                let line = u32::try_from(valid.matches('\n').count() + 1).unwrap_or(u32::MAX);
                let all = String::from_utf8_lossy(wrong.as_bytes()).into_owned();
                (all, Some(Span { file, line, column: 1, length: 1 }))
            }
        };
        let text = text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned);
        self.sources.files.push(Source { path: path.to_owned(), text: text.clone() });
        if let Some(span) = invalid {
            let remedy = "save the file as UTF-8";
            return Err(SyntaxError { span, message: "this line is not UTF-8".to_owned(), remedy });
        }
        self.within.push(identity);
        let mut lexer = Lexer::new(file, &text);
        let directives = self.block(&mut lexer, None, depth)?;
        self.within.pop();
        Ok(directives)
    }

    /// The directives up to the end of a block, or of the file.
    fn block(
        &mut self,
        lexer: &mut Lexer<'_>,
        open: Option<Span>,
        depth: usize,
    ) -> Result<Vec<Directive>, SyntaxError> {
        if depth > DEEPEST {
            let message = format!("blocks are nested more than {DEEPEST} deep");
            return Err(SyntaxError { span: open.unwrap_or(lexer.here()), message, remedy: "" });
        }
        let mut directives = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        loop {
            match lexer.token()? {
                None => match (open, words.first()) {
                    (_, Some(word)) => {
                        let message = format!("`{}` has no end: the file ends before its `;`", short(&word.text));
                        let remedy = "end each directive with `;`";
                        return Err(SyntaxError { span: word.span, message, remedy });
                    }
                    (Some(span), None) => {
                        let message = "this block has no end: the file ends before its `}`".to_owned();
                        return Err(SyntaxError { span, message, remedy: "close it with `}`" });
                    }
                    (None, None) => return Ok(directives),
                },
                Some((Token::Word(word), _)) => words.push(word),
                Some((Token::End, span)) => self.directive(span, &mut words, &mut directives, depth)?,
                Some((Token::Open, span)) => {
                    let Some((name, args)) = named(&mut words) else {
                        let remedy = "a block begins with its name: `server {`";
                        return Err(SyntaxError { span, message: "unexpected `{`".to_owned(), remedy });
                    };
                    let number = self.number(name.span)?;
                    let block = match name.text.ends_with("_by_lua_block") {
                        true if lexer.skip_lua() => Vec::new(),
                        true => {
                            let message = "this block of Lua has no end".to_owned();
                            return Err(SyntaxError { span, message, remedy: "close it with `}`" });
                        }
                        false => self.block(lexer, Some(name.span), depth + 1)?,
                    };
                    let (name, span) = (name.text, name.span);
                    directives.push(Directive { name, span, args, block: Some(block), number, note: None });
                }
                Some((Token::Close, span)) => match (open, words.first()) {
                    (Some(_), None) => return Ok(directives),
                    (_, Some(word)) => {
                        let message = format!("`{}` is not ended before this `}}`", short(&word.text));
                        return Err(SyntaxError { span, message, remedy: "end it with `;`" });
                    }
                    (None, None) => {
                        let message = "unexpected `}`: no block is open here".to_owned();
                        return Err(SyntaxError { span, message, remedy: "take it away, or open a block before it" });
                    }
                },
            }
        }
    }

    fn number(&mut self, span: Span) -> Result<usize, SyntaxError> {
        self.count += 1;
        if self.count > MOST_DIRECTIVES {
            let message = format!("there are more than {MOST_DIRECTIVES} directives");
            return Err(SyntaxError { span, message, remedy: "" });
        }
        Ok(self.count)
    }

    /// A directive without a block; of an `include`, what it includes.
    fn directive(
        &mut self,
        end: Span,
        words: &mut Vec<Word>,
        directives: &mut Vec<Directive>,
        depth: usize,
    ) -> Result<(), SyntaxError> {
        let Some((name, args)) = named(words) else {
            return Err(SyntaxError { span: end, message: "unexpected `;`".to_owned(), remedy: "take it away" });
        };
        let number = self.number(name.span)?;
        let mut directive = Directive { name: name.text, span: name.span, args, block: None, number, note: None };
        if directive.name != "include" {
            directives.push(directive);
            return Ok(());
        }
        let Some(file) = directive.args.first().cloned() else {
            let message = "`include` names no file".to_owned();
            return Err(SyntaxError { span: directive.span, message, remedy: "write `include FILE;`" });
        };
        let paths = self.included(&file, &mut directive)?;
        directives.push(directive);
        for path in paths {
            directives.extend(self.file(&path, file.span, depth)?);
        }
        Ok(())
    }

    /// The files that an `include` means. What the machine of nginx has in `/etc/nginx`, may lie beside the main file.
    fn included(&self, file: &Word, directive: &mut Directive) -> Result<Vec<PathBuf>, SyntaxError> {
        let written = file.text.as_str();
        let beside = written.strip_prefix("/etc/nginx/").or_else(|| written.strip_prefix("/usr/local/nginx/conf/"));
        let names: Vec<&str> = [Some(written), beside].into_iter().flatten().collect();
        if is_pattern(written) {
            let found = names.iter().map(|name| expand(&self.main, name)).find(|found| !found.is_empty());
            if found.is_none() {
                directive.note = Some("no file has such a name".to_owned());
            }
            return Ok(found.unwrap_or_default());
        }
        let paths = names.iter().map(|name| self.main.join(name)).chain(beside.map(|name| {
            // `conf.d/x.conf` of a repository often lies beside its `nginx.conf`.
            self.main.join(Path::new(name).file_name().unwrap_or_default())
        }));
        if let Some(path) = paths.into_iter().find(|path| path.exists()) {
            return Ok(vec![path]);
        }
        if let Some(why) = known::absent(written) {
            directive.note = Some(why.to_owned());
            return Ok(Vec::new());
        }
        Err(SyntaxError {
            span: file.span,
            message: format!("cannot read `{written}`: there is no such file"),
            remedy: "copy the file to the folder of the main file, or take the line away; relative paths begin there",
        })
    }
}

/// The name and the arguments of a directive.
fn named(words: &mut Vec<Word>) -> Option<(Word, Vec<Word>)> {
    let mut all = std::mem::take(words).into_iter();
    let name = all.next()?;
    Some((name, all.collect()))
}

fn short(text: &str) -> String {
    let line: String = text.chars().take_while(|letter| *letter != '\n').take(40).collect();
    if line.len() < text.len() { format!("{line}…") } else { line }
}
