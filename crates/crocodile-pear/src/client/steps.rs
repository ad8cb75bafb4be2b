//! Steps with all their settings, for [`Pipeline::step`](crate::Pipeline::step). The names and meanings are those of the
//! configuration's steps; what is not set has the default of the reference.
//!
//! ```
//! use crocodile_pear::steps::{Concatenate, Each, Follow, ItemOrder};
//! use crocodile_pear::{Client, jq};
//!
//! let orders = Client::new()
//!     .request(["http://127.0.0.1:9000/orders"])
//!     .step(Each::of(jq(".orders[]")?).limit(50).max_body(64 << 10))
//!     .step(Follow::of(jq(".user")?).under("user").when(jq(".open")?))
//!     .step(Concatenate::json().body_only().order(ItemOrder::Request));
//! # orders.check()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::num::NonZeroUsize;
use std::time::Duration;

use serde_json::Value;

use super::expression::{IntoExpression, IntoItems};
use crate::config::problem::Problems;
use crate::config::spec::{Decode, Literal, Located, Node, Size, Texts, Timeout, defaults};
use crate::pipeline::steps::each::Limit;
use crate::pipeline::steps::follow::{Required, ResultKeys};
use crate::pipeline::steps::{Written, concatenate, convert, dedupe, each, follow, merge, plain, sql, transform};
use crate::upstream::TimeoutSpec;

pub use crate::pipeline::steps::concatenate::{As, ItemOrder, OnError};
pub use crate::pipeline::steps::convert::{Form, Formulas};
pub use crate::pipeline::steps::dedupe::Keep;
pub use crate::pipeline::steps::follow::Prefer;
pub use crate::pipeline::steps::plain::PlainFormat;
pub use crate::pipeline::steps::select::Select;

/// Any step of this module, as [`Pipeline::step`](crate::Pipeline::step) takes it.
///
/// ```
/// use crocodile_pear::jq;
/// use crocodile_pear::steps::{AnyStep, Transform};
///
/// let steps: Vec<AnyStep> = vec![Transform::of(jq(".name")?).into()];
/// # assert_eq!(steps.len(), 1);
/// # Ok::<(), crocodile_pear::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AnyStep(pub(super) Written);

