//! `quota`: limits what clients use in an hour, a day, a week or a month.

use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, ExpressionSpec, Field, Json, Located, Node};
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;

use crate::layer::limit_key::Missing;
use crate::layer::usage_limits::{
    Allowance, AllowanceKind, Amount, LARGEST, Limit, LimitFields, LimitPlace, Limits, Period, WrittenValue,
};
use crate::layer::{Compile, Layer, LayerPosition, Spec};

spec! {
    /// How much may be used in a period of the calendar. Further requests get 429 until the period ends. Where `store` has
    /// a `redis`, all gateways count together, and a restart forgets nothing. Without one, each gateway counts for itself,
    /// and forgets when it is restarted; a reload forgets nothing.
    pub struct Quota {
        /// How many requests, or how much of their `cost`: a number, or an expression over the client's request that gives
        /// one: `$claims.tokens_per_month`. An expression that gives 0 lets nothing pass.
        pub amount: Located<WrittenValue<u64>>,
        /// The period, in UTC.
        pub per: Period,
        /// The expression by whose value requests are counted: `$claims.sub`. Each value has its own quota. By default all
        /// requests are counted together.
        pub by: Option<ExpressionSpec>,
        /// The handling of a request whose `by` or `amount` is null. Such requests are counted in
        /// `crocodile_pear_limit_requests_total` with the result `missing`.
        pub missing: Missing = Missing::Allow,
        /// The cost of a request; default: 1. As in `rate_limit`: an expression over the client's request, or over the
        /// finished answer, such as `.usage.total_tokens`.
        pub cost: Option<ExpressionSpec>,
        /// The name of the quota in answers. Default: `quota`, or the period if there are several quotas.
        pub name: Option<Located<String>>,
    }
}

/// A quota or several, all of which must be kept.
#[derive(Clone, Debug)]
pub struct Quotas(Vec<Quota>);

impl Decode for Quotas {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_list() {
            Some([]) => node.wrong("a quota", "write `{ amount: 10000, per: month }`", problems),
            Some(_) => Vec::decode(node, problems).map(Quotas),
            None => Quota::decode(node, problems).map(|quota| Quotas(vec![quota])),
        }
    }

    fn fields() -> Vec<Field> {
        Quota::fields()
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let one = Quota::schema(definitions);
        serde_json::json!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

impl Spec for Quotas {
    type Ready = Limits;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "quota",
        "How much may be used in an hour, a day, a week or a month, over all endpoints together: one quota, or a list \
             of quotas that all apply.",
    ));

    const AT_ENDPOINT: Option<Field> =
        Some(Field::new("quota", "Quotas of its requests. They replace the top-level quotas; `off` for none."));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Limits>> {
        let several = self.0.len() > 1;
        let mut names: Vec<String> = Vec::new();
        let mut limits = Vec::new();
        for quota in &self.0 {
            limits.extend(quota.ready(several, &mut names, cx));
        }
        let place = ("quota", LimitPlace::Quota);
        (!limits.is_empty()).then(|| Arc::new(Limits::new(limits, place, cx.services.store.clone(), cx.metrics())))
    }

    fn around(ready: &Arc<Limits>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        at.metered |= ready.are_charged();
        Some(ready.at(at.route.map(|route| &**route)))
    }
}

impl Quota {
    fn ready(&self, several: bool, names: &mut Vec<String>, cx: &mut Compile<'_>) -> Option<Limit> {
        let place = self.amount.span;
        let (amount, text) = match &self.amount.value {
            WrittenValue::Fixed(units) => match Allowance::of_quota(*units, self.per) {
                Some(allowance) => (Amount::Fixed(allowance), units.to_string()),
                None => {
                    let message = format!("`{units}` is not the amount of a quota");
                    return cx.problems.error(place, message, format!("write a number from 1 to {LARGEST}"));
                }
            },
            WrittenValue::Of(expression) => {
                let (kind, failures) = (AllowanceKind::Quota(self.per), LogLimiter::default());
                let filter = Box::new(cx.filter(expression, &[])?);
                (Amount::Of { filter, kind, failures }, expression.0.value.clone())
            }
        };
        let fields = LimitFields {
            by: self.by.as_ref(),
            missing: self.missing,
            cost: self.cost.as_ref(),
            name: self.name.as_ref(),
            usual: if several { self.per.word().to_owned() } else { "quota".to_owned() },
            written: Located::new(format!("{text}/{}", self.per.word()), place),
        };
        fields.compile(amount, names, cx)
    }
}
