//! The layers around an endpoint, and how a request passes them.

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use futures_util::FutureExt;
use http::{Response, StatusCode, Version};
use tokio::time::Instant;

use crate::layer::unshared::Unshared;
use crate::layer::{Layer, Passage, Verdict};
use crate::server::{Ending, Observer, Reply, ResponseEnd, grpc};
use crate::telemetry::request_end::RequestEnd;

/// Configured layers, from the outside in.
#[derive(Default)]
pub struct Stack {
    layers: Vec<(&'static str, Arc<dyn Layer>)>,
    /// Whether a layer wants to know how every answer ends.
    watched: bool,
    /// Whether a layer answers preflights.
    pub answers_preflights: bool,
    /// Whether a layer accepts credentials that browsers send with the requests of any page.
    pub takes_ambient_credentials: bool,
    /// Whether a layer answers `PURGE`.
    pub answers_purges: bool,
    /// Whether an expression of a layer uses `$route`.
    pub names_route: bool,
}

impl Stack {
    /// Adds a layer inside the others.
    pub fn push(&mut self, name: &'static str, layer: Arc<dyn Layer>) {
        self.watched |= layer.watches();
        self.answers_preflights |= layer.answers_preflights();
        self.takes_ambient_credentials |= layer.takes_ambient_credentials();
        self.answers_purges |= layer.answers_purges();
        self.layers.push((name, layer));
    }

    /// Whether a layer wants to know how every answer ends.
    pub fn watches(&self) -> bool {
        self.watched
    }

    /// Whether it has a layer of this name.
    pub fn has(&self, name: &str) -> bool {
        self.layers.iter().any(|(own, _)| *own == name)
    }

    /// The same without these layers.
    pub fn without(&self, names: &[&str]) -> Self {
        let mut others = Stack { names_route: self.names_route, ..Stack::default() };
        let kept = self.layers.iter().filter(|(name, _)| !names.contains(name));
        kept.for_each(|(name, layer)| others.push(name, layer.clone()));
        others
    }

    /// The names of the layers, each with a description of what it does.
    pub fn outline(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.layers.iter().filter_map(|(name, layer)| Some((*name, layer.outline()?)))
    }

    /// Reports the end of an answer to the first `passed` layers.
    fn report_end(&self, passed: usize, ended: &RequestEnd<'_>) {
        self.layers[..passed].iter().for_each(|(_, layer)| layer.ended(ended));
    }

    /// Reports to the first `passed` layers that the client left before its answer.
    fn give_up(&self, passed: usize, scope: &Scope) {
        let end = ResponseEnd { bytes: 0, how: Ending::ClientGone };
        let total = scope.timeline().elapsed();
        let (status, failure, head) = (None, None, None);
        self.report_end(passed, &RequestEnd { scope, status, failure, head, total, end: &end });
    }
}

/// A request on its way in. If this is dropped before the request is inside, the client has given up.
struct Entering<'a> {
    stack: &'a Stack,
    scope: &'a mut Scope,
    /// How many layers let the request pass.
    passed: usize,
    inside: bool,
}

impl Entering<'_> {
    /// Passes the request in. Returns the answer of the layer that stopped it, if any.
    async fn pass(&mut self) -> Option<Response<AnswerBody>> {
        for (_, layer) in &self.stack.layers {
            let answer = match layer.request(self.scope) {
                Verdict::Pass => None,
                Verdict::Answer(response) => Some(response),
                Verdict::Wait(verdict) => verdict.await,
            };
            if answer.is_some() {
                return answer;
            }
            self.passed += 1;
        }
        None
    }

    /// The request is inside; the number of layers that let it pass.
    fn end(mut self) -> usize {
        self.inside = true;
        self.passed
    }
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        if !self.inside {
            self.stack.give_up(self.passed, self.scope);
        }
    }
}

/// A request that is inside the layers. If this is dropped before the answer leaves, the client has given up.
pub struct LayerPass<'a> {
    stack: &'a Arc<Stack>,
    scope: Arc<Scope>,
    /// How many layers let the request pass.
    passed: usize,
    /// Whether the answer has left.
    left: bool,
}

impl<'a> LayerPass<'a> {
    /// Passes a request in through the layers, which may change it, and shares it then. Returns the answer of the layer
    /// that stopped it, if any.
    pub async fn enter(stack: &'a Arc<Stack>, mut scope: Unshared<Scope>) -> (Self, Option<Response<AnswerBody>>) {
        let mut entering = Entering { stack, scope: &mut scope, passed: 0, inside: false };
        let answer = entering.pass().await;
        let passed = entering.end();
        (LayerPass { stack, scope: scope.share(), passed, left: false }, answer)
    }