/// Declares the steps. Each holds a step of the engine, in a private field.
macro_rules! steps {
    ($($(#[doc = $doc:literal])* $name:ident($spec:ty);)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        #[must_use = "a step does nothing before it is in a pipeline"]
        pub struct $name($spec);

        impl From<$name> for AnyStep {
            fn from(step: $name) -> Self {
                AnyStep(step.0.into())
            }
        }
    )*};
}

impl From<Select> for AnyStep {
    fn from(step: Select) -> Self {
        AnyStep(step.into())
    }
}

steps! {
    /// Makes one item of each element of a list.
    ///
    /// ```
    /// use crocodile_pear::jq;
    /// use crocodile_pear::steps::Each;
    ///
    /// let orders = Each::of(jq(".orders[]")?).limit(50).concurrency(8).max_body(64 << 10);
    /// let every_line = Each::of(jq(".[]")?).unlimited();
    /// # Ok::<(), crocodile_pear::Error>(())
    /// ```
    Each(each::Each);
    /// Fetches what a link in each item leads to. Header fields, methods, actions, variables of templates and batches are
    /// set in YAML alone ([`Client::read`](crate::Client::read)).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use crocodile_pear::jq;
    /// use crocodile_pear::steps::{Follow, Prefer};
    ///
    /// let user = Follow::of(jq(".user")?).under("user").otherwise(None::<()>);
    /// let items = Follow::hal("item").limit(50).concurrency(8).prefer(Prefer::Link).when(jq(".open")?);
    /// let pages = Follow::json_api("next").pages(20).timeout(Duration::from_secs(2)).max_body(1 << 20);
    /// let tree = Follow::siren("part").depth(3).redirects(0).required();
    /// let next = Follow::link_header("next").base("page").to(["shop"]);
    /// # Ok::<(), crocodile_pear::Error>(())
    /// ```
    Follow(follow::Follow);
    /// Makes plain JSON of documents of hypermedia.
    ///
    /// ```
    /// use crocodile_pear::steps::{Plain, PlainFormat};
    ///
    /// let articles = Plain::of(PlainFormat::JsonApi).depth(2).links("links").max_body(1 << 20);
    /// let entries = Plain::of(PlainFormat::Atom).lists(["category"]);
    /// ```
    Plain(plain::Plain);
    /// Keeps one of the items with the same key.
    ///
    /// ```
    /// use crocodile_pear::jq;
    /// use crocodile_pear::steps::{Dedupe, Keep};
    ///
    /// let once = Dedupe::of(jq(".id")?).keep(Keep::Request).limit(1000).max_body(64 << 10);
    /// # Ok::<(), crocodile_pear::Error>(())
    /// ```
    Dedupe(dedupe::Dedupe);
    /// Gives each item a new body.
    ///
    /// ```
    /// use crocodile_pear::jq;
    /// use crocodile_pear::steps::Transform;
    ///
    /// let names = Transform::of(jq(".name")?).max_body(64 << 10);
    /// # Ok::<(), crocodile_pear::Error>(())
    /// ```
    Transform(transform::Transform);
    /// Makes one value of all answers.
    ///
    /// ```
    /// use crocodile_pear::jq;
    /// use crocodile_pear::steps::Merge;
    ///
    /// let page = Merge::of(jq("{user: .[0], orders: .[1]}")?).max_body(1 << 20);
    /// # Ok::<(), crocodile_pear::Error>(())
    /// ```
    Merge(merge::Merge);
    /// Runs a statement in a database, once or for each item. Transactions are set in YAML alone
    /// ([`Client::read`](crate::Client::read)).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use crocodile_pear::jq;
    /// use crocodile_pear::steps::Sql;
    ///
    /// let order = Sql::of("shop", "select * from orders where id = $1").value(jq(".id")?).one().read_only();
    /// let user = order.clone().under("order").when(jq(".open")?).otherwise("none").timeout(Duration::from_secs(2));
    /// # Ok::<(), crocodile_pear::Error>(())
    /// ```
    Sql(sql::Sql);
    /// Makes one answer of all items.
    ///
    /// ```
    /// use crocodile_pear::steps::{Concatenate, ItemOrder, OnError};
    ///
    /// let list = Concatenate::json().body_only().order(ItemOrder::Request).on_error(OnError::Skip);
    /// let lines = Concatenate::ndjson().max_body(64 << 10);
    /// let events = Concatenate::events();
    /// ```
    Concatenate(concatenate::Concatenate);
    /// Writes the answer in another format.
    ///
    /// ```
    /// use crocodile_pear::steps::{Convert, Form, Formulas};
    ///
    /// let table = Convert::to(Form::Csv).columns(["id", "total"]).formulas(Formulas::Quote).max_body(1 << 20);
    /// ```
    Convert(convert::Convert);
}

impl Each {
    /// The items that this expression gives.
    pub fn of<K>(items: impl IntoItems<K>) -> Self {
        Each(each::Each::of(items.into_items().0))
    }

    /// At most so many items of one list; one more is a failed item. 1000, unless it is set.
    pub fn limit(mut self, most: u64) -> Self {
        self.0.limit = Some(Limit::Most(most));
        self
    }

    /// All items that a list has.
    pub fn unlimited(mut self) -> Self {
        self.0.limit = Some(Limit::None);
        self
    }

    /// At most so many items in the following steps at the same time; at least 1.
    pub fn concurrency(mut self, most: usize) -> Self {
        self.0.concurrency = at_least_one(most);
        self
    }

    /// The most bytes of one item, or of the body if it is read whole.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.0.max_body = Size(bytes);
        self
    }
}

impl Follow {
    /// The link that this expression gives; with a `limit` above 1, the links.
    pub fn of<K>(link: impl IntoExpression<K>) -> Self {
        Follow(follow::Follow::of(link.into_expression().0))
    }

    fn related(set: impl FnOnce(&mut follow::Follow)) -> Self {
        let mut written = defaults::<follow::Follow>();
        set(&mut written);
        Follow(written)
    }

    /// The links of a relation of HAL.
    pub fn hal(relation: &str) -> Self {
        Follow::related(|follow| follow.hal = Some(Located::from(texts([relation]))))
    }

