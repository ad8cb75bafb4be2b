//! `follow`: fetches what the links in an item lead to.

mod ask;
mod ready;
mod written;

use std::sync::Arc;

use crate::jq::Data;
use crate::spec::{Expression, Json, Located};
use crate::step::status::Rules;
use crate::step::{About, Compile, Shape, Spec, Step, part};
use crate::template;

use self::ready::{Following, Links, Ready};
pub use self::written::Follow;
use self::written::PAGES;

/// Levels of documents within each other; JSON nests no deeper than 128.
const DEPTH: u64 = 100;

impl Follow {
    /// The links as they are written: the expression, or the relation in a header field.
    fn links(&self, cx: &mut Compile<'_>) -> Option<(Written, Located<String>)> {
        let written: Vec<(Written, &Located<String>)> = [
            self.link.as_ref().map(|link| (Written::Jq(link.clone()), &link.0)),
            self.next.as_ref().map(|next| (Written::Jq(next.clone()), &next.0)),
            self.hal.as_ref().map(|relation| (Written::Jq(Expression::plain(self.recipe(relation, HAL))), relation)),
            self.json_api
                .as_ref()
                .map(|relation| (Written::Jq(Expression::plain(self.recipe(relation, JSON_API))), relation)),
            self.link_header.as_ref().map(|relation| (Written::Header(relation.value.as_str().into()), relation)),
        ]
        .into_iter()
        .flatten()
        .collect();
        match written.len() {
            1 => written.into_iter().next().map(|(links, place)| (links, place.clone())),
            0 => {
                let remedy = "write `link: EXPRESSION`, or one of `next`, `hal`, `json_api`, `link_header`";
                cx.problems.error_here("`follow` without a link", remedy)
            }
            _ => cx.problems.error(written[1].1.span, "`follow` has two links", "follow them in two steps"),
        }
    }

    /// The expression for a relation, within the document that `base` names.
    fn recipe(&self, relation: &Located<String>, recipe: &str) -> Located<String> {
        let within = self.base.as_ref().map(|base| format!(".[{}] | ", Json::from(base.as_str())));
        let relation_text = Json::from(relation.as_str()).to_string();
        let source = within.unwrap_or_default() + &recipe.replace("REL", &relation_text);
        Located::new(source, relation.span)
    }
}

/// Whether an expression is a path into one value, such as `.case.links[0].href`: all that it gives is within that.
fn is_path(expression: &str) -> bool {
    let text = expression.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.[]?\"".contains(c);
    let beginning = text.strip_prefix('.').or_else(|| text.strip_prefix('$'));
    // `.[]` is all values of an item, also documents that were put into it.
    beginning.is_some_and(|rest| rest.chars().all(fits) && !rest.starts_with(['.', '?']) && !rest.starts_with("[]"))
}

/// A relation is one link or a list of them; one that is missing is none.
const HAL: &str = "._links[REL]? | if type == \"array\" then .[] else . end | .href? | select(. != null)";

/// A link is its URL or an object that holds it.
const JSON_API: &str = "first((.links[REL]?, .relationships[REL]?.links.related?, .data?.relationships?[REL]?.links.related?) \
    | if type == \"object\" then .href else . end | select(. != null)) // null";

enum Written {
    Jq(Expression),
    Header(Arc<str>),
}

impl Spec for Follow {
    fn about(&self) -> About {
        let replaces = self.name.is_none() && self.next.is_none() && self.pages.is_none();
        About { follows: true, replaces, ..About::default() }
    }

