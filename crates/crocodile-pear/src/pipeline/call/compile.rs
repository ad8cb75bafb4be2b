//! A call as it is written becomes one that can be made.

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;
use http::header::HeaderName;

use super::call_options::{CompiledTerms, Terms};
use super::detach::Detach;
use super::spec::{CLIENT, ReadAs, Request, is_written};
use super::upstream_call::{CallBody, Calling, Verb};
use crate::config::spec::{Entries, Located, Timeout};
use crate::format;
use crate::jq::Filter;
use crate::pipeline::step::rewrite::Rewrite;
use crate::pipeline::step::status::StatusRules;
use crate::pipeline::step::{CallMethod, Compile, Shape, StreamSpec};
use crate::template::{Template, TemplateKind, hidden};
use crate::upstream::{NEVER_FOUND, ReadyUpstream, RewriteSpec, TRACED, TimeoutSpec, Timeouts, is_new};

impl Request {
    /// The call itself, without `for_each`; `each`: its `.` is a value of `for_each`.
    pub(crate) fn calling(self, step: Cow<'static, str>, cx: &mut Compile<'_>, each: bool) -> Option<Calling> {
        if self.batch.is_some() {
            let remedy = "give the values with `for_each`, or put this call into a `follow` as its `request`";
            cx.problems.error::<()>(self.path.span, "a `batch` without values to ask for", remedy);
            cx.flow.item = true;
        }
        if is_written(self.limit.span) && self.for_each.is_none() {
            let remedy = "leave it out: this is one call";
            cx.problems.error::<()>(self.limit.span, "`limit` without `for_each`", remedy);
        }
        if let Some(read) = &self.read {
            let remedy = "write it at a `request` of its own, without `detach`, `batch` and `otherwise`";
            cx.problems.error::<()>(read.span, "`read` of a call whose answer is not the item", remedy);
        }
        let upstream = cx.upstream(&self.to);
        let (path, client_query) = self.target();
        let starts_right = path.value.starts_with('/');
        if !starts_right {
            let remedy = "begin it with `/`; the upstream's own path stands before it";
            cx.problems.error::<()>(path.span, "a path begins with `/`", remedy);
        }
        let target = cx.template(&path, TemplateKind::Target);
        let own = cx.flow.first && !each && self.detach.is_none();
        let detached = self.check_detached(cx);
        let method = method(&self, own, cx);
        self.note_taken(own, cx);
        let keeps = upstream.as_ref().is_some_and(|upstream| upstream.keeps());
        let headers = headers(self.headers.as_ref(), keeps, cx);
        let body = body(&self, own, cx);
        let when = self.when.as_ref().map_or(Some(None), |when| cx.condition(when).map(Some));
        let otherwise = cx.literal(self.otherwise.as_ref());
        let rewritten = self.rewritten(own && !cx.ahead.follows, upstream.as_deref(), cx);
        // Links stay as they are for the steps that follow them, but a `Location` is for the client.
        let located = own
            && cx.ahead.follows
            && self.detach.is_none()
            && upstream.as_ref().is_some_and(|upstream| upstream.rewrite() == RewriteSpec::On);
        let on_status = self.on_status.map_or(Some(StatusRules::default()), |rules| rules.compile(cx));
        let is_read = cx.ahead.reads || each || cx.flow.shape != Shape::One || self.otherwise.is_some();
        let (upstream, target, method, headers, body) = (upstream?, target?, method?, headers?, body?);
        detached?;
        if let Some(word) = self.read_as.map(ReadAs::word).filter(|word| !format::is_built(word)) {
            return cx.problems.error_here(format::needs(word), "build with it, or leave out `as`");
        }
        let (when, otherwise, on_status) = (when?, otherwise?.map(|value| value.value().into()), on_status?);
        let rewrite = (rewritten || located).then(|| Rewrite::new(&target, cx.known.route.path)).flatten();
        let rewrite = rewrite.map(|rewrite| if rewritten { rewrite } else { rewrite.without_links() });
        let maps_links = cx.maps_links(&upstream);
        let way = own.then(|| Rewrite::new(&target, cx.known.route.path)).flatten().map(Arc::new);
        if let Some(way) = way.filter(|_| cx.flow.shape == Shape::One) {
            cx.found.way = Some((upstream.clone(), way));
        }
        let prefixed = (own && !cx.ahead.follows && upstream.tells_prefix())
            .then(|| Rewrite::new(&target, cx.known.route.path))
            .flatten();
        let templates = std::iter::once(&target).chain(headers.iter().map(|(_, template)| template));
        let filters: Vec<&Filter> = templates.flat_map(Template::filters).chain(body_filter(&body)).collect();
        let evaluates = !filters.is_empty() || when.is_some();
        let reads_item = filters.iter().copied().chain(&when).any(Filter::reads_item);
        let follows_one = step == "request" && !each && !own && cx.flow.shape == Shape::One;
        if follows_one
            && !reads_item
            && matches!(body, CallBody::Nothing)
            && self.method.is_none()
            && self.detach.is_none()
        {
            cx.found.taken_parts.unrelated = Some(self.to.span);
        }
        let written =
            CompiledTerms { step, when, otherwise, max_body: self.max_body.value.bytes(), hidden: hidden(&path) };
        let terms = Terms::new(written, filters, cx);
        let streams = cx.known.route.stream == StreamSpec::On && cx.flow.first;
        let timeouts = timeouts(self.timeout.as_ref(), upstream.timeouts(), streams).map(Arc::new);
        Some(Calling {
            terms,
            upstream,
            target,
            client_query,
            own,
            method,
            headers,
            rewrite,
            read_as: self.read_as,
            maps_links,
            prefixed,
            inner: !own || is_read && (rewritten || located),
            body,
            timeouts,
            on_status,
            evaluates,
            notes_base: cx.ahead.follows,
            answers_used: cx.found.answers_used.clone(),
            is_read,
            detach: self.detach.as_ref().map(Detach::new),
        })
        .filter(|_| starts_right)
    }

