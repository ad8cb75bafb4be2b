//! A call whose answer is a part of another one: what it has of the client's, and what its answer says of keeping it.

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, COOKIE, FORWARDED, HeaderMap, HeaderName, VARY};
use pin_project_lite::pin_project;

use crate::cache::rules::policy::{CredentialUse, FetchTimes};
use crate::cache::rules::vary::Vary;
use crate::cache::{AnswerParts, AskedWith, KeptPart, is_neutral};
use crate::error::Error;
use crate::http::date::Moment;
use crate::http::http1::{AnswerFields, NameSet};
use crate::message::answer::Answer;
use crate::request::context::Scope;

/// The fields of a call whose answer is a part of another one, while they are set.
pub(crate) struct PartFields {
    pub(crate) parts: Arc<AnswerParts>,
    /// The fields that are written in the configuration.
    pub(crate) written: Vec<HeaderName>,
    /// Whether the call names the client's address.
    pub(crate) addressed: bool,
}

/// A call whose answer is a part of another one, and that no cache answers.
#[derive(Clone)]
pub struct ComposedPart {
    parts: Arc<AnswerParts>,
    /// The parts of the client's request that it has; most calls have none.
    asked: Option<Box<AskedFields>>,
}

/// The parts of the client's request that a call has.
#[derive(Clone)]
struct AskedFields {
    personal: CredentialUse,
    addressed: bool,
    with: AskedWith,
}

impl ComposedPart {
    /// Notes the fields, now that all are set.
    pub(crate) fn of(fields: PartFields, scope: &Scope, headers: &HeaderMap) -> Self {
        let PartFields { parts, written, addressed } = fields;
        // Most calls have no fields.
        if headers.is_empty() && !addressed && scope.facts().granted().is_empty() {
            return ComposedPart { parts, asked: None };
        }
        let (personal, forwarded) = own(scope, headers, &written, true);
        let plain = personal == CredentialUse::default() && forwarded.is_empty() && !addressed;
        let with = AskedWith { personal: false, forwarded };
        ComposedPart { parts, asked: (!plain).then(|| Box::new(AskedFields { personal, addressed, with })) }
    }

    /// Notes what became of the call.
    pub(crate) fn note(&self, outcome: &Result<Answer, Error>) {
        match (outcome, &self.asked) {
            (Ok(answer), None) if self.parts.note_plain(&answer.headers) => {}
            (Ok(answer), None) => note(&self.parts, answer, (CredentialUse::default(), &AskedWith::default()), None),
            (Ok(answer), Some(asked)) => {
                let personal = with_address(asked.personal, asked.addressed, answer);
                match personal == CredentialUse::default() {
                    true => note(&self.parts, answer, (personal, &asked.with), None),
                    false => {
                        let with = AskedWith { personal: true, ..asked.with.clone() };
                        note(&self.parts, answer, (personal, &with), None);
                    }
                }
            }
            (Err(_), _) => self.parts.lack(),
        }
    }
}

pin_project! {
    /// A call whose outcome is noted as a part of an answer, if it is one.
    pub(crate) struct NotedCall<C> {
        #[pin]
        pub(crate) call: C,
        pub(crate) part: Option<ComposedPart>,
    }
}

impl<C: Future<Output = Result<Answer, Error>>> Future for NotedCall<C> {
    type Output = Result<Answer, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let own = self.project();
        // Left where it is: an answer is large.
        let outcome = own.call.poll(cx);
        if let (Poll::Ready(outcome), Some(part)) = (&outcome, own.part) {
            part.note(outcome);
        }
        outcome
    }
}

/// Notes an answer as a part of another one.
pub(crate) fn note(
    parts: &AnswerParts,
    answer: &Answer,
    asked: (CredentialUse, &AskedWith),
    kept: Option<KeptPart<'_>>,
) {
    let now = Moment::now();
    parts.note(answer.status, &answer.headers, asked, kept, FetchTimes { asked: now, came: now });
}

pub(crate) fn with_address(personal: CredentialUse, addressed: bool, answer: &Answer) -> CredentialUse {
    CredentialUse { address: addressed && varies_by_address(&answer.headers), ..personal }
}

/// The parts of the client's request that a call has: credentials, and for a part the names of the fields that it sends as they came.
pub(crate) fn own(
    scope: &Scope,
    headers: &HeaderMap,
    written: &[HeaderName],
    part: bool,
) -> (CredentialUse, Vec<HeaderName>) {
    let mut personal = CredentialUse { authorization: !scope.facts().granted().is_empty(), ..CredentialUse::default() };
    let mut forwarded = Vec::new();
    let checked = scope.facts().credentials();
    for name in headers.keys().filter(|name| !written.contains(name)) {
        personal.authorization |=
            *name == AUTHORIZATION || checked.is_some_and(|checked| checked.headers.contains(name));
        personal.cookie |= *name == COOKIE;
        if part && !is_neutral(name) && scope.headers().contains_key(name) {
            forwarded.push(name.clone());
        }
    }
    (personal, forwarded)
}

/// Whether an answer depends on the client's address. The caches around see other fields than the call had.
fn varies_by_address(headers: &AnswerFields) -> bool {
    static VARYING: LazyLock<NameSet> = LazyLock::new(|| NameSet::of([VARY]));
    let names = |name: &HeaderName| *name == FORWARDED || name.as_str() == "x-forwarded-for";
    // Most answers need not be read for it.
    headers.has_any(&VARYING) && matches!(Vary::from_headers(headers), Vary::On(varied) if varied.iter().any(names))
}