    /// The link of a relationship of JSON:API.
    pub fn json_api(relation: &str) -> Self {
        Follow::related(|follow| follow.json_api = Some(Located::from(texts([relation]))))
    }

    /// The links of a relation of Siren.
    pub fn siren(relation: &str) -> Self {
        Follow::related(|follow| follow.siren = Some(Located::from(texts([relation]))))
    }

    /// The link of a relation in the answer's `Link` header fields.
    pub fn link_header(relation: &str) -> Self {
        Follow::related(|follow| follow.link_header = Some(text(relation)))
    }

    /// The key of the item under which the document is put. Without it, the document replaces the item.
    pub fn under(mut self, key: &str) -> Self {
        self.0.name = Some(ResultKeys::from(key.to_owned()));
        self
    }

    /// The key of the document against which relative links are resolved.
    pub fn base(mut self, key: &str) -> Self {
        self.0.base = Some(text(key));
        self
    }

    /// The named upstreams that links of other upstreams lead to with all that calls to them have.
    pub fn to<'a>(mut self, upstreams: impl IntoIterator<Item = &'a str>) -> Self {
        self.0.to = Some(Located::from(texts(upstreams)));
        self
    }

    /// The choice if the item has both a part and a link to it.
    pub fn prefer(mut self, prefer: Prefer) -> Self {
        self.0.prefer = Some(prefer.into());
        self
    }

    /// An item without a link fails.
    pub fn required(mut self) -> Self {
        self.0.required = Required::On;
        self
    }

    /// Pages, each an item: at most so many, with the first.
    pub fn pages(mut self, most: u64) -> Self {
        self.0.pages = Some(most.into());
        self
    }

    /// At most so many links for each document. Above 1, the result is a list.
    pub fn limit(mut self, most: u64) -> Self {
        self.0.limit = most.into();
        self
    }

    /// At most so many links of one document at the same time; at least 1.
    pub fn concurrency(mut self, most: usize) -> Self {
        self.0.concurrency = Some(at_least_one(most).into());
        self
    }

    /// At most so many redirects of one link.
    pub fn redirects(mut self, most: u64) -> Self {
        self.0.redirects = most.into();
        self
    }

    /// So many levels of links.
    pub fn depth(mut self, levels: u64) -> Self {
        self.0.depth = levels.into();
        self
    }

    /// The condition under which a link is followed.
    pub fn when<K>(mut self, condition: impl IntoExpression<K>) -> Self {
        self.0.when = Some(condition.into_expression().0);
        self
    }

    /// The value to use if a document cannot be fetched. A value that serde cannot write is null.
    pub fn otherwise(mut self, value: impl serde::Serialize) -> Self {
        self.0.otherwise = Some(literal(value));
        self
    }

    /// The time that a call may take.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.0.timeout =
            Some(TimeoutSpec { connect: None, first_byte: None, idle: None, call: Some(Timeout::After(time)) });
        self
    }

    /// The most bytes of an item and of a document.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.0.max_body = Size(bytes);
        self
    }
}

impl Plain {
    /// Plain JSON of documents of this format.
    pub fn of(format: PlainFormat) -> Self {
        Plain(plain::Plain::of(format))
    }

    /// So many levels of parts are nested.
    pub fn depth(mut self, levels: u64) -> Self {
        self.0.depth = Some(levels.into());
        self
    }

    /// The name under which each object keeps its links.
    pub fn links(mut self, name: &str) -> Self {
        self.0.links = Some(name.to_owned());
        self
    }

    /// The names of parts that are lists also where there is one.
    pub fn lists<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.0.lists = Some(texts(names));
        self
    }

    /// The most bytes of one item with its parts, and of what is held.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.0.max_body = Size(bytes);
        self
    }
}

impl Dedupe {
    /// Keeps an item for each key that this expression gives.
    pub fn of<K>(key: impl IntoExpression<K>) -> Self {
        Dedupe(dedupe::Dedupe::of(key.into_expression().0))
    }

    /// Which item is kept.
    pub fn keep(mut self, keep: Keep) -> Self {
        self.0.keep = keep;
        self
    }

    /// At most so many different keys.
    pub fn limit(mut self, most: usize) -> Self {
        self.0.limit = most;
        self
    }

