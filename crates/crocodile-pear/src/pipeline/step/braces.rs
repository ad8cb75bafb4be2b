//! Texts with braces, compiled: paths, header fields.

use super::compile::Compile;
use crate::config::spec::{ExpressionSpec, Located, suggest};
use crate::jq;
use crate::template::{self, Template, TemplateKind, TemplatePiece};

impl Compile<'_> {
    pub fn template(&mut self, written: &Located<String>, kind: TemplateKind) -> Option<Template> {
        let pieces = match template::split(written) {
            Ok(pieces) => pieces,
            Err(at) => {
                let remedy = match kind {
                    TemplateKind::Target => "close it with `}`, or write a literal brace as `%7B` or `%7D`",
                    TemplateKind::Field => "close it with `}`, or write a literal brace as `{\"{\"}` or `{\"}\"}`",
                };
                return self.problems.error(written.at(at, 1), "this brace is unmatched", remedy);
            }
        };
        let (mut sound, mut in_path) = (true, kind == TemplateKind::Target);
        for (at, piece) in &pieces {
            sound &= self.check_piece(written, *at, piece, kind, in_path);
            if let TemplatePiece::Text(text) = piece {
                sound &= kind == TemplateKind::Field || self.check_target(written, *at, text, in_path);
                in_path &= !text.contains('?');
            }
        }
        let rest = self.known.route.rest;
        let pieces = pieces.into_iter().map(|(at, piece)| match piece {
            TemplatePiece::Param(name) if Some(name) == rest => (at, TemplatePiece::Rest(name)),
            piece => (at, piece),
        });
        if !sound {
            // Its consequences need not be reported.
            self.flow.item = true;
        }
        let template = Template::compile(pieces.collect(), kind, |at, source| {
            let expression = ExpressionSpec::of(written.part(at, source.len()), self.problems.all())?;
            self.filter(&expression)
        });
        template.filter(|_| sound)
    }

    fn is_param(&self, name: &str) -> bool {
        self.known.route.params.iter().any(|known| known == name)
    }

    fn check_piece(
        &mut self,
        written: &Located<String>,
        at: usize,
        piece: &TemplatePiece<'_>,
        kind: TemplateKind,
        in_path: bool,
    ) -> bool {
        let (name, message, remedy) = match piece {
            TemplatePiece::Param(_) | TemplatePiece::Rest(_) if self.known.route.unread => return false,
            TemplatePiece::Jq(source) if doubled(source).is_some() => {
                let inner = doubled(source).unwrap_or_default();
                (source, "this is an object, and a URL takes a text".to_owned(), format!("write `{{{inner}}}`"))
            }
            // Outside of URLs an object may be wanted: as JSON, in the format of a log.
            TemplatePiece::Jq(source) if kind == TemplateKind::Target && OBJECTS.contains(&source.trim()) => {
                let remedy = match source.trim() {
                    "$query" => {
                        "write `?*` at the end of the path for the client's query, or `{$query.NAME}`".to_owned()
                    }
                    object => format!("name a field, as in `{{{object}.NAME}}`"),
                };
                (source, "this is an object, and a URL takes a text".to_owned(), remedy)
            }
            TemplatePiece::Rest(name) if self.is_param(name) && self.known.route.rest != Some(name) => (
                name,
                format!("`{name}` is one segment of the path, not the rest of it"),
                format!("write `{{{name}}}`"),
            ),
            TemplatePiece::Param(name) | TemplatePiece::Rest(name) if !self.is_param(name) => {
                let remedy = match suggest(name, self.known.route.params.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{{{near}}}`?"),
                    None if jq::is_function(name, 0) => format!("write `{{({name})}}` for the function `{name}`"),
                    None => format!("name it in the endpoint's path, or write `{{$query.{name}}}` for the query"),
                };
                (name, format!("no path parameter is named `{name}`"), remedy)
            }
            TemplatePiece::Segments(source) if !in_path => {
                (source, "only a path has segments".to_owned(), "leave out the `*`".to_owned())
            }
            _ => return true,
        };
        self.problems.error::<()>(written.at(at, name.len()), message, remedy);
        false
    }

    fn check_target(&mut self, written: &Located<String>, at: usize, text: &str, in_path: bool) -> bool {
        let foreign = |c: char| !c.is_ascii_graphic() || "\"#<>\\^`|".contains(c);
        // A variable's value is percent-encoded as needed.
        let wrong = text.char_indices().find(|(offset, c)| foreign(*c) && !written.inserted(at + offset));
        if let Some((offset, c)) = wrong {
            let mut encoded = String::new();
            for byte in c.to_string().bytes() {
                encoded.push_str(&format!("%{byte:02X}"));
            }
            let place = written.at(at + offset, 1);
            let message = format!("{c:?} is not allowed in a URL");
            self.problems.error::<()>(place, message, format!("write it as `{encoded}`"));
            return false;
        }
        self.check_parameters(written, at, text);
        let path = if in_path { text.split('?').next().unwrap_or_default() } else { "" };
        let Some(offset) = template::bare_percent(path).filter(|offset| !written.inserted(at + offset)) else {
            return true;
        };
        let place = written.at(at + offset, 1);
        self.problems.error::<()>(place, "this `%` has no two hexadecimal digits behind it", "write it as `%25`");
        false
    }

    /// Warns of a parameter as other products write it: `/:id`, `$id`.
    fn check_parameters(&mut self, written: &Located<String>, at: usize, text: &str) {
        let word = |text: &str| text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
        for (offset, sign) in text.match_indices(['$', ':']) {
            let name = &text[offset + 1..][..word(&text[offset + 1..])];
            let begins = sign == "$" || text[..offset].ends_with('/');
            if begins && self.known.route.params.iter().any(|known| known == name) {
                let message = format!("`{sign}{name}` is sent unchanged");
                let place = written.at(at + offset, name.len() + 1);
                self.problems.warning(place, message, format!("write `{{{name}}}` for the path parameter"));
            }
        }
    }
}

/// Variables whose value is an object.
const OBJECTS: [&str; 6] = ["$query", "$headers", "$path", "$cookies", "$client", "$claims"];

/// `{{word}}`, as other products have it: the word.
fn doubled(source: &str) -> Option<&str> {
    let inner = source.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    (!inner.contains([':', ','])).then_some(inner)
}