    /// The request.
    pub fn scope(&self) -> &Arc<Scope> {
        &self.scope
    }

    /// Passes the answer out through the layers.
    pub async fn finish_response(self, mut response: Response<AnswerBody>) -> Reply {
        for (_, layer) in self.stack.layers[..self.passed].iter().rev() {
            if let Passage::Wait(passage) = layer.answer(&mut response, self.scope()) {
                passage.await;
            }
        }
        self.reply(response)
    }

    /// Passes out an answer, made by `make`, to a request that never came in. Layers that would have to wait are
    /// skipped.
    pub fn refuse(stack: &'a Arc<Stack>, scope: Unshared<Scope>, make: impl Fn() -> Response<AnswerBody>) -> Reply {
        let pass = LayerPass { stack, scope: scope.share(), passed: stack.layers.len(), left: false };
        let mut response = make();
        for (_, layer) in stack.layers.iter().rev() {
            let done = match layer.answer(&mut response, pass.scope()) {
                Passage::Done => true,
                Passage::Wait(passage) => passage.now_or_never().is_some(),
            };
            if !done {
                response = make();
            }
        }
        pass.reply(response)
    }

    fn reply(mut self, mut response: Response<AnswerBody>) -> Reply {
        self.left = true;
        // Logs and metrics use the HTTP status, not that of gRPC.
        let status = response.status();
        let client = self.scope.facts().client();
        if !status.is_success() && client.is_some_and(|client| client.version == Version::HTTP_2) {
            refuse_call(&mut response, &self.scope);
        }
        // A body in memory either arrives whole or the client has left. No one needs to watch it.
        if !self.stack.watched && !matches!(response.body(), AnswerBody::Pulled(_)) {
            return response.into();
        }
        let failure = response.extensions_mut().remove::<Error>().map(|error| error.kind());
        let ready = Instant::now();
        let head = ready.saturating_duration_since(self.scope.timeline().began());
        let (stack, scope) = (self.stack.clone(), self.scope.clone());
        let watch = EndObserver { stack, scope, passed: self.passed, status, failure, head };
        Reply { response, observer: Some(Box::new(watch)), ready: Some(ready) }
    }
}

impl Drop for LayerPass<'_> {
    fn drop(&mut self) {
        if !self.left {
            self.stack.give_up(self.passed, &self.scope);
        }
    }
}

/// Replaces a problem document with a gRPC failure, because gRPC clients cannot read the former.
#[cold]
fn refuse_call(response: &mut Response<AnswerBody>, scope: &Scope) {
    if grpc::speaks(scope.headers()) {
        grpc::dress(response);
    }
}

/// Tells the layers how an answer ended.
struct EndObserver {
    stack: Arc<Stack>,
    scope: Arc<Scope>,
    passed: usize,
    status: StatusCode,
    failure: Option<Kind>,
    head: Duration,
}

impl Observer for EndObserver {
    fn ended(self: Box<Self>, end: &ResponseEnd) {
        let (status, failure, head) = (Some(self.status), self.failure, Some(self.head));
        let total = self.scope.timeline().elapsed();
        self.stack.report_end(self.passed, &RequestEnd { scope: &self.scope, status, failure, head, total, end });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::{HeaderMap, Method};

    use super::super::stack::*;

    /// The events, in order.
    type Notes = Arc<Mutex<Vec<String>>>;

    struct Noting {
        name: &'static str,
        does: Does,
        notes: Notes,
    }

    enum Does {
        Pass,
        Answer,
        Wait,
        WaitForEver,
    }

    impl Noting {
        fn note(&self, what: impl std::fmt::Display) {
            self.notes.lock().expect("whole").push(format!("{}: {what}", self.name));
        }
    }

    impl Layer for Noting {
        fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
            self.note("in");
            scope.headers_mut().append("x-way", self.name.parse().expect("a value"));
            match self.does {
                Does::Pass | Does::WaitForEver => Verdict::Pass,
                Does::Answer => Verdict::Answer(Response::new(AnswerBody::Bytes("early".into()))),
                Does::Wait => Verdict::Wait(Box::pin(async {
                    tokio::task::yield_now().await;
                    self.note("waited");
                    scope.headers_mut().append("x-way", "after".parse().expect("a value"));
                    None
                })),
            }
        }

        fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, _: &'a Arc<Scope>) -> Passage<'a> {
            response.headers_mut().append("x-way", self.name.parse().expect("a value"));
            match self.does {
                Does::Pass | Does::Answer => Passage::Done,
                Does::Wait => Passage::Wait(Box::pin(tokio::task::yield_now())),
                Does::WaitForEver => {
                    *response.body_mut() = AnswerBody::empty();
                    Passage::Wait(Box::pin(std::future::pending()))
                }
            }
        }

        fn watches(&self) -> bool {
            !matches!(self.does, Does::Wait)
        }

        fn ended(&self, ended: &RequestEnd<'_>) {
            let status = ended.status.map_or(0, |status| status.as_u16());
            self.note(format!("{status} {:?} {}", ended.end.how, ended.end.bytes));
        }
    }

