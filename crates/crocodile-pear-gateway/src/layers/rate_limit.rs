//! `rate_limit`: limits the rate of requests, or of what they cost, per client or per value of an expression.

use std::num::NonZeroU32;
use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, ExpressionSpec, Field, Json, Located, Node};
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;

use crate::layer::limit_key::Missing;
use crate::layer::usage_limits::{
    Allowance, AllowanceKind, Amount, Limit, LimitFields, LimitPlace, Limits, Rate, WrittenValue,
};
use crate::layer::{Compile, Layer, LayerPosition, Spec};

spec! {
    /// The maximum rate of requests. Further requests get 429.
    pub struct RateLimit {
        /// The number of requests per time: `100/1m`. Or an expression over the client's request that gives such a text:
        /// `if $claims.plan == "paid" then "100/1m" else "10/1m" end`. An expression that gives `0/1m` lets nothing pass.
        pub rate: Located<WrittenValue<Rate>>,
        /// How many requests may come at once after a pause. Default: the number in `rate`.
        pub burst: Option<Located<NonZeroU32>>,
        /// The expression by whose value requests are counted: `$client.address`, `$headers["x-api-key"]`,
        /// `$claims.sub`. Each value has its own limit. By default all requests are counted together.
        pub by: Option<ExpressionSpec>,
        /// The handling of a request whose `by` is null, or whose `rate` is null or not a rate. Such requests are counted in
        /// `crocodile_pear_limit_requests_total` with the result `missing`.
        pub missing: Missing = Missing::Allow,
        /// The cost of a request; default: 1. An expression over the client's request (`$query.size | tonumber`), or over the
        /// finished answer: there `.` is its body and `$status` its status (`.usage.total_tokens`). Of a stream of events or
        /// of lines, `.` is the last one for which the expression gives a number. An answer that gives no number costs 1; a
        /// stream that gives none, or is cut off, costs 1 for each of its events. Costs of answers are charged when the
        /// answer has ended: a request passes while anything is left, and may use more than that. The next requests wait
        /// until this is made up for.
        pub cost: Option<ExpressionSpec>,
        /// The name of the limit in answers. Default: `default`, or the rate if there are several limits.
        pub name: Option<Located<String>>,
    }
}

/// A limit or several, all of which must be kept.
#[derive(Clone, Debug)]
pub struct RateLimits(Vec<RateLimit>);

impl Decode for RateLimits {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.as_list() {
            Some([]) => node.wrong("a limit", "write `{ rate: 100/1m }`", problems),
            Some(_) => Vec::decode(node, problems).map(RateLimits),
            None => RateLimit::decode(node, problems).map(|limit| RateLimits(vec![limit])),
        }
    }

    fn fields() -> Vec<Field> {
        RateLimit::fields()
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let one = RateLimit::schema(definitions);
        serde_json::json!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

impl Spec for RateLimits {
    type Ready = Limiters;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "rate_limit",
        "Rate limits over all endpoints together: one limit, or a list of limits that all apply.",
    ));

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "rate_limit",
        "Rate limits of its requests. They replace the top-level limits; `off` for no limit.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Limiters>> {
        let several = self.0.len() > 1;
        let mut names: Vec<String> = Vec::new();
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for limit in &self.0 {
            let Some(ready) = limit.ready(several, &mut names, cx) else { continue };
            if ready.needs_claims() { late.push(ready) } else { early.push(ready) }
        }
        let limits = |limits: Vec<Limit>, place| {
            let place = ("rate_limit", place);
            (!limits.is_empty()).then(|| Arc::new(Limits::new(limits, place, cx.services.store.clone(), cx.metrics())))
        };
        Some(Arc::new(Limiters { early: limits(early, LimitPlace::Client), late: limits(late, LimitPlace::Claims) }))
    }

    fn around(ready: &Arc<Limiters>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        let route = at.route.map(|route| &**route);
        for limits in ready.early.iter().chain(&ready.late) {
            at.metered |= limits.are_charged();
        }
        if let Some(late) = &ready.late {
            at.for_consumers = Some(late.at(route));
        }
        ready.early.as_ref().map(|early| early.at(route))
    }
}

/// The limits of one place, in two groups: those that need only the client, and those that need `$claims`.
pub struct Limiters {
    early: Option<Arc<Limits>>,
    late: Option<Arc<Limits>>,
}

impl RateLimit {
    fn ready(&self, several: bool, names: &mut Vec<String>, cx: &mut Compile<'_>) -> Option<Limit> {
        let burst = self.burst.as_ref().map(|burst| burst.value.get().into());
        let place = self.rate.span;
        let (amount, text) = match &self.rate.value {
            WrittenValue::Fixed(rate) => match Allowance::of_rate(*rate, burst) {
                Some(allowance) => (Amount::Fixed(allowance), rate.to_string()),
                None => {
                    let message = "a burst at this rate takes longer than 100 years";
                    return cx.problems.error(place, message, "write a smaller `burst`");
                }
            },
            WrittenValue::Of(expression) => {
                let (kind, failures) = (AllowanceKind::Rate(burst), LogLimiter::default());
                let filter = Box::new(cx.filter(expression, &[])?);
                (Amount::Of { filter, kind, failures }, expression.0.value.clone())
            }
        };
        let usual = match (several, &amount) {
            (false, _) => "default".to_owned(),
            (true, Amount::Fixed(_)) => text.clone(),
            (true, Amount::Of { .. }) => format!("limit-{}", names.len() + 1),
        };
        let burst = burst.map_or(String::new(), |burst| format!("|{burst}"));
        let fields = LimitFields {
            by: self.by.as_ref(),
            missing: self.missing,
            cost: self.cost.as_ref(),
            name: self.name.as_ref(),
            usual,
            written: Located::new(format!("{text}{burst}"), place),
        };
        fields.compile(amount, names, cx)
    }
}