    /// The most bytes of an item's body.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.0.max_body = Size(bytes);
        self
    }
}

impl Transform {
    /// The body that this expression makes of each item.
    pub fn of<K>(body: impl IntoExpression<K>) -> Self {
        Transform(transform::Transform::of(body.into_expression().0))
    }

    /// The most bytes of a body that are read.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.0.max_body = Size(bytes);
        self
    }
}

impl Merge {
    /// The value that this expression makes of all answers.
    pub fn of<K>(value: impl IntoExpression<K>) -> Self {
        Merge(merge::Merge::of(value.into_expression().0))
    }

    /// The most bytes of one body that are read.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.0.max_body = Size(bytes);
        self
    }
}

impl Sql {
    /// Runs this statement in the database of this name.
    pub fn of(database: &str, query: &str) -> Self {
        Sql(sql::Sql::of(database, query))
    }

    /// The next of `$1`, `$2` and so on.
    pub fn value<K>(mut self, value: impl IntoExpression<K>) -> Self {
        self.0.values.push(value.into_expression().0);
        self
    }

    /// The statement only reads.
    pub fn read_only(mut self) -> Self {
        self.0.read_only = true;
        self
    }

    /// Exactly one row is expected; the result is that row.
    pub fn one(mut self) -> Self {
        self.0.one = true;
        self
    }

    /// The key of the item under which the result is put. Without it, the result replaces the item.
    pub fn under(mut self, key: &str) -> Self {
        self.0.name = Some(text(key));
        self
    }

    /// The condition under which the statement is run.
    pub fn when<K>(mut self, condition: impl IntoExpression<K>) -> Self {
        self.0.when = Some(condition.into_expression().0);
        self
    }

    /// The value to use if the statement fails, or gives no row where one is expected. A value that serde cannot write is
    /// null.
    pub fn otherwise(mut self, value: impl serde::Serialize) -> Self {
        self.0.otherwise = Some(literal(value));
        self
    }

    /// The time that the statement may take.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.0.timeout = Some(Timeout::After(time));
        self
    }

    /// The most bytes of an item that are read for the expressions.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.0.max_body = Size(bytes);
        self
    }
}

impl Concatenate {
    fn of(form: As) -> Self {
        Concatenate(concatenate::Concatenate { form, ..concatenate::Concatenate::default() })
    }

    /// A JSON list.
    pub fn json() -> Self {
        Concatenate::of(As::Json)
    }

    /// A line of JSON for each item.
    pub fn ndjson() -> Self {
        Concatenate::of(As::Ndjson)
    }

    /// A server-sent event for each item.
    pub fn events() -> Self {
        Concatenate::of(As::Sse)
    }

    /// An item is the body alone, without status and header fields.
    pub fn body_only(mut self) -> Self {
        self.0.body_only = true;
        self
    }

    /// The order of the items.
    pub fn order(mut self, order: ItemOrder) -> Self {
        self.0.order = order;
        self
    }

    /// The treatment of an item that failed.
    pub fn on_error(mut self, treatment: OnError) -> Self {
        self.0.on_error = treatment;
        self
    }

    /// The most bytes of one item's body.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.0.max_body = Size(bytes);
        self
    }
}

impl Convert {
    /// Every answer in this format.
    pub fn to(form: Form) -> Self {
        Convert(convert::Convert::to(form))
    }

    /// The columns of CSV, in this order; other fields are left out.
    pub fn columns<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.0.set_columns(names.into_iter().map(str::to_owned).collect());
        self
    }

    /// How CSV has texts that a spreadsheet takes for formulas.
    pub fn formulas(mut self, formulas: Formulas) -> Self {
        self.0.set_formulas(formulas);
        self
    }

    /// The most bytes of one item of a list, and of an answer that is read whole.
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.0.set_max_body(Size(bytes));
        self
    }
}

fn at_least_one(most: usize) -> NonZeroUsize {
    NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN)
}

fn text(text: &str) -> Located<String> {
    text.to_owned().into()
}

fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Texts {
    Texts(texts.into_iter().map(text).collect())
}

fn literal(value: impl serde::Serialize) -> Located<Literal> {
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    let literal = Literal::decode(&Node::from_json(&value), &mut Problems::default());
    literal.expect("any JSON is a literal").into()
}
