//! The order of outcomes that run side by side.

/// The order in which a flow gives out its outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The order in which they become ready.
    Arrival,
    /// In the order of the requests. An outcome that is ready early waits, and still counts as running.
    Request,
}
