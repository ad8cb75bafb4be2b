//! The documents that are added to one item. Their size has a bound, and other requests of the core have their turn meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Kind};
use crate::offload;

/// The most bytes of all documents, in times `max_body`. A document counts once for each link that leads to it.
const TIMES: usize = 16;

/// The cost of a document in units of work, and the number of its bytes that cost one more unit.
const DOCUMENT: u64 = 50;
const BYTES: u64 = 10;

/// The memory for a document, without its bytes.
const PLACE: usize = 128;

/// The growth of one item. If all its documents are at hand, nothing else would end the turn of its task.
#[derive(Clone, Default)]
pub(super) struct Growth(Arc<AtomicUsize>);

impl Growth {
    /// Counts bytes that are added to the item, and waits if other requests must have their turn.
    ///
    /// # Errors
    /// `Oversized` if all bytes are more than 16 times `max_body`.
    pub(super) async fn add(&self, bytes: usize, max_body: usize) -> Result<(), Error> {
        let all = self.0.fetch_add(bytes + PLACE, Ordering::Relaxed).saturating_add(bytes + PLACE);
        if all > max_body.saturating_mul(TIMES) {
            let detail = format!("the documents of the item's links are together larger than {TIMES} times `max_body`");
            return Err(Error::new(Kind::Oversized, detail));
        }
        offload::spend(DOCUMENT + bytes as u64 / BYTES);
        offload::turn().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;
    use crate::runtime::beside;

    #[tokio::test]
    async fn others_have_their_turn_while_documents_that_are_at_hand_are_joined() {
        let growth = Growth::default();
        let branch = || async {
            for _ in 0..100 {
                growth.add(20, 4 << 20).await.expect("within its bound");
            }
        };
        let branches = async {
            join_all((0..1_000).map(|_| branch())).await;
        };
        let ((), turns) = beside(branches).await;
        assert!(turns >= 20, "{turns}");
    }

    #[tokio::test]
    async fn the_size_of_all_has_a_bound() {
        let growth = Growth::default();
        for _ in 0..TIMES {
            growth.add(1_000 - PLACE, 1_000).await.expect("within its bound");
        }
        assert_eq!(growth.add(1, 1_000).await.expect_err("too large").kind(), Kind::Oversized);
    }
}
