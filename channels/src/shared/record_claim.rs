//! The claim of a reader to the records of its messages: a word that the reader and the writer change.
//!
//! - `SHM-5` the records of a message belong to a reader from its claim on. When the reader leaves or the writer does, no
//!   claim is possible any more, and the records of all other messages are the writer's.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bit of a word that no end changes any more.
const OVER: u64 = 1 << 63;

/// The number of messages whose records the reader has claimed or passed, and whether that is over.
pub(super) struct RecordClaim<'a>(&'a AtomicU64);

impl<'a> RecordClaim<'a> {
    pub(super) fn at(word: &'a AtomicU64) -> Self {
        RecordClaim(word)
    }

    /// Claims the records of message `number`. Returns false if the writer has left: they are the writer's.
    pub(super) fn take(&self, number: u64) -> bool {
        // Relaxed: only the order of changes to this word matters, as everywhere in this file.
        let found = self.0.load(Ordering::Relaxed);
        let claimed = |found| {
            // Relaxed: see above.
            let changed = self
                .0
                .compare_exchange(found, number + 1, Ordering::Relaxed, Ordering::Relaxed);
            changed.is_ok()
        };
        // Only the writer may have changed it meanwhile, to say that it leaves.
        found & OVER == 0 && claimed(found)
    }

    /// Ends the claims. Returns the number of messages whose records were claimed or passed.
    pub(super) fn end(&self) -> u64 {
        // Relaxed: see above. A reader stores its tail with release afterwards.
        self.0.fetch_or(OVER, Ordering::Relaxed) & !OVER
    }

    /// If the claims are over, the number of messages whose records were claimed or passed.
    pub(super) fn ended(&self) -> Option<u64> {
        // Relaxed: see above. A writer that has seen with acquire that the reader's tail is gone sees this too.
        let word = self.0.load(Ordering::Relaxed);
        (word & OVER != 0).then_some(word & !OVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_the_readers_or_the_writers() {
        let word = AtomicU64::new(0);
        let claim = RecordClaim(&word);
        assert!(claim.take(0) && claim.take(3));
        assert_eq!(claim.ended(), None);
        assert_eq!((claim.end(), claim.ended(), claim.end()), (4, Some(4), 4));
        assert!(!claim.take(4));
        assert_eq!(claim.ended(), Some(4));
    }
}
