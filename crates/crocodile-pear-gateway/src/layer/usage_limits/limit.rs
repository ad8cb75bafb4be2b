//! A limit, and what a request takes of it.

use std::sync::Arc;

use crocodile_pear::unstable::config::spec::{ExpressionSpec, Located};
use crocodile_pear::unstable::request::context::Scope;

use super::allowance::{Allowance, Amount};
use super::cost::Cost;
use super::table::{Left, Table};
use crate::layer::Compile;
use crate::layer::limit_key::{By, LimitKey, Missing};

pub struct Limit {
    pub name: String,
    pub amount: Amount,
    pub by: By,
    pub missing: Missing,
    pub cost: Option<Cost>,
    /// Identifies the same limit in other gateways and after a reload.
    pub identity: String,
    pub table: Arc<Table>,
}

/// The fields that all kinds of limits have, as written.
pub struct LimitFields<'a> {
    pub by: Option<&'a ExpressionSpec>,
    pub missing: Missing,
    pub cost: Option<&'a ExpressionSpec>,
    pub name: Option<&'a Located<String>>,
    /// The name if none is written.
    pub usual: String,
    /// The amount as written.
    pub written: Located<String>,
}

/// The amount that a request takes of one limit.
#[derive(Clone)]
pub struct Taking {
    pub key: LimitKey,
    pub allowance: Allowance,
    pub units: u64,
}

pub enum Applies {
    Yes(Taking),
    /// Its `by` or its amount is null.
    No,
    /// The same, and such requests are refused.
    Refused,
}

impl LimitFields<'_> {
    /// Compiles them. `names` are the names of the limits before.
    pub fn compile(self, amount: Amount, names: &mut Vec<String>, cx: &mut Compile<'_>) -> Option<Limit> {
        let by = By::compile(self.by, cx);
        let cost = self.cost.map_or(Some(None), |cost| Cost::compile(cost, cx).map(Some));
        let place = self.name.map_or(self.written.span, |name| name.span);
        let name = self.name.map_or(self.usual, |name| name.value.clone());
        if names.contains(&name) {
            return cx.problems.error(place, format!("two limits are called `{name}`"), "give one another `name`");
        }
        if name.is_empty() || !name.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
            return cx.problems.error(place, "this cannot be the name of a limit", "use letters, digits, `-` and `_`");
        }
        names.push(name.clone());
        let text = |written: Option<&ExpressionSpec>| written.map_or(String::new(), |written| written.0.value.clone());
        let costs = self.cost.map_or(String::new(), |_| format!("|{}", text(self.cost)));
        let identity = format!("{}|{name}|{}|{}{costs}", cx.place, self.written.value, text(self.by));
        let table = cx.carry.part(&identity).state(Table::default);
        Some(Limit { name, amount, by: by?, missing: self.missing, cost: cost?, identity, table })
    }
}

impl Limit {
    /// The amount that a request takes of the limit.
    pub fn applies(&self, scope: &Scope) -> Applies {
        let key = match (self.by.key(scope), self.missing) {
            (LimitKey::None, Missing::Allow) => return Applies::No,
            (LimitKey::None, Missing::Reject) => return Applies::Refused,
            (LimitKey::None, Missing::Limit) => LimitKey::Missing,
            (key, _) => key,
        };
        let Some(allowance) = self.amount.find(scope) else {
            // Where nobody says how much it may be, it is nothing.
            return if self.missing == Missing::Allow { Applies::No } else { Applies::Refused };
        };
        let units = self.cost.as_ref().map_or(1, |cost| cost.of_request(scope));
        Applies::Yes(Taking { key, allowance, units })
    }

    /// Whether it is charged when the answer has ended.
    pub fn is_charged(&self) -> bool {
        self.cost.as_ref().is_some_and(Cost::is_after)
    }

    /// Whether it needs the claims of the consumer.
    pub fn needs_claims(&self) -> bool {
        let uses = |filter: &crocodile_pear::unstable::jq::Filter| filter.uses().iter().any(|name| name == "claims");
        let amount = matches!(&self.amount, Amount::Of { filter, .. } if uses(filter));
        let cost = matches!(&self.cost, Some(Cost::Before(filter, _)) if uses(filter));
        amount || cost || self.by.needs_claims()
    }

    /// `"default";q=100;w=60`
    pub fn policy(&self, allowance: Allowance) -> String {
        format!("\"{}\";q={};w={}", self.name, allowance.units, allowance.window())
    }

    /// `"default";r=50;t=30`
    pub fn state(&self, allowance: Allowance, left: Left) -> String {
        let left = allowance.told(left);
        let time = if left.remaining == 0 { left.next } else { left.whole };
        format!("\"{}\";r={};t={}", self.name, left.remaining, seconds(time))
    }
}

/// Whole seconds, rounded up.
pub fn seconds(nanos: u64) -> u64 {
    nanos.div_ceil(1_000_000_000)
}
