//! Turns configuration text into typed specs: nodes with positions, decoders that collect every problem, and the
//! schema.

pub use serde_json::Value as Json;

mod choice;
mod decode;
mod definitions;
mod duration;
mod insert;
mod mark;
mod node;
mod one;
mod record;
mod scalar;
mod secret;
mod several;
mod share;
mod size;
mod suggest;

pub use choice::{choices, choose};
pub use decode::{Decode, Field, defaults, schema};
pub use definitions::Definitions;
pub use duration::Timeout;
pub use mark::{Mark, Marked};
pub use node::{Located, Node, NodeKind, Runs, TextRun};
pub use one::{OneKey, one_key};
pub use record::{Fields, Group, PropertySchema, only};
pub use record::{absent, object, plain, unquoted};
pub use scalar::{ExpressionSpec, OpaqueExpression};
pub use secret::Secret;
pub use several::misplaced;
pub use several::{Entries, Literal, Texts};
pub use share::Share;
pub use size::Size;
pub use suggest::suggest;
