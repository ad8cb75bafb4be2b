//! The values of a template's variables, as texts.

use crate::error::{Error, Kind};
use crate::jq::{self, Value};
use crate::json::value::{Shape, as_str, shape};
use crate::template::scalar;

/// The value of a variable.
pub(super) enum TemplateValue {
    Text(String),
    List(Vec<String>),
    Pairs(Vec<(String, String)>),
}

/// The value as a template takes it; `None` for one that counts as not given (RFC 6570, 2.3).
pub(super) fn given(name: &str, value: &Value) -> Result<Option<TemplateValue>, Error> {
    let text = |value: &Value| scalar(value).ok_or_else(|| unfit(name, value));
    Ok(match shape(value) {
        Shape::Null => None,
        Shape::List(items) => {
            let items = items.iter().filter(|item| !matches!(shape(item), Shape::Null));
            Some(items.map(text).collect::<Result<Vec<_>, _>>()?)
                .filter(|items| !items.is_empty())
                .map(TemplateValue::List)
        }
        Shape::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !matches!(shape(value), Shape::Null));
            let pair = |(key, value): (&Value, &Value)| Ok((as_str(key).unwrap_or_default().to_owned(), text(value)?));
            let pairs = fields.map(pair).collect::<Result<Vec<_>, Error>>()?;
            Some(pairs).filter(|pairs| !pairs.is_empty()).map(TemplateValue::Pairs)
        }
        _ => Some(TemplateValue::Text(text(value)?)),
    })
}

fn unfit(name: &str, value: &Value) -> Error {
    let kind = jq::kind(value);
    Error::new(Kind::Expression, format!("the variable `{name}` of a link has a value of the type {kind} in its value"))
}
