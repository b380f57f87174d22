//! Dropping values of user-defined types.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Drops a value whose `Drop` may be user code that panics. The panic is caught here and its message goes to stderr: a
/// channel that has passed a message must not stop halfway because the drop of that message panics.
#[inline]
pub fn dispose<T>(value: T) {
    if std::mem::needs_drop::<T>()
        && let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value)))
    {
        // The panic's payload is leaked, because its own drop may panic as well.
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
