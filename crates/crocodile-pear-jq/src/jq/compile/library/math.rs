//! Numbers: mathematics, and the classes of numbers.

use crate::jq::eval::code::Named;
use crate::jq::value::bounded::Item;
use crate::jq::value::budget::charge;
use crate::jq::value::operators::{self, ItemR};
use crate::jq::value::runtime_error::{Fault, refuse};
use crate::json::value::{Number, Value};

/// A function of one number.
macro_rules! one {
    ($($name:literal => $function:expr),* $(,)?) => {
        &[$((($name, 0), |it, _| {
            let function: fn(f64) -> f64 = $function;
            Ok(function(number(&it)?).into())
        })),*]
    };
}

/// A function of two numbers, its arguments.
macro_rules! two {
    ($($name:literal => $function:expr),* $(,)?) => {
        &[$((($name, 2), |_, arguments| {
            let function: fn(f64, f64) -> f64 = $function;
            Ok(function(number(&arguments[0])?, number(&arguments[1])?).into())
        })),*]
    };
}

const ONE: &[Named] = one! {
    "sqrt" => f64::sqrt, "cbrt" => libm::cbrt, "exp" => libm::exp, "exp2" => libm::exp2, "exp10" => libm::exp10,
    "expm1" => libm::expm1, "log" => libm::log, "log2" => libm::log2, "log10" => libm::log10, "log1p" => libm::log1p,
    "sin" => libm::sin, "cos" => libm::cos, "tan" => libm::tan, "asin" => libm::asin, "acos" => libm::acos,
    "atan" => libm::atan, "sinh" => libm::sinh, "cosh" => libm::cosh, "tanh" => libm::tanh, "asinh" => libm::asinh,
    "acosh" => libm::acosh, "atanh" => libm::atanh, "erf" => libm::erf, "erfc" => libm::erfc, "j0" => libm::j0,
    "j1" => libm::j1, "y0" => libm::y0, "y1" => libm::y1, "gamma" => libm::lgamma, "lgamma" => libm::lgamma,
    "tgamma" => libm::tgamma, "logb" => logb, "significand" => significand, "pow10" => libm::exp10,
};

const TWO: &[Named] = two! {
    "pow" => libm::pow, "atan2" => libm::atan2, "copysign" => f64::copysign, "fdim" => libm::fdim,
    "fmax" => libm::fmax, "fmin" => libm::fmin, "fmod" => libm::fmod, "hypot" => libm::hypot,
    "nextafter" => libm::nextafter, "nexttoward" => libm::nextafter, "remainder" => libm::remainder, "drem" => libm::remainder,
    "scalb" => |x, e| x * libm::exp2(e), "scalbln" => scale, "ldexp" => scale,
};

const OTHERS: &[Named] = &[
    (("floor", 0), |it, _| round(it, f64::floor)),
    (("ceil", 0), |it, _| round(it, f64::ceil)),
    (("round", 0), |it, _| round(it, f64::round)),
    (("trunc", 0), |it, _| round(it, f64::trunc)),
    (("rint", 0), |it, _| round(it, f64::round_ties_even)),
    (("nearbyint", 0), |it, _| round(it, f64::round_ties_even)),
    (("fabs", 0), |it, _| if number(&it)? < 0.0 { operators::negate(it) } else { Ok(it) }),
    (("fma", 3), |_, arguments| {
        Ok(libm::fma(number(&arguments[0])?, number(&arguments[1])?, number(&arguments[2])?).into())
    }),
    (("frexp", 0), |it, _| {
        let (fraction, exponent) = libm::frexp(number(&it)?);
        Ok(Item::list(vec![fraction.into(), (exponent as isize).into()]))
    }),
    (("modf", 0), |it, _| {
        let number = number(&it)?;
        let fraction = if number.is_infinite() { 0f64.copysign(number) } else { number.fract() };
        Ok(Item::list(vec![fraction.into(), number.trunc().into()]))
    }),
    (("lgamma_r", 0), |it, _| {
        let (value, sign) = libm::lgamma_r(number(&it)?);
        Ok(Item::list(vec![value.into(), (sign as isize).into()]))
    }),
    (("infinite", 0), |_, _| Ok(f64::INFINITY.into())),
    (("nan", 0), |_, _| Ok(f64::NAN.into())),
    (("isinfinite", 0), |it, _| Ok(number(&it).is_ok_and(f64::is_infinite).into())),
    (("isnan", 0), |it, _| Ok(number(&it).is_ok_and(f64::is_nan).into())),
    (("isnormal", 0), |it, _| Ok(number(&it).is_ok_and(f64::is_normal).into())),
];

const COUNT: usize = ONE.len() + TWO.len() + OTHERS.len();

pub const NATIVES: &[Named] = &{
    let mut all = [OTHERS[0]; COUNT];
    let mut at = 0;
    while at < COUNT {
        all[at] = if at < ONE.len() {
            ONE[at]
        } else if at < ONE.len() + TWO.len() {
            TWO[at - ONE.len()]
        } else {
            OTHERS[at - ONE.len() - TWO.len()]
        };
        at += 1;
    }
    all
};

fn number(item: &Item) -> Result<f64, Fault> {
    charge(4);
    match &item.value {
        Value::Number(number) => Ok(operators::float(number)),
        other => refuse("^ number required", &[other]),
    }
}

/// Rounds; integers stay as they are.
fn round(it: Item, round: fn(f64) -> f64) -> ItemR {
    match &it.value {
        Value::Number(Number::Int(_) | Number::BigInt(_)) => Ok(it),
        _ => Ok(round(number(&it)?).into()),
    }
}

fn logb(x: f64) -> f64 {
    match x {
        0.0 => f64::NEG_INFINITY,
        x if x.is_infinite() => f64::INFINITY,
        x if x.is_nan() => x,
        x => f64::from(libm::ilogb(x)),
    }
}

fn significand(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() { x } else { libm::scalbn(x, -libm::ilogb(x)) }
}

fn scale(x: f64, by: f64) -> f64 {
    libm::scalbn(x, by.clamp(-1e6, 1e6) as i32)
}
