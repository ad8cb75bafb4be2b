//! `sql`: runs a statement in a database, once or for each item.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::{BoxFuture, Either};

use crate::calling::AnswerSource;
use crate::database::{Access, Before, Database, Query, Run, Wanted, writes};
use crate::error::{Error, Kind};
use crate::flow::{Answer, Flow, Names, Outcome};
use crate::format;
use crate::jq::value;
use crate::jq::{self, Data, Filter};
use crate::offload::{self, Work};
use crate::problem::{Problems, Span};
use crate::record::{CallNote, CallingStep};
use crate::scope::Scope;
use crate::spec;
use crate::spec::{Expression, Literal, Located, Size, Timeout, only};
use crate::step::{About, Blame, Compile, MAX_BODY, Shape, Spec, Step, apply, holds};

spec! {
    /// Runs a statement in a database: once, or once for each item that flows in. Its rows become objects of JSON. An answer that
    /// flows in with another status than 2xx passes unchanged, and nothing is run.
    ///
    /// Without `one`, the result is a list, which streams: rows are read from the database as the client takes them. A statement
    /// that gives no rows at all, such as `insert` without `returning`, gives `{"rows": 2}`: how many it has changed.
    ///
    /// What the database refuses is the client's: 409 for what must be unique, 422 for other rules, 400 for values that do not fit.
    /// 503 says that the database cannot be reached, or has no connection free. No answer names a table or shows SQL.
    pub struct Sql {
        /// The name of the database.
        pub to: Located<String>,
        /// The statement, as PostgreSQL has it. `$1` is the first of `values`; nothing else can be put into it.
        pub query: Option<Located<String>>,
        /// Instead of `query`: several statements, all or nothing. The result is that of the last. If one of them fails, or has no row
        /// where it wants one, nothing is changed. Where other changes come in between, all of it is run again.
        pub transaction: Option<Located<Vec<StatementSpec>>>,
        /// An expression for each of `$1`, `$2` and so on. A value must be of the type that the statement needs: a number from the
        /// path is `$path.id | tonumber`. Dates, times and UUIDs are text; JSON may be any value; null is NULL.
        pub values: Vec<Expression> = Vec::new(),
        /// Whether nothing may be changed. It then runs on one of the database's `replicas`, if it has some, and the server refuses
        /// what changes something; clients get 500, and nothing is changed. A `transaction` begins with `BEGIN READ ONLY`.
        pub read_only: bool = false,
        /// Whether one row is wanted. The result is that row, and 404 if there is none, or if nothing was changed. Several rows are
        /// an error of the statement.
        pub one: bool = false,
        /// The key of the item under which the result is put. Without it, the result replaces the item.
        #[name = "as"]
        pub name: Option<Located<String>>,
        /// A condition. If it is false or null, nothing is run; the result is `otherwise`, or null.
        pub when: Option<Expression>,
        /// The value to use if the statement fails, or gives no row where one is wanted.
        pub otherwise: Option<Located<Literal>>,
        /// How long it may take, if not as long as other statements of the database.
        pub timeout: Option<Timeout>,
        /// The most bytes of an item that are read for the expressions.
        pub max_body: Size = MAX_BODY,
    }
}

spec! {
    /// A statement of a transaction.
    pub struct StatementSpec {
        /// The statement.
        pub query: Located<String>,
        /// An expression for each of `$1`, `$2` and so on.
        pub values: Vec<Expression> = Vec::new(),
        /// Whether one row is wanted.
        pub one: bool = false,
    }
}

impl Sql {
    /// Runs this statement in the database of this name.
    pub fn of(database: &str, query: &str) -> Self {
        let text = |text: &str| Located::new(text.to_owned(), Span::default());
        let sql = only([("to", text(database)), ("query", text(query))], &mut Problems::default());
        sql.expect("any text is a name or a statement")
    }
}

