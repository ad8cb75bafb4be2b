//! Numbers: integers of any size, numbers that were computed, and numbers as they were written.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[cfg(feature = "expressions")]
use num_bigint::BigInt;

/// A number.
#[derive(Clone, Debug)]
pub enum Number {
    /// An integer that fits a machine word.
    Int(isize),
    /// A larger integer.
    #[cfg(feature = "expressions")]
    BigInt(Arc<BigInt>),
    /// A number that was computed.
    Float(f64),
    /// A number as it was written.
    Literal(Arc<String>),
}

impl Number {
    /// The integer that these digits write, with a sign before them or without one.
    pub fn from_digits(literal: &str) -> Option<Self> {
        let machine = literal.parse().ok().map(Number::Int);
        #[cfg(feature = "expressions")]
        return machine.or_else(|| {
            let digits = literal.strip_prefix('-').unwrap_or(literal);
            let is_whole = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            is_whole.then(|| literal.parse().ok().map(Number::from_large)).flatten()
        });
        #[cfg(not(feature = "expressions"))]
        machine
    }

    /// The number as a machine float, rounded.
    pub fn to_float(&self) -> f64 {
        match self {
            Number::Int(number) => *number as f64,
            #[cfg(feature = "expressions")]
            Number::BigInt(number) => num_traits::ToPrimitive::to_f64(&**number).unwrap_or(f64::NAN),
            Number::Float(number) => *number,
            Number::Literal(literal) => literal.parse().unwrap_or(f64::NAN),
        }
    }
}

/// Arithmetic. The results of integers are integers.
#[cfg(feature = "expressions")]
impl Number {
    /// `self + other`
    pub fn plus(&self, other: &Self) -> Self {
        self.combine(other, isize::checked_add, |left, right| left + right, |left, right| left + right)
    }

    /// `self - other`
    pub fn minus(&self, other: &Self) -> Self {
        self.combine(other, isize::checked_sub, |left, right| left - right, |left, right| left - right)
    }

    /// `self * other`
    pub fn times(&self, other: &Self) -> Self {
        self.combine(other, isize::checked_mul, |left, right| left * right, |left, right| left * right)
    }

    /// `-self`; a literal stays one.
    pub fn negated(&self) -> Self {
        match self {
            Number::Int(number) => {
                number.checked_neg().map_or_else(|| Number::from_large(-BigInt::from(*number)), Number::Int)
            }
            Number::BigInt(number) => Number::from_large(-&**number),
            Number::Float(number) => Number::Float(-number),
            Number::Literal(literal) => {
                let negated = literal.strip_prefix('-').map_or_else(|| format!("-{literal}"), str::to_owned);
                Number::Literal(negated.into())
            }
        }
    }

    fn combine(
        &self,
        other: &Self,
        machine: fn(isize, isize) -> Option<isize>,
        large: fn(&BigInt, &BigInt) -> BigInt,
        float: fn(f64, f64) -> f64,
    ) -> Self {
        Number::from_large(match (self, other) {
            (Number::Int(left), Number::Int(right)) => match machine(*left, *right) {
                Some(number) => return Number::Int(number),
                None => large(&(*left).into(), &(*right).into()),
            },
            (Number::Int(left), Number::BigInt(right)) => large(&(*left).into(), right),
            (Number::BigInt(left), Number::Int(right)) => large(left, &(*right).into()),
            (Number::BigInt(left), Number::BigInt(right)) => large(left, right),
            _ => return Number::Float(float(self.to_float(), other.to_float())),
        })
    }

