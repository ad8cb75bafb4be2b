//! `batch`: several values are asked for in one call, and each has its item out of the answer.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join};
use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::spec::{Batch, Request};
use super::upstream_call::Calling;
use crate::error::{Error, Kind};
use crate::format;
use crate::http::http1::AnswerFields;
use crate::jq::{self, Data, Filter, Value};
use crate::message::answer::{Answer, undescribe};
use crate::message::body::AnswerBody;
use crate::message::names::{Base, Names};
use crate::offload;
use crate::pipeline::step::{Compile, FaultSource, evaluate};
use crate::request::context::Scope;
use crate::request::fetch_memo::{Fetched, FetchedDocument};
use crate::template;
use crate::upstream::{Directed, UpstreamCall};

/// All but the unreserved characters (RFC 3986, 2.3) and brackets, as in `ids[]`.
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'[').remove(b']');

/// Calls for values, ready: each alone, or in batches.
pub(crate) struct Asking {
    pub(crate) calling: Arc<Calling>,
    pub(super) batching: Option<Batching>,
    /// The mark that distinguishes the documents of this step from those of others.
    mark: String,
}

pub(super) struct Batching {
    pub(super) size: usize,
    items: Filter,
    key: Filter,
    /// The parameter, percent-encoded.
    repeat: Option<String>,
    many: bool,
    max_url: usize,
}

/// A value as text: what it is known by.
pub(super) type BatchKey = Arc<str>;

/// The outcomes of a call for each of its values.
pub(super) type BatchOutcomes = HashMap<BatchKey, Fetched>;

impl Request {
    /// The call for values that are known one by one.
    pub(crate) fn asking(mut self, step: &'static str, cx: &mut Compile<'_>) -> Option<Asking> {
        let batch = self.batch.take();
        let (place, bare) = (self.path.span, self.path.value.contains("{.}"));
        let batching = batch.map(|batch| batch.compile(cx));
        let calling = cx.of_values(|cx| self.calling(step.into(), cx, true))?;
        let batching = batching.map_or(Some(None), |batching| batching.map(Some))?;
        match &batching {
            Some(_) if bare => {
                let remedy = "write them as the upstream wants them, as in `?ids={join(\",\")}`";
                return cx.problems.error(place, "in a batch `.` is the list of its values", remedy);
            }
            Some(batching) if batching.repeat.is_none() && !calling.terms.reads_item => {
                let remedy =
                    "write them into the path, as in `?ids={join(\",\")}`, or name their parameter: `repeat: id`";
                return cx.problems.error(place, "this call does not send its values", remedy);
            }
            _ => {}
        }
        // Of a plan, each step has another line in `explain`.
        let mark = format!("\n{step} {}\n", cx.found.outline.len());
        Some(Asking { calling: Arc::new(calling), batching, mark })
    }
}

impl Batch {
    fn compile(self, cx: &mut Compile<'_>) -> Option<Batching> {
        let (items, key) = cx.apart(|cx| (cx.filter(&self.items), cx.filter(&self.key)));
        Some(Batching {
            size: self.size.get(),
            items: items?,
            key: key?,
            repeat: self.repeat.map(|name| utf8_percent_encode(&name.value, RESERVED).to_string()),
            many: self.many,
            max_url: self.max_url.bytes(),
        })
    }
}

impl Asking {
    /// The most values in one call.
    pub(super) fn size(&self) -> usize {
        self.batching.as_ref().map_or(1, |batching| batching.size)
    }

    /// The key under which the document of a value is kept.
    pub(super) fn known_as(&self, key: &BatchKey) -> Vec<u8> {
        [self.mark.as_bytes(), key.as_bytes()].concat()
    }

    /// The text of a value.
    pub(super) fn key(&self, value: &Value) -> Result<BatchKey, Error> {
        let refuse = || {
            let detail = format!("a value to ask for is a string, a number or a boolean, not {}", jq::kind(value));
            self.calling.terms.fault_source.attribute(Error::new(Kind::Expression, detail))
        };
        template::scalar(value).map(Into::into).ok_or_else(refuse)
    }

