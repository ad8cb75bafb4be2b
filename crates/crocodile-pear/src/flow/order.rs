//! The order of what runs side by side.

/// In which order the outcomes of a flow are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they are ready.
    Arrival,
    /// As they were asked for; what is ready early waits, and counts as one of those that run side by side.
    Request,
}
