//! The verdict of an attempt on its server.

/// Whether an attempt speaks for its server or against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
}