    /// Asks for all of them: in one call, if its URL allows.
    pub(super) fn together(
        self: Arc<Self>,
        values: Vec<(BatchKey, Value)>,
        names: Names,
        scope: Arc<Scope>,
    ) -> BoxFuture<'static, BatchOutcomes> {
        Box::pin(async move {
            let weight = scope.weight(&self.calling.terms.uses, &names);
            let (asking, asked, known, request) = (self.clone(), values.clone(), names.clone(), scope.clone());
            let call = offload::run(weight, move || asking.build(&asked, &known, &request)).await;
            let found = match call {
                Ok(call) if values.len() > 1 && self.is_long(&call.call) => {
                    return self.halves(values, names, scope).await;
                }
                Ok(call) => self.fetch(call, &names, &scope).await,
                Err(error) => Err(error),
            };
            let document = |key: &BatchKey| found.as_ref().map(|found| self.document(found, key)).map_err(Clone::clone);
            values.iter().map(|(key, _)| (key.clone(), document(key))).collect()
        })
    }

    async fn halves(
        self: Arc<Self>,
        mut values: Vec<(BatchKey, Value)>,
        names: Names,
        scope: Arc<Scope>,
    ) -> BatchOutcomes {
        let rest = values.split_off(values.len() / 2);
        let rest = self.clone().together(rest, names.clone(), scope.clone());
        let (mut table, rest) = join(self.together(values, names, scope), rest).await;
        table.extend(rest);
        table
    }

    fn build(&self, values: &[(BatchKey, Value)], names: &Names, scope: &Scope) -> Result<Directed, Error> {
        let list = || jq::list(values.iter().map(|(_, value)| value.clone()).collect());
        let item = match (&self.batching, values) {
            (None, [(_, value)]) => value.clone(),
            _ => list(),
        };
        let call = self.calling.build(&item.into(), names, scope);
        let mut directed = call.map_err(|error| self.name(self.calling.terms.fault_source.attribute(error)))?;
        let call = &mut directed.call;
        if let Some(name) = self.batching.as_ref().and_then(|batching| batching.repeat.as_ref()) {
            for (key, _) in values {
                let before = if call.target.contains('?') { '&' } else { '?' };
                call.target.push(before);
                call.target.push_str(name);
                call.target.push('=');
                call.target.extend(utf8_percent_encode(key, RESERVED));
            }
        }
        Ok(directed)
    }

    fn is_long(&self, call: &UpstreamCall) -> bool {
        self.batching.as_ref().is_some_and(|batching| call.target.len() > batching.max_url)
    }

    /// Makes the call, and finds what each item of the answer belongs to.
    async fn fetch(self: &Arc<Self>, call: Directed, names: &Names, scope: &Arc<Scope>) -> Result<FoundItems, Error> {
        let upstream = call.upstream(&self.calling.upstream);
        let base = Base::At(upstream.name().clone(), upstream.url(&call.call.target).into());
        let bodiless = self.batching.is_none() && call.call.method == http::Method::HEAD;
        let answer = call.send(&self.calling.upstream).await?;
        let (status, used) = (answer.status, self.calling.on_status.uses(answer.status));
        let mut headers = answer.headers.clone();
        // They describe the body of all, not what is taken out of it.
        if self.batching.is_some() && used {
            undescribe(&mut headers);
        }
        let read = async {
            let body = answer.body.collect(self.calling.terms.max_body).await?;
            let size = body.len();
            // The content type of an answer to HEAD is that of a body that it does not have.
            if bodiless && size == 0 {
                return Ok((0, BatchItems::Whole(jq::null().into())));
            }
            let answer = Answer { body: AnswerBody::Bytes(body), ..answer };
            let text = format::Text::from_answer(&answer);
            let data = format::data(answer, self.calling.terms.max_body).await?;
            if !used {
                return Ok((size, BatchItems::Whole(data)));
            }
            let (asking, names, scope) = (self.clone(), names.clone(), scope.clone());
            let sorted = offload::run(size, move || asking.sort(data.clone(), &names, &scope)).await;
            Ok((size, sorted.map_err(|error| format::explain(text.as_ref(), error))?))
        };
        let (size, items) = match read.await {
            Ok(read) => read,
            Err(error) if used => return Err(self.name(error)),
            // What cannot be used need not be readable.
            Err(_) => (0, BatchItems::Whole(jq::null().into())),
        };
        Ok(FoundItems { status, items, headers, base, size })
    }

    /// The items by their keys.
    fn sort(&self, answer: Data, names: &Names, scope: &Scope) -> Result<BatchItems, Error> {
        let Some(batching) = &self.batching else { return Ok(BatchItems::Whole(answer)) };
        let mut sorted: HashMap<String, Vec<Data>> = HashMap::new();
        for item in evaluate(&batching.items, answer.into_value(), names, scope, FaultSource::Upstream)? {
            for key in evaluate(&batching.key, item.clone(), names, scope, FaultSource::Upstream)? {
                if let Some(key) = template::scalar(&key) {
                    sorted.entry(key).or_default().push(Data::made(item.clone())?);
                }
            }
        }
        Ok(BatchItems::Sorted(sorted))
    }

    /// The document of a value; null if there is none.
    fn document(&self, found: &FoundItems, key: &BatchKey) -> Arc<FetchedDocument> {
        let many = self.batching.as_ref().is_some_and(|batching| batching.many);
        let (data, size) = match &found.items {
            BatchItems::Whole(data) => (data.clone(), found.size),
            BatchItems::Sorted(sorted) => {
                let own = sorted.get(&**key).map(Vec::as_slice).unwrap_or_default();
                let one = || own.first().cloned().unwrap_or_else(|| jq::null().into());
                (if many { Data::list(own.to_vec()) } else { one() }, found.size / sorted.len().max(1))
            }
        };
        let (status, headers, base) = (found.status, found.headers.clone(), found.base.clone());
        Arc::new(FetchedDocument { status, data, headers, base, size })
    }

    fn name(&self, error: Error) -> Error {
        error.of_upstream(self.calling.upstream.name())
    }
}

/// The answer to a call for several values.
struct FoundItems {
    status: StatusCode,
    items: BatchItems,
    headers: AnswerFields,
    base: Base,
    size: usize,
}

enum BatchItems {
    /// The whole answer, which each value has.
    Whole(Data),
    Sorted(HashMap<String, Vec<Data>>),
}