    fn stack(layers: [(&'static str, Does); 3]) -> (Arc<Stack>, Notes) {
        let notes = Notes::default();
        let mut stack = Stack::default();
        for (name, does) in layers {
            stack.push(name, Arc::new(Noting { name, does, notes: notes.clone() }));
        }
        (Arc::new(stack), notes)
    }

    fn scope() -> Unshared<Scope> {
        Unshared::new(Scope::new(Method::GET, None, HeaderMap::new(), AnswerBody::empty()))
    }

    fn way(headers: &HeaderMap) -> Vec<&str> {
        headers.get_all("x-way").iter().filter_map(|value| value.to_str().ok()).collect()
    }

    fn told(notes: &Notes) -> Vec<String> {
        notes.lock().expect("whole").clone()
    }

    #[tokio::test]
    async fn requests_go_in_and_answers_come_out() {
        let (stack, notes) = stack([("outer", Does::Pass), ("middle", Does::Wait), ("inner", Does::Pass)]);
        let (visit, answer) = LayerPass::enter(&stack, scope()).await;
        assert!(answer.is_none());
        assert_eq!(way(visit.scope().headers()), ["outer", "middle", "after", "inner"]);
        let reply = visit.finish_response(Response::new(AnswerBody::empty())).await;
        assert_eq!(way(reply.response.headers()), ["inner", "middle", "outer"]);
        let failed = Ending::Failed(Error::new(Kind::Cut, "cut"));
        reply.observer.expect("two watch").ended(&ResponseEnd { bytes: 7, how: failed });
        let ends = ["outer", "middle", "inner"].map(|name| format!("{name}: 200 Failed(Error(cut: cut)) 7"));
        assert_eq!(told(&notes)[4..], ends);
    }

    #[tokio::test]
    async fn an_early_answer_passes_those_that_let_its_request_pass() {
        let (stack, notes) = stack([("outer", Does::Pass), ("gate", Does::Answer), ("inner", Does::Pass)]);
        let (visit, early) = LayerPass::enter(&stack, scope()).await;
        let reply = visit.finish_response(early.expect("an answer")).await;
        assert_eq!(way(reply.response.headers()), ["outer"]);
        assert_eq!(told(&notes), ["outer: in", "gate: in"]);
        reply.observer.expect("one watches").ended(&ResponseEnd { bytes: 5, how: Ending::Whole });
        assert_eq!(told(&notes)[2..], ["outer: 200 Whole 5"]);
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_has_its_end_too() {
        let (stack, notes) = stack([("a", Does::Pass), ("b", Does::Wait), ("c", Does::Wait)]);
        drop(LayerPass::enter(&stack, scope()).await);
        let ends: Vec<String> = told(&notes).into_iter().filter(|note| note.contains("ClientGone")).collect();
        assert_eq!(ends, ["a: 0 ClientGone 0", "b: 0 ClientGone 0", "c: 0 ClientGone 0"]);
    }

    #[test]
    fn a_request_that_is_given_up_on_its_way_in_ends_for_those_that_it_passed() {
        let (stack, notes) = stack([("a", Does::Pass), ("b", Does::Wait), ("c", Does::Pass)]);
        assert!(LayerPass::enter(&stack, scope()).now_or_never().is_none());
        assert_eq!(told(&notes), ["a: in", "b: in", "a: 0 ClientGone 0"]);
    }

    #[test]
    fn what_could_not_be_read_waits_for_no_layer() {
        let (stack, notes) = stack([("outer", Does::Pass), ("slow", Does::WaitForEver), ("inner", Does::Pass)]);
        let reply = LayerPass::refuse(&stack, scope(), || Response::new(AnswerBody::Bytes("refused".into())));
        assert_eq!(way(reply.response.headers()), ["outer"]);
        assert_eq!(reply.response.body().length(), Some(7));
        assert!(told(&notes).is_empty() && reply.observer.is_some());
    }

    #[tokio::test]
    async fn nobody_watches_where_nobody_wants_to_know() {
        let (stack, _) = stack([("a", Does::Wait), ("b", Does::Wait), ("c", Does::Wait)]);
        let (visit, _) = LayerPass::enter(&stack, scope()).await;
        assert!(visit.finish_response(Response::new(AnswerBody::empty())).await.observer.is_none());
    }
}
