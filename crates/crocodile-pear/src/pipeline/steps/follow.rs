//! `follow`: fetches what the links in an item lead to.

mod act;
mod ask;
mod created;
mod growth;
mod leads;
mod ready;
mod spec;
mod templates;
mod tree;

use std::sync::Arc;

use crate::config::spec::{ExpressionSpec, Located, Texts};
use crate::hypermedia::{Relation, RelationFormat};
use crate::jq::Data;
use crate::pipeline::call::{Asking, fixed_method, headers};
use crate::pipeline::step::status::StatusRules;
use crate::pipeline::step::{About, Compile, ReadyStep, Shape, Spec, part};
use crate::template;

use self::act::Acting;
pub use self::created::Created;
use self::leads::{Links, NamedAction, Related, Unseen, Variables};
use self::ready::ReadyFollow;
use self::spec::PAGES;
pub use self::spec::{Follow, Prefer, Required, ResultKeys, With};

/// Levels of documents within each other; JSON nests no deeper than 128.
const DEPTH: u64 = 100;

/// Redirects that one link may have: as many as browsers follow.
const MOST_REDIRECTS: u64 = 20;

impl Follow {
    /// The links as they are written: the expression, the relation, or that of a header field.
    fn links(&self, cx: &mut Compile<'_>) -> Option<(FollowForm, Located<String>)> {
        let relation = |form, names: &Located<Texts>| match names.value.0.as_slice() {
            [name] => (FollowForm::Relation(self.relation(form, name)), name.clone()),
            several => {
                let text = several.iter().map(Located::as_str).collect::<Vec<_>>().join(" > ");
                let levels = several.iter().map(|name| self.relation(form, name)).collect();
                (FollowForm::Tree(levels), Located::new(text, names.span))
            }
        };
        let written: Vec<(FollowForm, Located<String>)> = [
            self.link.as_ref().map(|link| (FollowForm::Jq(link.clone()), link.0.clone())),
            self.next.as_ref().map(|next| (FollowForm::Jq(next.clone()), next.0.clone())),
            self.hal.as_ref().map(|name| relation(RelationFormat::Hal, name)),
            self.json_api.as_ref().map(|name| relation(RelationFormat::JsonApi, name)),
            self.siren.as_ref().map(|name| relation(RelationFormat::Siren, name)),
            self.action.as_ref().map(|name| (FollowForm::Action(name.value.clone()), name.clone())),
            self.link_header.as_ref().map(|name| (FollowForm::Header(name.value.as_str().into()), name.clone())),
        ]
        .into_iter()
        .flatten()
        .collect();
        if let Some((FollowForm::Tree(levels), text)) = written.first()
            && levels.is_empty()
        {
            return cx.problems.error(
                text.span,
                "`follow` names no relation",
                "name one, or one for each level of a tree",
            );
        }
        match written.len() {
            1 => written.into_iter().next(),
            0 => {
                let remedy =
                    "write `link: EXPRESSION`, or one of `next`, `hal`, `json_api`, `siren`, `action`, `link_header`";
                cx.problems.error_here("`follow` without a link", remedy)
            }
            _ => cx.problems.error(written[1].1.span, "`follow` has two links", "follow them in two steps"),
        }
    }

    fn relation(&self, form: RelationFormat, name: &Located<String>) -> Relation {
        Relation {
            form,
            name: name.value.clone(),
            link_name: self.link_name.as_ref().map(|name| name.value.clone()),
            prefer: self.prefer.as_ref().map(|prefer| prefer.value.into()).unwrap_or_default(),
        }
    }

    /// Refuses settings of relations beside other links.
    fn check_relation(&self, cx: &mut Compile<'_>) -> Option<()> {
        let related = self.hal.is_some() || self.json_api.is_some() || self.siren.is_some();
        self.check_tree(cx)?;
        if let (Some(prefer), false) = (&self.prefer, related) {
            let remedy = "write `hal`, `json_api` or `siren` instead of `link`, or leave it out";
            return cx.problems.error(prefer.span, "`prefer` is for relations", remedy);
        }
        if let (Some(name), None) = (&self.link_name, &self.hal) {
            return cx.problems.error(name.span, "`name` is for the links of `hal`", "select the link by `link`");
        }
        Some(())
    }

    /// How many levels of relations are written.
    fn levels(&self) -> usize {
        let written = [&self.hal, &self.json_api, &self.siren].into_iter().flatten();
        written.map(|names| names.value.0.len()).max().unwrap_or(0)
    }

