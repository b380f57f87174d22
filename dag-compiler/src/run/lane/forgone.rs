//! Forgone reads: inputs that fail-fast has left unread before they had arrived (`LOOP-3`).

use selvedge_channels::Arrival;
use selvedge_core::ValueIx;

use super::{LaneError, LaneValues};

/// Reads of one value in one execution.
struct Forgone {
    value: ValueIx,
    execution: u64,
    reads: u32,
}

/// The reads that a lane has given up, until their messages have arrived.
#[derive(Default)]
pub(super) struct ForgoneReads(Vec<Forgone>);

impl ForgoneReads {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives up one read of a value.
    pub(super) fn add(&mut self, value: ValueIx, execution: u64) {
        let mut known = self.0.iter_mut();
        match known.find(|it| it.value == value && it.execution == execution) {
            Some(known) => known.reads += 1,
            None => self.0.push(Forgone {
                value,
                execution,
                reads: 1,
            }),
        }
    }

    /// Forgets the reads of `values` in other executions: a read of this execution skips the messages that earlier
    /// executions left unread.
    pub(super) fn skip(&mut self, values: &[ValueIx], execution: u64) {
        self.0
            .retain(|it| it.execution == execution || !values.contains(&it.value));
    }

    /// Releases the messages that have arrived.
    pub(super) fn drain(&mut self, values: &mut LaneValues) -> Result<(), LaneError> {
        let mut failed = Ok(());
        self.0.retain(|forgone| match release(forgone, values) {
            Ok(released) => !released,
            Err(error) => {
                failed = Err(error);
                true
            }
        });
        failed
    }

    /// The state of the list, for the models.
    #[cfg(test)]
    pub(super) fn seen(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|it| it.execution << 8 | it.value.0 as u64)
    }
}

/// Releases a message that nobody reads, if it has arrived.
fn release(forgone: &Forgone, values: &mut LaneValues) -> Result<bool, LaneError> {
    let value = values.at_mut(forgone.value)?;
    if value.receive(forgone.execution)? == Arrival::Nothing {
        return Ok(false);
    }
    (0..forgone.reads).try_for_each(|_| value.read_done())?;
    Ok(true)
}
