//! Looking for something in memory that another process or thread writes, for a while, before a thread sleeps.

use std::thread::yield_now;
use std::time::{Duration, Instant};

use selvedge_channels::{ends_spinning, may_spin};

/// The number of looks before a thread leaves its core to others: about a microsecond.
const LOOKS: u32 = 64;

/// The time after which a thread that has left its core to others does not look on: somebody else needs the core, and a thread that
/// sleeps gets it back sooner.
const AWAY_MAX: Duration = Duration::from_micros(50);

/// The number of times that a thread leaves its core on which another one has the permit to spin.
const LEAVES_CROWDED: u32 = 8;

/// The way in which a thread looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looking {
    /// The time after which it stops.
    pub(crate) limit: Duration,
    /// The number of times that it leaves its core, after which it stops.
    pub(crate) leaves: u32,
}

impl Looking {
    /// Looks until `is_over`; returns whether that has come. `cost` is the number of looks for which one call of `is_over` counts.
    ///
    /// The scheduler may have put whoever is waited for on the core of this thread, which leaves the core for that reason again and
    /// again.
    pub(crate) fn until(
        self,
        deadline: Option<Instant>,
        cost: usize,
        mut is_over: impl FnMut() -> bool,
    ) -> bool {
        let looks = (LOOKS / u32::try_from(cost).unwrap_or(LOOKS).max(1)).max(1);
        let mut end = None;
        let mut leaves = self.leaves;
        loop {
            for _ in 0..looks {
                if is_over() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            let end =
                *end.get_or_insert_with(|| now.checked_add(self.limit).into_iter().chain(deadline).min());
            if leaves == 0 || end.is_some_and(|end| now >= end) {
                ends_spinning();
                return false;
            }
            if !may_spin(now) {
                leaves = leaves.min(LEAVES_CROWDED);
            }
            leaves -= 1;
            yield_now();
            if now.elapsed() > AWAY_MAX {
                return is_over();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVER: Looking = Looking {
        limit: Duration::MAX,
        leaves: u32::MAX,
    };

    #[test]
    fn it_ends_with_what_it_looks_for_or_with_the_first_of_its_limits() {
        let mut looks = 0;
        let third = || {
            looks += 1;
            looks == 3
        };
        assert!(EVER.until(None, 1, third));
        assert_eq!(looks, 3);
        let past = Some(Instant::now());
        assert!(!EVER.until(past, 1000, || false));
        let none = Looking { leaves: 0, ..EVER };
        assert!(!none.until(None, 1, || false));
        let short = Looking {
            limit: Duration::ZERO,
            ..EVER
        };
        let mut looks = 0;
        assert!(!short.until(None, 16, || {
            looks += 1;
            false
        }));
        assert_eq!(looks, 4, "a look that costs sixteen");
    }
}
