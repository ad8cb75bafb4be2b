//! How much is read whole.

use crate::pipeline::step;

/// The most bytes of a body that a step reads whole: 16 MiB.
///
/// ```
/// assert_eq!(crocodile_pear::MAX_BODY, 16 << 20);
/// ```
pub const MAX_BODY: usize = step::MAX_BODY.0 as usize;