    /// Refuses what cannot stand beside the relations of a tree.
    fn check_tree(&self, cx: &mut Compile<'_>) -> Option<()> {
        let levels = self.levels();
        if levels <= 1 {
            return Some(());
        }
        let beside = [
            self.name.as_ref().map(|name| ("as", name.span())),
            (self.depth.value != 1).then_some(("depth", self.depth.span)),
            self.next.as_ref().map(|next| ("next", next.0.span)),
            self.pages.as_ref().map(|pages| ("pages", pages.span)),
            self.base.as_ref().map(|base| ("base", base.span)),
            self.link_name.as_ref().map(|name| ("name", name.span)),
            self.method.as_ref().map(|method| ("method", method.span)),
            self.headers.as_ref().and_then(|all| all.values().next()).map(|(span, _)| ("headers", *span)),
            self.body.as_ref().map(|body| ("body", body.0.span)),
        ];
        if let Some((word, place)) = beside.into_iter().flatten().next() {
            let remedy = "leave it out: each document is read, and put under the name of its relation; or follow the levels \
                          in a step each";
            return cx.problems.error(place, format!("`{word}` beside the relations of a tree"), remedy);
        }
        if levels as u64 > DEPTH {
            let names = [&self.hal, &self.json_api, &self.siren].into_iter().flatten().next();
            let place = names.map(|names| names.span).unwrap_or_default();
            return cx.problems.error(
                place,
                format!("a tree has at most {DEPTH} levels"),
                "JSON nests no deeper than 128",
            );
        }
        Some(())
    }

    /// How links are called, if not just by GET.
    fn acting(&self, cx: &mut Compile<'_>) -> Option<Option<Acting>> {
        let places = [
            self.action.as_ref().map(|action| action.span),
            self.method.as_ref().map(|method| method.span),
            self.headers.as_ref().and_then(|headers| headers.values().next()).map(|(span, _)| *span),
            self.body.as_ref().map(|body| body.0.span),
        ];
        let Some(place) = places.into_iter().flatten().next() else { return Some(None) };
        if self.next.is_some() || self.pages.is_some() || self.depth.value > 1 {
            let remedy = "leave out `next`, `pages` and `depth`; they are for documents that are read";
            return cx.problems.error(place, "a call of its own kind for each page or level", remedy);
        }
        let method = self.method.as_ref().map(|method| fixed_method(method, cx));
        let headers = headers(self.headers.as_ref(), false, cx);
        let body = self.body.as_ref().map(|body| cx.filter(body));
        let method = method.map_or(Some(None), |method| method.map(Some))?;
        let body = body.map_or(Some(None), |body| body.map(Some))?;
        Some(Some(Acting { method, headers: headers?, body }))
    }