    /// Refuses what a detached call cannot have: nobody uses its answer.
    fn check_detached(&self, cx: &mut Compile<'_>) -> Option<()> {
        if self.detach.is_none() {
            return Some(());
        }
        let otherwise = self.otherwise.as_ref().map(|written| ("otherwise", written.span));
        let batch = self.batch.as_ref().map(|_| ("batch", self.path.span));
        let on_status = self.on_status.as_ref().map(|_| ("on_status", self.path.span));
        let mut sound = Some(());
        for (name, place) in [otherwise, on_status, batch].into_iter().flatten() {
            let message = format!("`{name}` beside `detach`: nothing uses the answer of such a call");
            sound = cx.problems.error(place, message, format!("leave out `{name}`"));
        }
        sound
    }

    /// Notes which parts of the client's request this call takes.
    fn note_taken(&self, own: bool, cx: &mut Compile<'_>) {
        let method = self.method.as_ref().map(Located::as_str);
        let same = method.is_none() || method == Some(CLIENT) || method == cx.known.route.method.map(Method::as_str);
        let taken = &mut cx.found.taken_parts;
        let streams = own && (self.sends_clients() || (self.body.is_none() && same));
        if streams {
            taken.streams.push(self.to.value.clone());
        } else if self.sends_clients() {
            taken.copies.push(self.to.value.clone());
        }
        let method_of_call = match method {
            Some(CLIENT) => CallMethod::Clients,
            Some(method) => CallMethod::Written(Method::from_bytes(method.as_bytes()).unwrap_or_default()),
            None if self.sends_clients() || own && self.body.is_none() => CallMethod::Clients,
            None if self.body.is_some() => CallMethod::Default(Method::POST),
            None => CallMethod::Default(Method::GET),
        };
        taken.methods.push((method_of_call, self.to.value.clone()));
        let usually_has_one = matches!(method, Some("POST" | "PUT" | "PATCH"));
        if usually_has_one && self.body.is_none() && !streams {
            taken.bodiless = taken.bodiless.or(self.method.as_ref().map(|method| method.span));
        }
    }