    fn compile(mut self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>> {
        let asks = self.request.is_some();
        let asking = ask::compile(&mut self, cx);
        let links = self.links(cx);
        let when = self.when.as_ref().map(|when| cx.condition(when));
        let base = self.part(links.as_ref(), cx);
        let one_document = self.reads_one_document(links.as_ref(), cx);
        let named = self.named(cx);
        let bounds = self.bounds(cx);
        let otherwise = cx.literal(self.otherwise.as_ref());
        let rules = self.on_status.take().map_or(Some(Rules::default()), |rules| rules.compile(cx));
        let (links, text) = match links? {
            (Written::Jq(written), text) => (Links::Jq(cx.filter(&written)?), text),
            (Written::Header(relation), text) => (Links::Header(relation), text),
        };
        let when = when.map_or(Some(None), |filter| filter.map(Some))?;
        let (base, (), otherwise, rules) = (base?, bounds?, otherwise?.map(Data::Json), rules?);
        let named = named?;
        let asking = asking?;
        if !asks {
            self.explain(&text, cx);
        }
        if let Some(name) = &self.name {
            cx.put_under(name);
        }
        let (pages, hidden) = (self.most_pages(), template::hidden(&text));
        let ready = Arc::new(Ready {
            links,
            part: base,
            name: self.name.map(|name| name.value),
            limit: self.limit.value,
            depth: self.depth.value,
            concurrency: self.concurrency.map(|most| most.value),
            pages,
            when,
            otherwise,
            rules,
            timeout: self.timeout,
            max_body: self.max_body.bytes(),
            upstreams: cx.any_upstream(),
            named,
            one_document,
            first: cx.flow.first,
            asked: cx.found.asked.clone(),
            noted: cx.calling("follow", hidden),
            order: cx.ahead.order,
            notes_base: cx.ahead.follows,
        });
        Some(match asking {
            Some(asking) => Box::new(ask::Asks::new(ready, asking)),
            None => Box::new(Following(ready)),
        })
    }
}

impl Follow {
    /// The part of an item whose URL relative links are resolved against.
    fn part(&self, links: Option<&(Written, Located<String>)>, cx: &mut Compile<'_>) -> Option<String> {
        let Some(base) = &self.base else {
            let written = links.map(|(links, _)| match links {
                Written::Jq(written) => part(written.0.as_str()),
                Written::Header(_) => "",
            });
            return Some(written.unwrap_or_default().to_owned());
        };
        if cx.flow.documents.contains(&base.value) {
            cx.flow.unused.retain(|(key, _)| *key != base.value);
            return Some(base.value.clone());
        }
        let remedy = match cx.flow.documents.as_slice() {
            [] => "no `follow` before this one has an `as`".to_owned(),
            known => format!("the documents are {}", known.join(", ")),
        };
        cx.problems.error(base.span, format!("no document was put under `{base}`"), remedy)
    }

    /// Whether the links can only be of the document that they are resolved against: the expression reads nothing else.
    fn reads_one_document(&self, links: Option<&(Written, Located<String>)>, cx: &Compile<'_>) -> bool {
        let taken = |key: &&str| cx.flow.documents.iter().any(|known| known == key);
        match links {
            _ if self.base.is_some() => true,
            Some((Written::Header(_), _)) => true,
            Some((Written::Jq(_), _)) if self.hal.is_some() => true,
            Some((Written::Jq(_), _)) if self.json_api.is_some() => {
                !["links", "relationships", "data"].iter().any(taken)
            }
            Some((Written::Jq(written), _)) => is_path(written.0.as_str()),
            None => false,
        }
    }

    /// The names of the upstreams that `to` names, and of those that choices among them lead to.
    fn named(&self, cx: &mut Compile<'_>) -> Option<Vec<Arc<str>>> {
        let Some(to) = &self.to else { return Some(Vec::new()) };
        if let Some(request) = &self.request {
            let remedy = "leave it out: the call of `request` goes to the upstream that it names";
            return cx.problems.error(to.span, format!("`to` is for links, and `{}` is called", request.to), remedy);
        }
        if to.value.0.is_empty() {
            return cx.problems.error(to.span, "`to` names no upstream", "name one, or leave it out");
        }
        let found: Vec<_> = to.value.0.iter().map(|name| cx.upstream(name)).collect();
        let found: Option<Vec<_>> = found.into_iter().collect();
        found.map(|upstreams| upstreams.iter().flat_map(|upstream| upstream.names()).collect())
    }

