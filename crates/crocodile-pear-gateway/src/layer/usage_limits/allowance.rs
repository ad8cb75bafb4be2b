//! How much a limit lets pass, and for how long: fixed, or by the request.

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, ExpressionSpec, Json, Node};
use crocodile_pear::unstable::jq::{self, Filter, as_str};
use crocodile_pear::unstable::json::value::{self, Shape};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;

use super::period::Period;
use super::rate::{Rate, RateValue};
use super::table::{Left, Pace, Table};

/// A value as written, or an expression over the client's request that gives it.
#[derive(Clone, Debug)]
pub enum WrittenValue<T> {
    Fixed(T),
    Of(ExpressionSpec),
}

impl<T: Decode> Decode for WrittenValue<T> {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        // What depends on the request names a variable.
        match node.as_text().is_some_and(|text| text.value.contains('$')) {
            true => ExpressionSpec::decode(node, problems).map(WrittenValue::Of),
            false => T::decode(node, problems).map(WrittenValue::Fixed),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        serde_json::json!({"anyOf": [T::schema(definitions), ExpressionSpec::schema(definitions)]})
    }
}

/// The amount that one key may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The units, as clients are told.
    pub units: u64,
    pub clock: Clock,
    pub pace: Pace,
}

/// When what was used is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Little by little, all of it within these nanoseconds.
    Steady(u64),
    /// At the end of the period.
    Period(Period),
}

/// The most units of a quota: the time of a key has room for two periods that are used up.
pub const LARGEST: u64 = 1 << 39;

/// How far the periods of a quota are apart on the clock of its keys.
const APART: u32 = 40;

impl Allowance {
    /// So many units in this time, `burst` of them at once. Nothing if that is beyond the clock's range.
    pub fn of_rate(rate: Rate, burst: Option<u64>) -> Option<Self> {
        let pace = Pace::new(rate.interval(), burst.unwrap_or(rate.requests))?;
        let window = u64::try_from(rate.window.as_nanos()).ok()?;
        Some(Allowance { units: rate.requests, clock: Clock::Steady(window), pace })
    }

    /// No unit at any time: every request is refused.
    fn none(clock: Clock) -> Self {
        let interval = match clock {
            Clock::Steady(window) => window.max(1),
            Clock::Period(_) => 1,
        };
        Allowance { units: 0, clock, pace: Pace { interval, room: 0 } }
    }

    pub fn of_quota(units: u64, period: Period) -> Option<Self> {
        let pace = Pace::new(1, units).filter(|_| units <= LARGEST)?;
        Some(Allowance { units, clock: Clock::Period(period), pace })
    }

    /// The part of it for one of `replicas` gateways.
    pub fn share(self, replicas: u64) -> Self {
        let pace = match self.clock {
            Clock::Steady(_) => self.pace.share(replicas),
            Clock::Period(_) => Pace { room: (self.pace.room / replicas).max(self.pace.room.min(1)), ..self.pace },
        };
        Allowance { pace, ..self }
    }

    /// The time on the clock of its keys.
    pub fn now(&self, table: &Table) -> u64 {
        match self.clock {
            Clock::Steady(_) => table.now(),
            Clock::Period(period) => period.now().number << APART,
        }
    }

    /// The rest, in units and nanoseconds.
    pub fn told(&self, left: Left) -> Left {
        let Clock::Period(period) = self.clock else { return left };
        let end = period.now().left.saturating_mul(1_000_000_000);
        Left { next: if left.remaining == 0 || left.next > 0 { end } else { 0 }, whole: end, ..left }
    }

    /// The seconds after which all of it is there again, at most.
    pub fn window(&self) -> u64 {
        match self.clock {
            Clock::Steady(nanos) => nanos.div_ceil(1_000_000_000),
            Clock::Period(period) => period.now().whole,
        }
    }
}

/// How much a limit lets pass.
pub enum Amount {
    Fixed(Allowance),
    Of { filter: Box<Filter>, kind: AllowanceKind, failures: LogLimiter },
}

/// The values that an expression gives.
pub enum AllowanceKind {
    /// `100/1m`; a burst that is written.
    Rate(Option<u64>),
    /// A number.
    Quota(Period),
}

