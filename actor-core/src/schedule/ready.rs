//! The calls whose inputs are there, by what they need: an index by which no step looks at all of them.

use std::collections::BTreeMap;

use selvedge_cluster::id_map::IdMap;

use super::resources::Resources;

/// The calls that need the same.
#[derive(Clone, Debug, Default)]
pub(super) struct NeedQueue {
    /// The calls in the order of their submission, each with the queue's passes when it came.
    calls: IdMap<u64, u64>,
    /// The number of times that a younger call of another queue has started before this queue's oldest one.
    passes: u64,
}

/// The calls whose inputs are there. Each call is named by its number, which grows with each submission.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyCalls {
    queues: BTreeMap<Resources, NeedQueue>,
}

impl ReadyCalls {
    pub(super) fn insert(&mut self, call: u64, needs: &Resources) {
        let queue = self.queues.entry(needs.clone()).or_default();
        let passes = queue.passes;
        queue.calls.insert(call, passes);
    }

    pub(super) fn remove(&mut self, call: u64, needs: &Resources) {
        if let Some(queue) = self.queues.get_mut(needs) {
            queue.calls.remove(&call);
            if queue.calls.is_empty() {
                self.queues.remove(needs);
            }
        }
    }

    /// The oldest call of each queue, the oldest of all first, with what it needs and how often it may have been passed over.
    pub(super) fn oldest(&self) -> Vec<(u64, Resources, u64)> {
        let oldest = self.queues.iter().filter_map(|(needs, queue)| {
            let (call, came) = queue.calls.first_key_value()?;
            Some((*call, needs.clone(), queue.passes - came))
        });
        let mut oldest: Vec<_> = oldest.collect();
        oldest.sort_unstable_by_key(|(call, ..)| *call);
        oldest
    }

    /// A younger call has started before the oldest one of a queue.
    pub(super) fn pass(&mut self, needs: &Resources) {
        if let Some(queue) = self.queues.get_mut(needs) {
            queue.passes += 1;
        }
    }

    /// The calls of all queues whose needs are not met by `may`.
    pub(super) fn extract(&mut self, may: impl Fn(&Resources) -> bool) -> Vec<u64> {
        let hopeless = self.queues.extract_if(.., |needs, _| !may(needs));
        hopeless
            .flat_map(|(_, queue)| queue.calls.keys().copied().collect::<Vec<_>>())
            .collect()
    }

    #[cfg(test)]
    pub(super) fn contains(&self, call: u64) -> bool {
        self.queues.values().any(|queue| queue.calls.contains_key(&call))
    }
}