    /// The variables of templated links.
    fn variables(&self, cx: &mut Compile<'_>) -> Option<Option<Variables>> {
        let Some(with) = &self.with else { return Some(None) };
        let variables = match &with.value {
            With::Whole(expression) => Variables::Whole(cx.filter(expression)?),
            With::Each(entries) => {
                let filters: Vec<_> = entries
                    .iter()
                    .map(|(name, (_, value))| cx.filter(value).map(|filter| (name.clone(), filter)))
                    .collect();
                Variables::Each(filters.into_iter().collect::<Option<_>>()?)
            }
        };
        Some(Some(variables))
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

enum FollowForm {
    Jq(ExpressionSpec),
    Header(Arc<str>),
    Relation(Relation),
    Tree(Vec<Relation>),
    Action(String),
}

impl Spec for Follow {
    fn about(&self) -> About {
        let replaces = self.name.is_none() && self.next.is_none() && self.pages.is_none();
        About { follows: true, replaces, ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let (ready, asking) = self.ready(cx)?;
        Some(match asking {
            Some(asking) => Arc::new(ask::Asks::new(ready, asking)),
            None => ready,
        })
    }
}

impl Follow {
    /// Makes it ready, and the call of `request` if there is one.
    fn ready(mut self, cx: &mut Compile<'_>) -> Option<(Arc<ReadyFollow>, Option<Asking>)> {
        let asks = self.request.is_some();
        let asking = ask::compile(&mut self, cx);
        let links = self.links(cx);
        let sound = self.check_relation(cx);
        let variables = self.variables(cx);
        let acting = self.acting(cx);
        let when = self.when.as_ref().map(|when| cx.condition(when));
        let base = self.part(links.as_ref(), cx);
        let one_document = self.reads_one_document(links.as_ref(), cx);
        let named = self.named(cx);
        let bounds = self.bounds(cx);
        let otherwise = cx.literal(self.otherwise.as_ref());
        let rules = self.on_status.take().map_or(Some(StatusRules::default()), |rules| rules.compile(cx));
        let within = self.base.as_ref().map(|base| base.value.clone());
        let (links, text) = match links? {
            (FollowForm::Jq(written), text) => (Links::Jq(cx.filter(&written)?), text),
            (FollowForm::Header(relation), text) => (Links::Header(relation), text),
            (FollowForm::Action(name), text) => (Links::Action(NamedAction { name, within }), text),
            (FollowForm::Relation(relation), text) => {
                let typed = cx.known.upstreams.values().any(|upstream| !upstream.types().is_empty());
                (Links::Relation(Related { relation, within, unseen: Unseen::default(), typed }), text)
            }
            (FollowForm::Tree(levels), text) => {
                let typed = cx.known.upstreams.values().any(|upstream| !upstream.types().is_empty());
                let related = |relation| Related { relation, within: None, unseen: Unseen::default(), typed };
                let levels: Vec<Related> = levels.into_iter().map(related).collect();
                cx.flow.documents.extend(levels.first().map(|first| first.relation.name.clone()));
                (Links::Tree(levels), text)
            }
        };
        let ((), variables, acting) = (sound?, variables?, acting?);
        let when = when.map_or(Some(None), |filter| filter.map(Some))?;
        let (base, (), otherwise, rules) = (base?, bounds?, otherwise?.map(Data::Json), rules?);
        let named = named?;
        let asking = asking?;
        if !asks {
            self.explain(&text, cx);
        }
        if let Some(body) = self.name.as_ref().and_then(|name| name.body.as_ref()) {
            cx.put_under(body);
        }
        let ResultKeys { body, head } = self.name.take().unwrap_or(ResultKeys { body: None, head: None });
        let (name, head) = (body.map(|name| name.value), head.map(|name| name.value));
        let (pages, hidden) = (self.most_pages(), template::hidden(&text));
        let ready = Arc::new(ReadyFollow {
            links,
            variables,
            acting,
            required: (self.required == Required::On).then(|| format!("the item has no link at `{text}`")),
            redirects: self.redirects.value,
            part: base,
            name,
            head,
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
            answers_used: cx.found.answers_used.clone(),
            noted: cx.calling("follow", hidden),
            order: cx.ahead.order,
            notes_base: cx.ahead.follows,
        });
        Some((ready, asking))
    }
}

impl Follow {
    /// The part of an item whose URL relative links are resolved against.
    fn part(&self, links: Option<&(FollowForm, Located<String>)>, cx: &mut Compile<'_>) -> Option<String> {
        let Some(base) = &self.base else {
            let written = links.map(|(links, _)| match links {
                FollowForm::Jq(written) => part(written.0.as_str()),
                FollowForm::Header(_) | FollowForm::Relation(_) | FollowForm::Tree(_) | FollowForm::Action(_) => "",
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
    fn reads_one_document(&self, links: Option<&(FollowForm, Located<String>)>, cx: &Compile<'_>) -> bool {
        let taken = |key: &&str| cx.flow.documents.iter().any(|known| known == key);
        match links {
            _ if self.base.is_some() => true,
            Some((FollowForm::Header(_), _)) => true,
            Some((FollowForm::Action(_), _)) => !["_links", "_templates", "actions"].iter().any(taken),
            Some((FollowForm::Tree(levels), _)) => {
                !levels.first().is_some_and(|first| first.form.members().iter().any(taken))
            }
            Some((FollowForm::Relation(relation), _)) => !relation.form.members().iter().any(taken),
            Some((FollowForm::Jq(written), _)) => is_path(written.0.as_str()),
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
            self.name.as_ref().map(ResultKeys::span),
            (self.depth.value != 1).then_some(self.depth.span),
            (self.limit.value != 1).then_some(self.limit.span),
        ];
        if paged && self.required == Required::On {
            let remedy = "leave it out: a page without a link is the last one";
            return cx.problems.error_here("`required` beside pages", remedy);
        }
        if self.redirects.value > MOST_REDIRECTS {
            let message = format!("`redirects` is at most {MOST_REDIRECTS}");
            return cx.problems.error(self.redirects.span, message, "browsers give up after as many");
        }
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
            None => (0..self.depth.value.max(self.levels() as u64))
                .fold(0_u64, |sum, _| sum.saturating_add(1).saturating_mul(self.limit.value)),
        };
        let name = self.name.as_ref().map(ResultKeys::outline).unwrap_or_default();
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
