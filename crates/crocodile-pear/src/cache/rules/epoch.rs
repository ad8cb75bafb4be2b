//! The place of a fetch among the purges of a tier.

/// A number among the purges of a tier, and the life of the tier in which it counts. 0 and 0 before the tier was heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Another one after the tier has lost what it knew.
    pub life: u64,
    /// How many purges there were.
    pub number: u64,
}
