//! The limit of each measure, and the goal that it is on its way to.

use std::collections::BTreeMap;

use anyhow::Context;

/// Limits and goals by the name of the measure.
pub(crate) struct Limits(BTreeMap<&'static str, (usize, usize)>);

impl Limits {
    /// The measures, each with its goal.
    pub(crate) fn goals(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.0.iter().map(|(name, (_, goal))| (*name, *goal))
    }

    /// The limit and the goal of a measure.
    ///
    /// # Errors
    /// The measure has no limit.
    pub(crate) fn of(&self, name: &str) -> anyhow::Result<(usize, usize)> {
        self.0
            .get(name)
            .copied()
            .with_context(|| format!("no limit for `{name}`"))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits(BTreeMap::from([
            ("type names in two modules", (0, 0)),
            ("docs that begin with a pronoun", (0, 0)),
            ("public items without docs", (0, 0)),
            ("orderings without a reason", (0, 0)),
            ("largest circle of modules", (6, 6)),
            ("silent exits on an index", (0, 0)),
            ("unsafe code allowed without a reason", (0, 0)),
            ("sleeps", (1, 1)),
            ("errors that give their source twice", (0, 0)),
            ("clocks and hash maps in the compiler", (0, 0)),
            ("lines of one system outside `platform`", (11, 0)),
            ("dependencies on a higher floor", (0, 0)),
            ("README lines", (200, 200)),
            ("file lines, median", (130, 130)),
            ("file lines, p95", (350, 350)),
            ("file lines, longest", (666, 600)),
            ("function lines, median", (7, 7)),
            ("function lines, p95", (28, 28)),
            ("function lines, longest", (70, 70)),
        ]))
    }
}
