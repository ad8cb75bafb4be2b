//! The expressions of a Rust program: a closure, or jq.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::problem::Span;
use crate::config::spec::{self, Located};
use crate::error::{Error, Kind};
use crate::jq::{self, Closure, Fault, Filter};

use super::result;

/// Compiles a jq expression. Where a pipeline is put together for each request, keep the expression and clone it.
///
/// ```
/// let open = crocodile_pear::jq(".cases[] | select(.open)")?;
/// assert!(crocodile_pear::jq(".cases[").is_err());
/// # Ok::<(), crocodile_pear::Error>(())
/// ```
///
/// # Errors
/// [`Kind::Expression`], with everything that is wrong in it.
pub fn jq(source: &str) -> Result<Expression, Error> {
    let filter = Filter::compile(source, &jq::variables(source)).map_err(|faults| unfit(&faults))?;
    Ok(Expression(spec::ExpressionSpec(written(source), Some(Arc::new(filter)))))
}

/// A jq expression or a closure, compiled. [`jq()`] makes one of a text.
///
/// ```
/// use crocodile_pear::{Expression, IntoExpression, jq};
///
/// let by_jq: Expression = jq(".id")?;
/// let by_closure: Expression = (|text: String| text.len()).into_expression();
/// # Ok::<(), crocodile_pear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Expression(pub(super) spec::ExpressionSpec);

fn unfit(faults: &[Fault]) -> Error {
    let told = |fault: &Fault| match fault.remedy.as_str() {
        "" => fault.message.clone(),
        remedy => format!("{}: {remedy}", fault.message),
    };
    Error::new(Kind::Expression, faults.iter().map(told).collect::<Vec<_>>().join("; "))
}

fn written(text: &str) -> Located<String> {
    Located::new(text.to_owned(), Span::default())
}

/// The text that problems and plans show for a closure.
const CLOSURE: &str = "a closure";

/// A closure or [`jq()`], where one value is made of an item.
///
/// A closure `Fn(In) -> Out` takes the item's JSON as any type that serde can read, and returns any type that serde can
/// write. An item that cannot be read as `In` becomes a failed item, and so does one for which the closure panics or returns
/// `Err`; the others are not affected.
///
/// ```
/// use crocodile_pear::{Client, jq};
///
/// #[derive(serde::Deserialize)]
/// struct Order { total: f64 }
///
/// let orders = || Client::new().request(["http://127.0.0.1:9000/orders/7"]);
/// let by_closure = orders().map(|order: Order| order.total * 1.25);
/// let by_jq = orders().map(jq(".total * 1.25")?);
/// # by_closure.check()?;
/// # by_jq.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a closure over an item nor `jq(…)`",
    label = "not an expression",
    note = "write a closure with one argument, whose type serde reads and whose result serde writes: `|order: Order| order.total`",
    note = "or a jq expression: `jq(\".total\")?`"
)]
pub trait IntoExpression<Kind> {
    /// The expression.
    fn into_expression(self) -> Expression;
}

/// A closure or [`jq()`], where several values are made of an item: a closure returns a list or another iterator.
///
/// ```
/// use crocodile_pear::{Client, jq};
///
/// #[derive(serde::Deserialize)]
/// struct Page { orders: Vec<serde_json::Value> }
///
/// let page = || Client::new().request(["http://127.0.0.1:9000/orders"]);
/// let by_closure = page().each(|page: Page| page.orders);
/// let by_jq = page().each(jq(".orders[]")?);
/// # by_closure.check()?;
/// # by_jq.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a closure that gives a list nor `jq(…)`",
    label = "gives no list",
    note = "write a closure with one argument, whose result is a `Vec` or another iterator: `|page: Page| page.orders`",
    note = "or a jq expression: `jq(\".orders[]\")?`"
)]
pub trait IntoItems<Kind> {
    /// The expression.
    fn into_items(self) -> Expression;
}

/// In the bounds of [`IntoExpression`] and [`IntoItems`], stands for an [`Expression`]. The compiler chooses it.
///
/// ```
/// use crocodile_pear::{IntoExpression, Jq, jq};
///
/// fn compiled(expression: impl IntoExpression<Jq>) {
///     expression.into_expression();
/// }
/// compiled(jq(".id")?);
/// # Ok::<(), crocodile_pear::Error>(())
/// ```
#[derive(Debug)]
pub struct Jq(());

/// In the bounds of [`IntoExpression`] and [`IntoItems`], stands for a closure from `In` to `Out`. The compiler chooses it.
///
/// ```
/// use crocodile_pear::{Code, IntoExpression};
///
/// fn length(closure: impl IntoExpression<Code<String, usize>>) {
///     closure.into_expression();
/// }
/// length(|text: String| text.len());
/// ```
#[derive(Debug)]
pub struct Code<In, Out>(PhantomData<fn(In) -> Out>);

impl IntoExpression<Jq> for Expression {
    fn into_expression(self) -> Expression {
        self
    }
}

impl IntoItems<Jq> for Expression {
    fn into_items(self) -> Expression {
        self
    }
}

impl<F, In, Out> IntoExpression<Code<In, Out>> for F
where
    F: Fn(In) -> Out + Send + Sync + 'static,
    In: DeserializeOwned,
    Out: Serialize,
{
    fn into_expression(self) -> Expression {
        of(Closure::new(move |item| write(&self(read(item)?)).map(|output| vec![output])).taking_names())
    }
}

impl<F, In, Out> IntoItems<Code<In, Out>> for F
where
    F: Fn(In) -> Out + Send + Sync + 'static,
    In: DeserializeOwned,
    Out: IntoIterator,
    Out::Item: Serialize,
{
    fn into_items(self) -> Expression {
        of(Closure::new(move |item| self(read(item)?).into_iter().map(|output| write(&output)).collect()))
    }
}

fn of(closure: Closure) -> Expression {
    Expression(spec::ExpressionSpec(written(CLOSURE), Some(Arc::new(Filter::of_closure(closure)))))
}

/// An item as the type that a closure takes.
pub(super) fn read<In: DeserializeOwned>(item: &[u8]) -> Result<In, Error> {
    serde_json::from_slice(item).map_err(|error| {
        Error::new(Kind::Expression, format!("the item is not what the closure takes: {error}")).caused_by(error)
    })
}

fn write<Out: Serialize>(output: &Out) -> Result<Vec<u8>, Error> {
    result::write(output)
}