    fn most_pages(&self) -> Option<u64> {
        self.pages.as_ref().map(|pages| pages.value).or(self.next.as_ref().map(|_| PAGES))
    }

    fn bounds(&self, cx: &mut Compile<'_>) -> Option<()> {
        let paged = self.pages.is_some() || self.next.is_some();
        let unpaged = [
            self.name.as_ref().map(|name| name.span),
            (self.depth.value != 1).then_some(self.depth.span),
            (self.limit.value != 1).then_some(self.limit.span),
        ];
        if let (true, Some(span)) = (paged, unpaged.into_iter().flatten().next()) {
            let remedy = "leave out `as`, `limit` and `depth`: each page is an item";
            return cx.problems.error(span, "pages follow one another", remedy);
        }
        let bounds = [Some(&self.limit), Some(&self.depth), self.pages.as_ref()];
        if let Some(zero) = bounds.into_iter().flatten().find(|bound| bound.value == 0) {
            return cx.problems.error(zero.span, "`follow` with a bound of 0 follows nothing", "leave out the step");
        }
        if let (Some(most), 1) = (&self.concurrency, self.limit.value) {
            let remedy = "set a `limit` above 1, or write it at `each`, for how many items run side by side";
            return cx.problems.error(most.span, "`concurrency` is for several links of one document", remedy);
        }
        if self.depth.value > DEPTH {
            let message = format!("`depth` is at most {DEPTH}");
            return cx.problems.error(self.depth.span, message, "JSON nests no deeper than 128 levels");
        }
        Some(())
    }

    /// ", at most 5 of each document, 3 deep"
    fn bound(&self) -> String {
        let at_once = self.concurrency.as_ref().map(|most| format!(", {most} at once")).unwrap_or_default();
        let links = if self.limit.value > 1 {
            format!(", at most {} of each document{at_once}", self.limit.value)
        } else {
            String::new()
        };
        if self.depth.value > 1 { format!("{links}, {} deep", self.depth.value) } else { links }
    }

    /// ", with the credentials of shop and users"
    fn led_to(&self) -> String {
        let names = self.to.iter().flat_map(|to| &to.value.0).map(Located::as_str);
        let names = names.collect::<Vec<_>>().join(" and ");
        if names.is_empty() { names } else { format!(", with the credentials of {names}") }
    }

    fn explain(&self, text: &Located<String>, cx: &mut Compile<'_>) {
        let each = match self.most_pages() {
            Some(pages) => pages - 1,
            // The links of a document, theirs, and so on.
            None => (0..self.depth.value).fold(0_u64, |sum, _| sum.saturating_add(1).saturating_mul(self.limit.value)),
        };
        let name = self.name.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
        let calls = cx.flow.shape.most().saturating_mul(each);
        if self.pages.is_some() || self.next.is_some() {
            let waits = "a page is read whole; it flows on while the next one is fetched";
            let text = format!("follow {text} from page to page, at most {}{}", each + 1, self.led_to());
            cx.explain(text, Some(waits), calls);
            cx.flow.shape = Shape::Many(cx.flow.shape.most().saturating_mul(each + 1));
        } else {
            let waits = "an item is read whole, and what its link leads to; other items do not wait for it";
            cx.explain(format!("follow {text}{name}{}{}", self.bound(), self.led_to()), Some(waits), calls);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_path;

    #[test]
    fn a_path_reads_one_value() {
        for path in [".", ".href", ".a.b[0].c?", ".[\"a\"].b", "$orders.next", ".\"a\".b", ".items[].href", " .a "] {
            assert!(is_path(path), "{path}");
        }
        for other in
            ["..", ".[]", ".[]?.href", ".a, .b", ".a // .b", "$a + .b", ".a | $b", "\"/x\"", "first(.a)", "..a", ""]
        {
            assert!(!is_path(other), "{other}");
        }
    }
}
