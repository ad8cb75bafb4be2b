//! Expressions of steps, evaluated for an item.

use crate::error::{Error, Kind};
use crate::jq::{Data, Filter, Value};
use crate::message::names::Names;
use crate::request::context::{Scope, VARIABLES};

/// Evaluates an expression for an item.
///
/// # Errors
/// The error of the expression; `BadRequest` if only the client's request can be the cause.
pub fn evaluate(
    filter: &Filter,
    item: Value,
    names: &Names,
    scope: &Scope,
    fault_source: FaultSource,
) -> Result<Vec<Value>, Error> {
    filter.run(item, &mut |name| scope.variable(name, names)).map_err(|error| fault_source.attribute(error.into()))
}

/// The same on data that need not be parsed.
///
/// # Errors
/// The errors of [`evaluate`].
pub fn apply(
    filter: &Filter,
    item: Data,
    names: &Names,
    scope: &Scope,
    fault_source: FaultSource,
) -> Result<Vec<Data>, Error> {
    filter.apply(item, &mut |name| scope.data(name, names)).map_err(|error| fault_source.attribute(error.into()))
}

/// About how many bytes an expression reads: of the item, and of the documents that its variables are.
pub fn weigh(filter: &Filter, item: &Data, names: &Names, scope: &Scope) -> usize {
    let own = if filter.reads_item() { item.weight() } else { 0 };
    let weight = own + scope.weight(filter.uses(), names);
    // To take parts of bytes costs a fraction of reading them.
    if filter.is_native() { weight / 8 } else { weight }
}

/// The part of an item that an expression begins with: a key of it, a named result as `$name`, or nothing.
pub fn part(expression: &str) -> &str {
    let text = expression.trim_start_matches(|c: char| c.is_whitespace() || c == '(' || c == '[');
    let word = |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    match (text.strip_prefix('$'), text.strip_prefix('.')) {
        (Some(name), _) => &text[..=word(name)],
        (None, Some(key)) => match key.strip_prefix("[\"").or_else(|| key.strip_prefix('"')) {
            Some(quoted) => quoted.split('"').next().unwrap_or_default(),
            None => &key[..word(key)],
        },
        (None, None) => "",
    }
}

/// Whether a condition holds for an item: it gives something that is neither false nor null.
///
/// # Errors
/// The errors of `evaluate`.
pub fn holds(
    condition: &Filter,
    item: impl Into<Data>,
    names: &Names,
    scope: &Scope,
    fault_source: FaultSource,
) -> Result<bool, Error> {
    Ok(apply(condition, item.into(), names, scope, fault_source)?.iter().any(Data::holds))
}

/// Whose fault a failing expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultSource {
    /// The expression reads only what the client sent.
    Client,
    /// The expression reads what an upstream sent.
    Upstream,
    /// The expression reads nothing that changes: it fails each time.
    Operator,
}

impl FaultSource {
    /// The blame for an expression in a step that reads `item` from an upstream unless the step is `first`.
    pub fn from_filter(filter: &Filter, first: bool) -> Self {
        let named = filter.uses().iter().any(|name| !VARIABLES.contains(&name.as_str()));
        if filter.uses().is_empty() && !filter.reads_item() {
            return FaultSource::Operator;
        }
        if named || (!first && filter.reads_item()) { FaultSource::Upstream } else { FaultSource::Client }
    }

    /// The error, with the kind for whose fault it is.
    pub fn attribute(self, error: Error) -> Error {
        match self {
            FaultSource::Client if error.kind() == Kind::Expression => {
                Error::new(Kind::BadRequest, error.detail().to_owned())
            }
            FaultSource::Operator if error.kind() == Kind::Expression => {
                Error::new(Kind::Internal, error.detail().to_owned())
            }
            _ => error,
        }
    }
}
