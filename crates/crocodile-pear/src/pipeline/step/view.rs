//! The view of an item that expressions and templates have.

use http::HeaderName;
use http::header::HeaderValue;

use super::evaluate::{FaultSource, evaluate};
use crate::error::{Error, Kind};
use crate::jq::{self, Data, Filter};
use crate::message::names::Names;
use crate::request::context::Scope;
use crate::template::{Template, TemplateSource};

/// An item, and what else is known of it.
pub struct View<'a> {
    /// `.`
    pub item: &'a Data,
    /// Named results.
    pub names: &'a Names,
    pub scope: &'a Scope,
    /// Whose fault an expression is that fails.
    pub fault_source: FaultSource,
}

impl View<'_> {
    /// The value of a header field; `None` for one that is left out.
    ///
    /// # Errors
    /// The errors of [`Template::field`], and `Expression` for a text that no header field can have, as one with line ends.
    pub fn field(&self, name: &HeaderName, template: &Template) -> Result<Option<HeaderValue>, Error> {
        let refuse = |_| Error::new(Kind::Expression, format!("the value for `{name}` is not allowed in a header"));
        template.field(self)?.map(|text| HeaderValue::from_str(&text).map_err(refuse)).transpose()
    }
}

impl TemplateSource for View<'_> {
    fn param(&self, name: &str) -> Option<&str> {
        self.scope.param(name)
    }

    fn rest(&self) -> &str {
        self.scope.rest()
    }

    /// The one value of an expression, null if it has none.
    fn evaluate(&self, filter: &Filter) -> Result<Data, Error> {
        if let Some(picked) = filter.pick(self.item, &mut |name| self.scope.data(name, self.names)) {
            return Ok(picked);
        }
        let mut outputs = evaluate(filter, self.item.clone().into_value(), self.names, self.scope, self.fault_source)?;
        match outputs.len() {
            0 => Ok(jq::null().into()),
            1 => Ok(outputs.remove(0).into()),
            more => {
                Err(Error::new(Kind::Expression, format!("the expression gives {more} values where one is needed")))
            }
        }
    }
}