    /// Whether fields of its answers that point into the upstream point to the gateway instead.
    fn rewritten(&self, handed_on: bool, upstream: Option<&ReadyUpstream>, cx: &mut Compile<'_>) -> bool {
        match &self.rewrite {
            Some(written) if !handed_on => {
                let remedy = "leave it out; in a pipeline that follows links, links stay as the upstream wrote them";
                cx.problems.error::<()>(written.span, "`rewrite` needs an answer that is passed through", remedy);
                false
            }
            Some(written) => written.value == RewriteSpec::On,
            None => handed_on && upstream.is_some_and(|upstream| upstream.rewrite() == RewriteSpec::On),
        }
    }
}

/// The times of a call, where they are not the upstream's. One that streams may rest and go on, unless the call itself says how
/// long.
fn timeouts(written: Option<&TimeoutSpec>, upstream: &Timeouts, streams: bool) -> Option<Timeouts> {
    let usual = match streams {
        true => Timeouts { idle: Timeout::Never, call: Timeout::Never, ..upstream.clone() },
        false => upstream.clone(),
    };
    written.map(|written| written.over(&usual)).or_else(|| streams.then_some(usual))
}

fn method(spec: &Request, own: bool, cx: &mut Compile<'_>) -> Option<Verb> {
    let Some(written) = &spec.method else {
        return Some(match &spec.body {
            Some(_) if spec.sends_clients() => Verb::Clients,
            Some(_) => Verb::Fixed(Method::POST),
            None if own => Verb::Clients,
            None => Verb::Fixed(Method::GET),
        });
    };
    if written.value == CLIENT {
        return Some(Verb::Clients);
    }
    fixed_method(written, cx).map(Verb::Fixed)
}

/// A method that calls can have.
pub(crate) fn fixed_method(written: &Located<String>, cx: &mut Compile<'_>) -> Option<Method> {
    match Method::from_bytes(written.value.as_bytes()) {
        Ok(method) if written.value.bytes().all(|byte| byte.is_ascii_uppercase()) && method != Method::CONNECT => {
            Some(method)
        }
        _ => cx.problems.error(
            written.span,
            format!("`{written}` is not a method for a call"),
            "write GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS, in capitals, or `client` for the client's own",
        ),
    }
}

/// The header fields that a call sets.
pub(crate) fn headers(
    written: Option<&Entries<Located<String>>>,
    keeps: bool,
    cx: &mut Compile<'_>,
) -> Option<Vec<(HeaderName, Template)>> {
    let mut headers = Some(Vec::new());
    for (name, (span, text)) in written.into_iter().flatten() {
        let template = cx.template(text, TemplateKind::Field);
        if keeps && template.as_ref().is_some_and(is_new) {
            cx.problems.warning(text.at(0, text.value.len()), NEVER_FOUND, TRACED);
        }
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().filter(crate::http::http1::fields::may_send);
        if parsed.is_none() {
            let remedy = "names are of letters, digits and `-`; framing and hop-by-hop fields are the gateway's own";
            cx.problems.error::<()>(*span, format!("`{name}` cannot be set as a header field"), remedy);
        }
        headers = match (headers, parsed, template) {
            (Some(mut headers), Some(name), Some(template)) => {
                headers.push((name, template));
                Some(headers)
            }
            _ => None,
        };
    }
    headers
}

fn body(spec: &Request, own: bool, cx: &mut Compile<'_>) -> Option<CallBody> {
    if spec.sends_clients() {
        return Some(if own { CallBody::Clients } else { CallBody::Copy });
    }
    if let Some(expression) = &spec.body {
        if spec.sends_body_alone() {
            return cx.filter_without_value(expression).map(|filter| CallBody::Body(Box::new(filter)));
        }
        return cx.filter(expression).map(|filter| CallBody::Made(Box::new(filter)));
    }
    let method = spec.method.as_ref().map(Located::as_str);
    if own && (method.is_none() || method == cx.known.route.method.map(Method::as_str)) {
        return Some(CallBody::Clients);
    }
    Some(CallBody::Nothing)
}

fn body_filter(body: &CallBody) -> Option<&Filter> {
    match body {
        CallBody::Made(filter) | CallBody::Body(filter) => Some(filter),
        CallBody::Nothing | CallBody::Clients | CallBody::Copy => None,
    }
}
