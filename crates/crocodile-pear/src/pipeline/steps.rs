//! The steps, one file each. Rust programs have them in [`steps`](crate::steps).
//!
//! Uses `pipeline::step`, `pipeline::call` and the floors below. Begin at `transform`, which is short.
//!
//! Invariants: no step knows another; what two share stands in `pipeline::step` or `pipeline::call`.

// One file each, a line here, and a line in the list below.
pub mod concatenate;
pub mod convert;
pub mod dedupe;
pub mod each;
pub mod follow;
pub mod merge;
pub mod plain;
pub mod reject;
pub mod request;
pub mod requests;
pub mod respond;
pub mod rust_step;
pub mod select;
pub mod sql;
pub mod timer;
pub mod transform;

use std::sync::Arc;

use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, Json, Located, Node, OneKey, one_key};
use crate::pipeline::step::{About, Compile, ReadyStep, Spec};

/// Declares the steps by their names in the configuration.
macro_rules! steps {
    ($($name:ident: $spec:ident),* $(,)?) => {
        /// A step as written. Boxed: a configuration may have tens of thousands, and the largest is large.
        #[derive(Clone, Debug)]
        pub enum Written {
            $(#[doc = concat!("`", stringify!($name), "`")] $spec(Box<$name::$spec>),)*
            /// A step that a Rust program brings.
            Own(rust_step::Own),
            /// The reading of what a `request` has created, behind it.
            Created(follow::Created),
            /// A step that cannot be read. Its pipeline never runs; it is compiled to find the problems of the other steps.
            Unread,
        }

        $(impl From<$name::$spec> for Written {
            fn from(spec: $name::$spec) -> Self {
                Written::$spec(Box::new(spec))
            }
        })*

        /// The names of all steps.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        fn decode(name: &str, node: &Node, problems: &mut Problems) -> Option<Written> {
            match name {
                $(stringify!($name) => $name::$spec::decode(node, problems).map(Written::from),)*
                _ => None,
            }
        }

        fn schemas(definitions: &mut Definitions) -> Vec<(&'static str, Json)> {
            vec![$((stringify!($name), $name::$spec::schema(definitions))),*]
        }

        impl Written {
            /// Its name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Written::$spec(_) => stringify!($name),)*
                    Written::Own(_) => "own",
                    Written::Created(_) => "request",
                    Written::Unread => "unread",
                }
            }

            /// The step's declaration for the plan and the other steps.
            pub fn about(&self) -> About {
                match self {
                    $(Written::$spec(spec) => spec.about(),)*
                    Written::Created(created) => created.about(),
                    Written::Own(_) | Written::Unread => About::default(),
                }
            }

            /// Makes it ready.
            pub fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
                match self {
                    $(Written::$spec(spec) => spec.compile(cx),)*
                    Written::Own(own) => own.compile(cx),
                    Written::Created(created) => created.compile(cx),
                    Written::Unread => None,
                }
            }
        }
    };
}

/// The steps, with those that a word in another one stands for.
pub(crate) fn spell_out(written: Vec<Located<Written>>) -> Vec<Located<Written>> {
    let more = |step: &Located<Written>| matches!(&step.value, Written::Request(request) if request.reads_back());
    if !written.iter().any(more) {
        return written;
    }
    let mut all = Vec::with_capacity(written.len() + 1);
    for mut step in written {
        let place = step.span;
        let read = match &mut step.value {
            Written::Request(request) if request.reads_back() => request.read.take(),
            _ => None,
        };
        all.push(step);
        all.extend(read.map(|read| Located::new(Written::Created(follow::Created(read.span)), place)));
    }
    all
}

impl Written {
    /// The one step of a pipeline that is written short, as `UPSTREAM /path`.
    pub fn short(text: Located<String>, problems: &mut Problems) -> Option<Self> {
        request::Request::short(text, problems).map(Written::from)
    }
}

impl From<rust_step::Own> for Written {
    fn from(own: rust_step::Own) -> Self {
        Written::Own(own)
    }
}

steps! {
    request: Request,
    requests: Requests,
    each: Each,
    follow: Follow,
    sql: Sql,
    plain: Plain,
    dedupe: Dedupe,
    transform: Transform,
    select: Select,
    timer: Timer,
    concatenate: Concatenate,
    merge: Merge,
    convert: Convert,
    reject: Reject,
    respond: Respond,
}

const STEP: OneKey = OneKey { what: "step", names: NAMES };

impl Decode for Written {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let (name, inner) = STEP.read(node, problems)?;
        decode(name, inner, problems)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        one_key(schemas(definitions))
    }
}
