//! Fault points: named places at which a test can make a process die. The feature `fault-points` compiles them in;
//! without it they do nothing.
//!
//! `SELVEDGE_FAULT_POINT=name:n` kills the process, as by `kill -9`, when it reaches the point `name` for the n-th
//! time.

/// A fault point, given by its name.
#[cfg(not(feature = "fault-points"))]
#[inline(always)]
#[cfg_attr(loom, allow(dead_code))] // for shared memory, which is not built under loom
pub fn at(_name: &'static str) {}

#[cfg(feature = "fault-points")]
pub use armed::at;

/// Whether the step of this name is to be skipped: `SELVEDGE_SKIP_STEP=name`. A test skips a step to show that a
/// checker detects its absence.
#[cfg(all(feature = "cuda", not(feature = "fault-points")))]
#[inline(always)]
pub fn skips(_name: &'static str) -> bool {
    false
}

#[cfg(all(feature = "cuda", feature = "fault-points"))]
pub use armed::skips;

#[cfg(feature = "fault-points")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static CHOSEN: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    fn chosen() -> Option<(String, u64)> {
        let text = std::env::var("SELVEDGE_FAULT_POINT").ok()?;
        let (name, count) = text.rsplit_once(':')?;
        Some((name.to_owned(), count.parse().ok()?))
    }

    /// Whether the step of this name is to be skipped.
    #[cfg(feature = "cuda")]
    pub fn skips(name: &'static str) -> bool {
        static LEFT_OUT: OnceLock<Option<String>> = OnceLock::new();
        let left_out = LEFT_OUT.get_or_init(|| std::env::var("SELVEDGE_SKIP_STEP").ok());
        left_out.as_deref() == Some(name)
    }

    /// A fault point, given by its name.
    pub fn at(name: &'static str) {
        let Some((chosen, count)) = CHOSEN.get_or_init(chosen) else {
            return;
        };
        // Relaxed: only the count matters.
        if chosen == name && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *count {
            // From here on no code of this process runs, as after `kill -9` from another process.
            crate::platform::process::kill_self();
        }
    }
}
