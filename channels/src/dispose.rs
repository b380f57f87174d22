//! Dropping what is a user's.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops a value whose `Drop` is a user's and may panic. The panic ends here, its message on stderr: a channel that has
/// passed a message must not be stopped halfway by what becomes of it.
#[inline]
pub fn dispose<T>(value: T) {
    if std::mem::needs_drop::<T>()
        && let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value)))
    {
        // A payload whose own drop panics as well would start anew.
        std::mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(Bomb));
        }
    }

    #[test]
    fn a_drop_that_panics_ends_here() {
        dispose(Some(Bomb));
        dispose(1);
    }
}