impl Spec for Sql {
    fn about(&self) -> About {
        About { asks_database: true, replaces: self.name.is_none(), ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>> {
        let (place, many) = (self.to.span, matches!(cx.flow.shape, Shape::Many(_)));
        if let Some(name) = self.name.as_ref().filter(|_| !cx.flow.item) {
            let remedy = "leave out `as`, or put a step before this one";
            return cx.problems.error(name.span, "there is no item to put the result into", remedy);
        }
        let (key, text) = (self.name.clone(), format!("sql {}", self.to.value));
        let running = self.running("sql".into(), cx)?;
        let text = format!("{text} {}", running.shown());
        if let Some(name) = key {
            cx.put_under(&name);
        }
        if many && !running.reads_item && running.last.query.only_reads() {
            let remedy = "run it once, before the list, or use the item in `values`";
            cx.problems.warning(place, "every item runs the same statement", remedy);
        }
        let waits = running.name.as_ref().map(|_| "the item and the result are read whole, to be one object");
        cx.explain(text, waits, cx.flow.shape.most());
        Some(Box::new(Statements(Arc::new(running))))
    }
}

impl Sql {
    /// The statement, ready to be run for any item.
    pub(crate) fn running(self, step: Cow<'static, str>, cx: &mut Compile<'_>) -> Option<Running> {
        let database = cx.database(&self.to);
        let written = self.statements(cx);
        let when = self.when.as_ref().map_or(Some(None), |when| cx.condition(when).map(Some));
        let otherwise = cx.literal(self.otherwise.as_ref());
        // Every problem of every statement is told.
        let filters: Vec<Option<Vec<Filter>>> =
            written.iter().flatten().map(|statement| compile_values(&statement.values, cx)).collect();
        let access = if self.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let (database, when, otherwise) = (database?, when?, otherwise?);
        let filters = filters.into_iter().collect::<Option<Vec<_>>>()?;
        let ready = |(statement, filters): (&StatementSpec, Vec<Filter>)| Statement {
            query: database.query(&statement.query, filters.len(), access),
            names: statement.values.iter().enumerate().map(|(at, value)| name(at, value.0.as_str())).collect(),
            wanted: if statement.one { Wanted::One } else { Wanted::List },
            filters,
        };
        let mut statements: Vec<Statement> = written?.iter().zip(filters).map(ready).collect();
        let last = statements.pop()?;
        let all = || statements.iter().chain([&last]).flat_map(|statement| &statement.filters).chain(&when);
        let blames: Vec<Blame> = all().map(|filter| Blame::of(filter, cx.flow.first)).collect();
        let blame = if blames.contains(&Blame::Upstream) { Blame::Upstream } else { Blame::Client };
        let reads_item = all().any(Filter::reads_item);
        let uses = all().flat_map(|filter| filter.uses().iter().cloned()).collect();
        Some(Running {
            noted: cx.calling(&step),
            step,
            name: self.name.map(|name| name.value),
            reads_item,
            uses,
            otherwise: otherwise.map(Data::Json),
            timeout: self.timeout,
            max_body: self.max_body.bytes(),
            database,
            before: statements,
            last,
            when,
            blame,
        })
    }

    /// The statements, as they are written: one, or those of a transaction.
    fn statements(&self, cx: &mut Compile<'_>) -> Option<Vec<StatementSpec>> {
        let statements = match (&self.query, &self.transaction) {
            (Some(query), None) => {
                vec![StatementSpec { query: query.clone(), values: self.values.clone(), one: self.one }]
            }
            (None, Some(transaction)) if !transaction.value.is_empty() => {
                if self.one || !self.values.is_empty() {
                    let remedy = "write them at the statements";
                    let message = "`values` and `one` are those of a single `query`";
                    return cx.problems.error(transaction.span, message, remedy);
                }
                transaction.value.clone()
            }
            (Some(_), Some(transaction)) => {
                let remedy = "make `query` the last statement of `transaction`";
                return cx.problems.error(transaction.span, "`transaction` beside `query`", remedy);
            }
            _ => {
                let remedy = "add `query: select …`";
                return cx.problems.error(self.to.span, "there is no statement", remedy);
            }
        };
        for statement in &statements {
            if statement.query.value.trim().is_empty() {
                let remedy = "write a statement, as in `select id, name from users where id = $1`";
                return cx.problems.error(statement.query.span, "there is no statement", remedy);
            }
            if self.read_only && writes(&statement.query.value) {
                let message = "this changes something, and `read_only` allows nothing to be changed";
                return cx.problems.error(statement.query.span, message, "leave out `read_only`");
            }
        }
        Some(statements)
    }
}

fn compile_values(values: &[Expression], cx: &mut Compile<'_>) -> Option<Vec<Filter>> {
    let filters: Vec<Option<Filter>> = values.iter().map(|value| cx.filter(value)).collect();
    filters.into_iter().collect()
}

/// What a value is called towards the client: by what it takes of the request, if that is plain to see.
fn name(at: usize, expression: &str) -> Box<str> {
    let word = |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let of = |prefix: &str| {
        let rest = expression.trim_start_matches(['(', ' ']).strip_prefix(prefix)?.strip_prefix('.')?;
        Some(&rest[..word(rest)]).filter(|name| !name.is_empty())
    };
    let known = [("$path", "in the path"), ("$query", "in the query"), ("$body", "in the body")];
    let found = known.iter().find_map(|(prefix, place)| Some(format!("`{}` {place}", of(prefix)?)));
    found.unwrap_or_else(|| format!("value {}", at + 1)).into()
}

/// One statement, with what makes its values.
struct Statement {
    query: Arc<Query>,
    filters: Vec<Filter>,
    names: Arc<[Box<str>]>,
    wanted: Wanted,
}

/// The values of all statements.
struct Values {
    before: Vec<Vec<Data>>,
    last: Vec<Data>,
}

/// A statement or a transaction, ready to be run for any item.
pub(crate) struct Running {
    /// For errors: `sql`, or `requests.NAME`.
    step: Cow<'static, str>,
    /// For records.
    noted: Arc<CallingStep>,
    /// The key of the item under which the result is put.
    name: Option<String>,
    database: Arc<Database>,
    /// The statements before the last, in a transaction.
    before: Vec<Statement>,
    last: Statement,
    when: Option<Filter>,
    otherwise: Option<Data>,
    timeout: Option<Timeout>,
    max_body: usize,
    reads_item: bool,
    /// The variables that it uses.
    uses: Vec<String>,
    blame: Blame,
}

impl Running {
    /// Runs it for an item.
    pub(crate) async fn make(self: Arc<Self>, item: Data, names: Names, scope: Arc<Scope>) -> Outcome {
        let values = match self.values(item.clone(), &names, &scope) {
            Either::Left(here) => here.into_inner(),
            Either::Right(lent) => lent.await,
        };
        let answer = match values {
            Ok(Some(values)) => self.run(values, &scope).await,
            Ok(None) => Ok(Answer::of_value(self.otherwise.clone().unwrap_or_else(|| jq::null().into()))),
            Err(error) => Err(error),
        };
        let answer = match (answer, &self.otherwise) {
            (Err(_), Some(otherwise)) => Ok(Answer::of_value(otherwise.clone())),
            (answer, _) => answer,
        };
        let answer = match (answer, &self.name) {
            // Boxed: those without it would carry the room.
            (Ok(answer), Some(name)) => Box::pin(self.put(name, item, answer)).await,
            (answer, _) => answer,
        };
        let step = self.step.clone();
        Some(answer.map(|answer| Answer { names, ..answer }).map_err(|error| error.at_step(step)))
    }

    /// The item with the result in it.
    async fn put(&self, name: &str, item: Data, answer: Answer) -> Result<Answer, Error> {
        let found = format::data(answer, self.max_body).await?;
        let (key, weight) = (name.to_owned(), item.weight() + found.weight());
        let put = move || embed(&key, item.clone(), found.clone());
        offload::run(weight, put).await.map(Answer::of_value)
    }

    /// Where it is run, and what.
    pub(crate) fn describe(&self) -> String {
        format!("{} {}", self.database.name(), self.shown())
    }

    fn shown(&self) -> String {
        let before = self.before.iter().map(|statement| format!("{}; ", statement.query.shown()));
        before.chain([self.last.query.shown().to_owned()]).collect()
    }

    async fn run(&self, values: Values, scope: &Scope) -> Result<Answer, Error> {
        let before = self.before.iter().zip(values.before).map(|(statement, values)| Before {
            query: statement.query.clone(),
            values,
            names: statement.names.clone(),
            wanted: statement.wanted,
        });
        let run = Run {
            query: self.last.query.clone(),
            values: values.last,
            names: self.last.names.clone(),
            wanted: self.last.wanted,
            before: before.collect(),
            timeout: self.timeout,
            deadline: scope.deadline(),
            note: scope.record().map(|record| CallNote::new(record, &self.noted)),
            repeatable: self.is_repeatable(scope),
        };
        self.database.run(run).await
    }

    /// Whether it may be run again when what became of it is not known.
    fn is_repeatable(&self, scope: &Scope) -> bool {
        let query = &self.last.query;
        let harmless = self.before.is_empty() && query.only_reads() && scope.method().is_safe();
        harmless || query.access() == Access::ReadOnly
    }

    /// The values; nothing, where `when` says so.
    fn values(self: &Arc<Self>, item: Data, names: &Names, scope: &Arc<Scope>) -> Work<Option<Values>> {
        let own = if self.reads_item { item.weight() } else { 0 };
        let weight = own + scope.weight(&self.uses, names);
        let (running, names, scope) = (self.clone(), names.clone(), scope.clone());
        offload::run(weight, move || running.evaluate(&item, &names, &scope))
    }

    fn evaluate(&self, item: &Data, names: &Names, scope: &Scope) -> Result<Option<Values>, Error> {
        if let Some(when) = &self.when
            && !holds(when, item.clone(), names, scope, self.blame)?
        {
            return Ok(None);
        }
        let one = |(at, filter): (usize, &Filter)| {
            let mut outputs = apply(filter, item.clone(), names, scope, self.blame)?;
            match outputs.len() {
                0 | 1 => Ok(outputs.pop().unwrap_or_else(|| jq::null().into())),
                more => {
                    let detail = format!("value {} gives {more} values where one is needed", at + 1);
                    Err(self.blame.lay(Error::new(Kind::Expression, detail)))
                }
            }
        };
        let values = |statement: &Statement| statement.filters.iter().enumerate().map(one).collect::<Result<_, _>>();
        let before = self.before.iter().map(values).collect::<Result<_, _>>()?;
        Ok(Some(Values { before, last: values(&self.last)? }))
    }
}

impl AnswerSource for Running {
    fn ask_once(self: Arc<Self>, names: Names, scope: Arc<Scope>) -> BoxFuture<'static, Outcome> {
        Box::pin(self.make(jq::null().into(), names, scope))
    }

    fn uses(&self) -> &[String] {
        &self.uses
    }

    fn otherwise(&self) -> Option<Answer> {
        self.otherwise.clone().map(Answer::of_value)
    }

    fn max_body(&self) -> usize {
        self.max_body
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
    Data::made(value::fields_of(fields))
}

/// The step.
struct Statements(Arc<Running>);

impl Step for Statements {
    fn begin(&self, scope: &Arc<Scope>) -> Flow {
        Flow::one(scope.next_producer(), self.0.clone().make(jq::null().into(), None, scope.clone()))
    }

    fn run(&self, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let (running, scope) = (self.0.clone(), scope.clone());
        flow.map(move |producer| {
            let (running, scope) = (running.clone(), scope.clone());
            producer.then(move |outcome| follow(running, outcome, scope))
        })
    }
}

/// Runs it for the item that a producer yields.
async fn follow(running: Arc<Running>, outcome: Outcome, scope: Arc<Scope>) -> Outcome {
    let answer = match outcome? {
        Ok(answer) if answer.is_usable() => answer,
        other => return Some(other),
    };
    let (names, text) = (answer.names.clone(), format::Text::of(&answer));
    let item = match running.reads_item || running.name.is_some() {
        true => match format::data(answer, running.max_body).await {
            Ok(item) => item,
            Err(error) => return Some(Err(error)),
        },
        false => jq::null().into(),
    };
    running.make(item, names, scope).await.map(|made| made.map_err(|error| format::explain(text.as_ref(), error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_called_by_what_it_takes() {
        let names = ["$path.id | tonumber", "($query.limit // 10)", "$body.a_b", "$claims.sub", "$body"]
            .map(|text| name(1, text));
        let wanted = ["`id` in the path", "`limit` in the query", "`a_b` in the body", "value 2", "value 2"];
        assert_eq!(names.map(String::from), wanted);
    }
}