impl Amount {
    /// The amount that the client of this request may use; `None` if the expression does not give it.
    pub fn find(&self, scope: &Scope) -> Option<Allowance> {
        let (filter, kind, failures) = match self {
            Amount::Fixed(allowance) => return Some(*allowance),
            Amount::Of { filter, kind, failures } => (filter, kind, failures),
        };
        let found = filter.run_one(jq::null(), &mut |name| scope.variable(name, &None));
        let wrong = match found {
            Ok(None) => return None,
            Ok(Some(value)) if value == jq::null() => return None,
            Ok(Some(value)) => match kind.read(&value) {
                Some(allowance) => return Some(allowance),
                None => kind.wrong().to_owned(),
            },
            Err(error) => error.to_string(),
        };
        if failures.allows() {
            tracing::warn!("the amount of a limit is not known, and the request counts as one without it: {wrong}");
        }
        None
    }
}

impl AllowanceKind {
    fn read(&self, value: &jq::Value) -> Option<Allowance> {
        match self {
            AllowanceKind::Rate(burst) => match Rate::of(as_str(value)?)? {
                RateValue::Some(rate) => Allowance::of_rate(rate, *burst),
                RateValue::Zero(window) => Some(Allowance::none(Clock::Steady(window))),
            },
            AllowanceKind::Quota(period) => match whole(value)? {
                0 => Some(Allowance::none(Clock::Period(*period))),
                units => Allowance::of_quota(units, *period),
            },
        }
    }

    fn wrong(&self) -> &'static str {
        match self {
            AllowanceKind::Rate(_) => "the expression gives something else than a rate, as `100/1m`",
            AllowanceKind::Quota(_) => "the expression gives something else than a number from 0 on",
        }
    }
}

/// A number as a count, rounded up, and at most the largest one; also a number in a text.
pub fn whole(value: &jq::Value) -> Option<u64> {
    let number = match value::shape(value) {
        Shape::Integer(number) => return u64::try_from(number).ok().map(|number| number.min(LARGEST)),
        Shape::Float(number) => number,
        Shape::Literal(literal) => literal.parse().ok()?,
        Shape::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok()?,
        _ => return None,
    };
    // A client that asks for more than can be counted does not get it for one unit.
    (number >= 0.0).then(|| (number.ceil() as u64).min(LARGEST))
}

#[cfg(test)]
mod tests {
    use super::super::allowance::*;

    #[test]
    fn a_number_is_counted_in_whole_units() {
        let read =
            |text: &str| whole(&crocodile_pear::unstable::json::read(&text.as_bytes().to_vec().into()).expect("JSON"));
        for (text, count) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("1.2", Some(2)),
            ("\"12\"", Some(12)),
            ("-1", None),
            ("1e30", Some(LARGEST)),
            ("\"1e300\"", Some(LARGEST)),
            ("99999999999999999999999999", Some(LARGEST)),
            ("9223372036854775807", Some(LARGEST)),
            ("\"nan\"", None),
            ("null", None),
            ("\"\"", None),
            ("[1]", None),
        ] {
            assert_eq!(read(text), count, "{text}");
        }
    }

    #[test]
    fn an_amount_of_zero_refuses_every_request_at_each_of_several_gateways() {
        let read = |kind: AllowanceKind, text: &str| {
            kind.read(&crocodile_pear::unstable::json::read(&text.as_bytes().to_vec().into()).ok()?)
        };
        let table = Table::default();
        for allowance in [read(AllowanceKind::Rate(None), "\"0/1m\""), read(AllowanceKind::Quota(Period::Day), "0")] {
            let allowance = allowance.expect("an allowance");
            for allowance in [allowance, allowance.share(3)] {
                assert!(table.take(7, allowance.now(&table), allowance.pace, 1).is_err(), "{allowance:?}");
            }
        }
        assert!(
            read(AllowanceKind::Rate(None), "\"0/never\"").is_none()
                && read(AllowanceKind::Quota(Period::Day), "-1").is_none()
        );
    }

    #[test]
    fn a_quota_is_full_again_in_the_next_period() {
        let quota = Allowance::of_quota(3, Period::Day).expect("a quota");
        let table = Table::default();
        let today = quota.now(&table);
        assert!(table.take(1, today, quota.pace, 3).is_ok() && table.take(1, today, quota.pace, 1).is_err());
        assert_eq!(table.charge(1, today, quota.pace, 5), 5);
        assert!(table.take(1, today + (1 << APART), quota.pace, 3).is_ok());
        assert!(
            Allowance::of_quota(LARGEST + 1, Period::Day).is_none() && Allowance::of_quota(0, Period::Day).is_none()
        );
    }
}
