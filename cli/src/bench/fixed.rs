//! Messages between processes that stay on chosen cores.

use std::time::Duration;

use super::limits::cores::{Pair, allowed, place};
use super::measure::{REPEATS, Summary, measure};

/// Asks another process and waits for its answer.
pub(super) type Ask<'a> = &'a mut dyn FnMut() -> anyhow::Result<()>;

/// Processes that stay on their cores until this is dropped.
pub(super) struct Fixed<'a> {
    answering: &'a [u32],
    before: Vec<usize>,
}

impl<'a> Fixed<'a> {
    /// Has this process run on the first core of the pair, and the processes `answering` on the second.
    ///
    /// # Errors
    /// A process has ended.
    pub(super) fn new((asks, answers): Pair, answering: &'a [u32]) -> anyhow::Result<Self> {
        let fixed = Fixed {
            answering,
            before: allowed()?,
        };
        place(std::process::id(), asks.as_slice())?;
        fixed.place(answers.as_slice())?;
        Ok(fixed)
    }

    /// Measures several ways to ask in turns, each for about `budget` each time.
    ///
    /// # Errors
    /// The first error of one of them.
    pub(super) fn in_turns<const N: usize>(
        &self,
        budget: Duration,
        mut ways: [Ask<'_>; N],
    ) -> anyhow::Result<[Vec<Summary>; N]> {
        let mut found = [const { Vec::new() }; N];
        for _ in 0..REPEATS {
            for (ask, found) in ways.iter_mut().zip(&mut found) {
                found.push(measure(budget, &mut **ask)?);
            }
        }
        Ok(found)
    }

    fn place(&self, cores: &[usize]) -> anyhow::Result<()> {
        self.answering
            .iter()
            .try_for_each(|process| place(*process, cores))
    }
}

impl Drop for Fixed<'_> {
    fn drop(&mut self) {
        // A process that has ended needs no core.
        let _ = place(std::process::id(), &self.before);
        let _ = self.place(&self.before);
    }
}
