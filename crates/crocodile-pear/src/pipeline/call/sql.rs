//! `sql` as it is written, and how it becomes a statement that can be run.

use std::borrow::Cow;

use super::call_options::{CompiledTerms, Terms};
use super::spec::is_body;
use super::statement::{ReadyStatement, Statement};
use crate::config::problem::{Problems, Span};
use crate::config::spec::{ExpressionSpec, Literal, Located, Size, Timeout, only};
use crate::database::{Access, Wanted, writes};
use crate::jq::{Data, Filter};
use crate::pipeline::step::{Compile, MAX_BODY};
use crate::spec;
use crate::telemetry::request_record::Hidden;

spec! {
    /// Runs a statement in a database: once, or once for each item that flows in. Its rows become JSON objects. An
    /// answer that flows in with a status other than 2xx passes unchanged, and nothing is run.
    ///
    /// Without `one`, the result is a list. It streams: the gateway reads rows from the database as the client takes
    /// them. A statement that never gives rows, such as `insert` without `returning`, gives `{"rows": 2}`: the number
    /// of rows that it changed.
    ///
    /// If the database rejects a request, it is the client's fault: 409 for a unique constraint, 422 for other
    /// constraints, 400 for values of the wrong type or range. 503 means that the database cannot be reached, or that
    /// no connection is free. No answer names a table or shows SQL.
    pub struct Sql {
        /// The name of the database.
        pub to: Located<String>,
        /// The statement, in PostgreSQL's SQL. `$1` is the first of `values`; nothing else can be inserted into it.
        pub query: Option<Located<String>>,
        /// Instead of `query`: several statements that run all or not at all. The result is that of the last one. If
        /// a statement fails, or gives no row where one is expected, nothing is changed. If another transaction
        /// conflicts with it, the whole transaction is run again.
        pub transaction: Option<Located<Vec<StatementSpec>>>,
        /// An expression for each of `$1`, `$2` and so on. A value must have the type that the statement needs: a
        /// number from the path is `$path.id | tonumber`. Dates, times and UUIDs are text; JSON may be any value;
        /// null is NULL. `$body` alone gives the bytes of a body whose type is not read to a `bytea`.
        pub values: Vec<ExpressionSpec> = Vec::new(),
        /// Whether the statement only reads. It then runs on one of the database's `replicas`, if there are any. The
        /// server rejects a change: clients get 500, and nothing is changed. A `transaction` begins with `BEGIN READ
        /// ONLY`.
        pub read_only: bool = false,
        /// Whether exactly one row is expected. The result is that row. If there is no row, or nothing was changed, the
        /// client gets 404. Several rows are an error of the statement.
        pub one: bool = false,
        /// The key of the item under which the result is put. Without it, the result replaces the item.
        #[name = "as"]
        pub name: Option<Located<String>>,
        /// A condition. If it is false or null, the statement is not run; the result is `otherwise`, or null.
        pub when: Option<ExpressionSpec>,
        /// The value to use if the statement fails, or gives no row where one is expected.
        pub otherwise: Option<Located<Literal>>,
        /// Timeout of the statement. Default: the `timeout` of the database.
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
        pub values: Vec<ExpressionSpec> = Vec::new(),
        /// Whether exactly one row is expected.
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

    /// The statement, ready to be run for any item.
    pub(crate) fn ready(self, step: Cow<'static, str>, cx: &mut Compile<'_>) -> Option<ReadyStatement> {
        let database = cx.database(&self.to);
        let statements = self.statements(cx);
        let when = self.when.as_ref().map_or(Some(None), |when| cx.condition(when).map(Some));
        let otherwise = cx.literal(self.otherwise.as_ref());
        // All of them, before one that failed ends it.
        let filters: Vec<Option<Vec<Filter>>> = statements
            .iter()
            .flatten()
            .map(|statement| {
                let sound = self.check(statement, cx);
                compile_values(&statement.values, cx).filter(|_| sound.is_some())
            })
            .collect();
        let access = if self.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let (database, when, otherwise) = (database?, when?, otherwise?);
        let filters = filters.into_iter().collect::<Option<Vec<_>>>()?;
        let compiled = |(statement, filters): (&StatementSpec, Vec<Filter>)| Statement {
            query: database.query(&statement.query, filters.len(), access),
            bodies: statement.values.iter().map(is_body).collect(),
            names: statement.values.iter().enumerate().map(|(at, value)| name(at, value.0.as_str())).collect(),
            wanted: if statement.one { Wanted::One } else { Wanted::List },
            filters,
        };
        let mut statements: Vec<Statement> = statements?.iter().zip(filters).map(compiled).collect();
        let last = statements.pop()?;
        let otherwise = otherwise.map(Data::Json);
        let written =
            CompiledTerms { step, when, otherwise, max_body: self.max_body.bytes(), hidden: Hidden::default() };
        let expressions = statements.iter().chain([&last]).flat_map(|statement| &statement.filters).collect();
        let terms = Terms::new(written, expressions, cx);
        let name = self.name.map(|name| name.value);
        Some(ReadyStatement { terms, name, database, before: statements, last, timeout: self.timeout })
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
        Some(statements)
    }

    /// Whether there is a statement, and it may do what it does.
    fn check(&self, statement: &StatementSpec, cx: &mut Compile<'_>) -> Option<()> {
        let query = &statement.query;
        if query.value.trim().is_empty() {
            let remedy = "write a statement, as in `select id, name from users where id = $1`";
            return cx.problems.error(query.span, "there is no statement", remedy);
        }
        if self.read_only && writes(&query.value) {
            let message = "this changes something, and `read_only` allows nothing to be changed";
            return cx.problems.error(query.span, message, "leave out `read_only`");
        }
        Some(())
    }
}

fn compile_values(values: &[ExpressionSpec], cx: &mut Compile<'_>) -> Option<Vec<Filter>> {
    let filters: Vec<Option<Filter>> = values
        .iter()
        .map(|value| if is_body(value) { cx.filter_without_value(value) } else { cx.filter(value) })
        .collect();
    filters.into_iter().collect()
}

/// The name of a value in errors for the client: where it takes the value from, if the expression shows that.
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

#[cfg(test)]
mod tests {
    use super::super::sql::*;

    #[test]
    fn a_value_is_called_by_what_it_takes() {
        let names = ["$path.id | tonumber", "($query.limit // 10)", "$body.a_b", "$claims.sub", "$body"]
            .map(|text| name(1, text));
        let wanted = ["`id` in the path", "`limit` in the query", "`a_b` in the body", "value 2", "value 2"];
        assert_eq!(names.map(String::from), wanted);
    }
}
