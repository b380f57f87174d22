//! Processes that stay on chosen cores.

use super::limits::cores::{Pair, allowed, place};

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
