//! A statement in a database, ready and run.

use std::sync::Arc;

use futures_util::future::Either;

use super::call_options::Terms;
use crate::cache::AnswerParts;
use crate::config::spec::Timeout;
use crate::database::{Access, Database, EarlierStatement, Query, StatementRun, Wanted};
use crate::error::{Error, Kind};
use crate::format;
use crate::http::date::Moment;
use crate::jq::{self, Data, Filter};
use crate::json::value;
use crate::message::answer::Answer;
use crate::message::names::Names;
use crate::offload::{self, Work};
use crate::pipeline::flow::Outcome;
use crate::pipeline::step::apply;
use crate::request::context::Scope;
use crate::telemetry::request_record::CallNote;

/// A statement, with the expressions that make its values.
pub(super) struct Statement {
    pub(super) query: Arc<Query>,
    pub(super) filters: Vec<Filter>,
    /// Which of the values are `$body` itself.
    pub(super) bodies: Box<[bool]>,
    pub(super) names: Arc<[Box<str>]>,
    pub(super) wanted: Wanted,
}

struct StatementValues {
    before: Vec<Vec<Data>>,
    last: Vec<Data>,
}

/// A statement or a transaction, ready to be run for any item.
pub(crate) struct ReadyStatement {
    pub(crate) terms: Terms,
    /// The key of the item under which the result is put.
    pub(crate) name: Option<String>,
    pub(super) database: Arc<Database>,
    /// The statements before the last, in a transaction.
    pub(super) before: Vec<Statement>,
    pub(super) last: Statement,
    pub(super) timeout: Option<Timeout>,
}

impl ReadyStatement {
    /// Runs it for an item.
    pub(crate) async fn answer(self: Arc<Self>, item: Data, names: Names, scope: Arc<Scope>) -> Outcome {
        let values = match self.evaluate(item.clone(), &names, &scope) {
            Either::Left(here) => here.into_inner(),
            Either::Right(lent) => lent.await,
        };
        let answer = match values {
            Ok(Some(values)) => self.send(values, &scope).await,
            Ok(None) => Ok(self.terms.unmade()),
            Err(error) => Err(error),
        };
        let answer = answer.or_else(|error| self.terms.substitute().ok_or(error));
        let answer = match (answer, &self.name) {
            // Boxed: those without it would carry the room.
            (Ok(answer), Some(name)) => Box::pin(self.put(name, item, answer)).await,
            (answer, _) => answer,
        };
        Some(answer.map(|answer| Answer { names, ..answer }).map_err(|error| self.terms.name(error)))
    }

    async fn put(&self, name: &str, item: Data, answer: Answer) -> Result<Answer, Error> {
        let found = format::data(answer, self.terms.max_body).await?;
        let (key, weight) = (name.to_owned(), item.weight() + found.weight());
        let put = move || embed(&key, item.clone(), found.clone());
        offload::run(weight, put).await.map(Answer::of_value)
    }

    /// Where it is run, and what.
    pub(crate) fn describe(&self) -> String {
        format!("{} {}", self.database.name(), self.shown())
    }

    /// Whether it asks for the same whatever the item is, and changes nothing.
    pub(crate) fn is_the_same(&self) -> bool {
        !self.terms.reads_item && self.last.query.only_reads()
    }

    /// The statements, as people read them.
    pub(crate) fn shown(&self) -> String {
        let before = self.before.iter().map(|statement| format!("{}; ", statement.query.shown()));
        before.chain([self.last.query.shown().to_owned()]).collect()
    }

    async fn send(&self, values: StatementValues, scope: &Scope) -> Result<Answer, Error> {
        let before = self.before.iter().zip(values.before).map(|(statement, values)| EarlierStatement {
            query: statement.query.clone(),
            values,
            names: statement.names.clone(),
            wanted: statement.wanted,
        });
        let run = StatementRun {
            query: self.last.query.clone(),
            values: values.last,
            names: self.last.names.clone(),
            wanted: self.last.wanted,
            before: before.collect(),
            timeout: self.timeout,
            deadline: scope.deadline(),
            note: scope.record().map(|record| CallNote::new(record, &self.terms.noted)),
            repeatable: self.is_repeatable(scope),
        };
        let answer = self.database.run(run).await;
        if let Some(parts) = scope.parts::<AnswerParts>() {
            match &answer {
                Ok(_) => parts.note_silent(Moment::now()),
                Err(_) => parts.lack(),
            }
        }
        answer
    }

    /// Whether it may be run again when what became of it is not known.
    fn is_repeatable(&self, scope: &Scope) -> bool {
        let query = &self.last.query;
        let harmless = self.before.is_empty() && query.only_reads() && scope.method().is_safe();
        harmless || query.access() == Access::ReadOnly
    }

    /// The values; `None` if `when` is false.
    fn evaluate(self: &Arc<Self>, item: Data, names: &Names, scope: &Arc<Scope>) -> Work<Option<StatementValues>> {
        let weight = self.terms.weigh(&item, names, scope);
        let (statement, names, scope) = (self.clone(), names.clone(), scope.clone());
        offload::run(weight, move || statement.values(&item, &names, &scope))
    }

    fn values(&self, item: &Data, names: &Names, scope: &Scope) -> Result<Option<StatementValues>, Error> {
        if !self.terms.wanted(item, names, scope)? {
            return Ok(None);
        }
        let fault_source = self.terms.fault_source;
        let one = |(at, (filter, is_body)): (usize, (&Filter, &bool))| {
            if let Some(bytes) = scope.unread_body().filter(|_| *is_body) {
                return Ok(value::bytes(bytes.clone()).into());
            }
            let mut outputs = apply(filter, item.clone(), names, scope, fault_source)?;
            match outputs.len() {
                0 | 1 => Ok(outputs.pop().unwrap_or_else(|| jq::null().into())),
                more => {
                    let detail = format!("value {} gives {more} values where one is needed", at + 1);
                    Err(fault_source.attribute(Error::new(Kind::Expression, detail)))
                }
            }
        };
        let values = |statement: &Statement| {
            statement.filters.iter().zip(&statement.bodies).enumerate().map(one).collect::<Result<_, _>>()
        };
        let before = self.before.iter().map(values).collect::<Result<_, _>>()?;
        Ok(Some(StatementValues { before, last: values(&self.last)? }))
    }
}

/// An object with one more field.
fn embed(name: &str, item: Data, found: Data) -> Result<Data, Error> {
    if let (Data::Json(item), Data::Json(found)) = (&item, &found)
        && !item.is_parsed()
        && let Some(joined) = item.with(name, found)
    {
        return Ok(joined.into());
    }
    let item = item.into_value();
    let Some(fields) = value::as_object(&item) else {
        let detail = format!("`as: {name}` takes an object, not {}", jq::kind(&item));
        return Err(Error::new(Kind::Expression, detail));
    };
    let mut fields = fields.clone();
    fields.insert(jq::string(name), found.into_value());
    Ok(Data::made(value::fields_of(fields))?)
}
