//! The meaning of a message for the cache.

use bytes::Bytes;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::ExpressionSpec;
use crocodile_pear::unstable::jq::{self, Filter, Value};
use crocodile_pear::unstable::json;

use crate::shared::purge::{ModeSpec, Purging};

/// An expression that says what is purged.
pub struct Reaction {
    filter: Filter,
    mode: ModeSpec,
}

impl Reaction {
    /// Compiles the expression; it knows the message alone.
    pub fn compile(written: &ExpressionSpec, mode: ModeSpec, problems: &mut Problems) -> Option<Self> {
        match Filter::compile(&written.0.value, &[]) {
            Ok(filter) => Some(Reaction { filter, mode }),
            Err(faults) => {
                for fault in faults {
                    let place = written.0.at(fault.offset, fault.length);
                    problems.error::<()>(place, fault.message, fault.remedy);
                }
                None
            }
        }
    }

    /// The purges that a message asks for.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub fn of(&self, payload: Vec<u8>) -> Result<Vec<Purging>, String> {
        let outputs =
            self.filter.run(value(payload), &mut |_| jq::null()).map_err(|error| error.detail().to_owned())?;
        outputs.iter().map(|output| self.purging(output)).collect()
    }

    fn purging(&self, output: &Value) -> Result<Purging, String> {
        let json = json::to_bytes(output).map_err(|error| error.detail().to_owned())?;
        let json = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
        Purging::of_event(&json, self.mode)
    }
}

/// A message as an expression sees it: JSON, or text.
fn value(payload: Vec<u8>) -> Value {
    let payload = Bytes::from(payload);
    json::read(&payload).unwrap_or_else(|_| jq::string(&String::from_utf8_lossy(&payload)))
}