    /// A machine word where it fits.
    fn from_large(number: BigInt) -> Self {
        isize::try_from(&number).map_or_else(|_| Number::BigInt(number.into()), Number::Int)
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Number::Int(left), Number::Int(right)) => left.cmp(right),
            (Number::Literal(left), Number::Literal(right)) if Arc::ptr_eq(left, right) => Ordering::Equal,
            #[cfg(feature = "expressions")]
            (Number::BigInt(left), Number::BigInt(right)) => left.cmp(right),
            #[cfg(feature = "expressions")]
            (Number::BigInt(left), Number::Int(right)) => (**left).cmp(&BigInt::from(*right)),
            #[cfg(feature = "expressions")]
            (Number::Int(left), Number::BigInt(right)) => BigInt::from(*left).cmp(right),
            _ => compare(self.to_float(), other.to_float()).then_with(|| self.beyond_floats(other)),
        }
    }
}

impl Number {
    /// Compares numbers of which both are infinite as floats: an integer is always finite.
    #[cfg(feature = "expressions")]
    fn beyond_floats(&self, other: &Self) -> Ordering {
        let distance = |number: &Self| match number {
            Number::BigInt(_) => 0.0,
            other => other.to_float(),
        };
        match self.to_float().is_infinite() {
            true => compare(distance(self), distance(other)),
            false => Ordering::Equal,
        }
    }

    #[cfg(not(feature = "expressions"))]
    fn beyond_floats(&self, _other: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// Compares as jq does: nan is less than every number, also than itself. Both zeros are equal.
fn compare(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or(if left.is_nan() { Ordering::Less } else { Ordering::Greater })
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let float = self.to_float();
        match self {
            #[cfg(feature = "expressions")]
            Number::BigInt(number) if float.is_infinite() => number.hash(state),
            // Zero has two signs.
            _ => (float + 0.0).to_bits().hash(state),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(number) => write!(f, "{number}"),
            #[cfg(feature = "expressions")]
            Number::BigInt(number) => write!(f, "{number}"),
            Number::Float(number) => write!(f, "{number:?}"),
            Number::Literal(literal) => f.write_str(literal),
        }
    }
}

#[cfg(feature = "expressions")]
#[cfg(test)]
mod tests {
    use super::*;

    fn number(digits: &str) -> Number {
        Number::from_digits(digits).expect("digits")
    }

    #[test]
    fn integers_are_exact_however_large() {
        let (most, least) = (Number::Int(isize::MAX), Number::Int(isize::MIN));
        for (made, wanted) in [
            (most.plus(&Number::Int(1)), "9223372036854775808"),
            (least.minus(&Number::Int(1)), "-9223372036854775809"),
            (most.times(&most), "85070591730234615847396907784232501249"),
            (least.negated(), "9223372036854775808"),
        ] {
            assert_eq!(made.to_string(), wanted);
            assert_eq!(made, number(wanted));
        }
        // What fits a machine word again is one.
        let back = most.plus(&Number::Int(1)).minus(&Number::Int(1));
        assert!(matches!(back, Number::Int(isize::MAX)), "{back:?}");
        assert!(["", "-", "1_000", "1.0", "--1", "0x1"].into_iter().all(|text| Number::from_digits(text).is_none()));
    }

    #[test]
    fn numbers_of_all_kinds_have_one_order() {
        let literal = |text: &str| Number::Literal(Arc::new(text.to_owned()));
        let ordered = [
            Number::Float(f64::NAN),
            Number::Float(f64::NEG_INFINITY),
            number(&format!("-{}", "9".repeat(400))),
            number("-9223372036854775809"),
            Number::Int(isize::MIN + 1025),
            literal("-0.5"),
            Number::Int(0),
            Number::Float(1.5),
            Number::Int(2),
            number("9223372036854775809"),
            number("9223372036854775810"),
            number(&"9".repeat(400)),
            literal("1e400"),
        ];
        for (left, right) in ordered.iter().zip(&ordered[1..]) {
            assert_eq!((left.cmp(right), right.cmp(left)), (Ordering::Less, Ordering::Greater), "{left} {right}");
        }
        let [nan, ..] = &ordered;
        assert!(nan != nan && literal("1.0") == Number::Int(1) && Number::Float(-0.0) == Number::Int(0));
    }
}
