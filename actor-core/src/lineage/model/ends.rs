//! The ends of attempts, and the losses of values.

use super::{Extra, Graph, LineageHost, PLACES, TriedCall, death, process};

impl LineageHost {
    pub(super) fn end(&mut self, graph: &Graph, (call, attempt, (worker, _)): TriedCall, is_late: bool) {
        let target = graph.follower().filter(|(follower, _)| *follower == call);
        let counts = self.lineage.is_pending(call) && self.lineage.attempt(call) == attempt;
        match target {
            Some((_, target)) if counts && !self.has_ended(target) => self.stands = Some(call),
            _ => self.made(graph, (call, attempt, worker), is_late),
        }
    }

    /// The value of an attempt is there, unless it does not count, and with it that of a call that stands for it.
    fn made(&mut self, graph: &Graph, (call, attempt, worker): (u64, u32, u32), is_late: bool) {
        let was_there = self.values.contains_key(&call);
        if let Some(steps) = self.lineage.made(call, attempt) {
            self.expect(!is_late && !was_there, "refused");
            self.values.insert(call, worker);
            self.told.remove(&call);
            self.perform(steps);
            self.has_read(call);
            self.end_released(call);
        }
        self.follow(graph);
    }

    fn has_ended(&self, call: u64) -> bool {
        self.values.contains_key(&call) || self.failures.contains_key(&call)
    }

    /// The value is there that a call stands for, or its failure: that of the call is, too.
    pub(super) fn follow(&mut self, graph: &Graph) {
        let Some((call, target)) = graph.follower() else {
            return;
        };
        if self.stands != Some(call) || !self.has_ended(target) {
            return;
        }
        self.stands = None;
        let attempt = self.lineage.attempt(call);
        match self.values.get(&target).copied() {
            Some(worker) => self.made(graph, (call, attempt, worker), false),
            None => self.fail(call, attempt),
        }
    }

    /// An attempt has failed, by itself or since nobody would see that it runs again.
    pub(super) fn fail(&mut self, call: u64, attempt: u32) {
        if let Some(steps) = self.lineage.failed(call, attempt) {
            self.failures.insert(call, None);
            self.perform(steps);
            self.has_read(call);
            self.end_released(call);
        }
    }

    /// The last copy of a value is lost, or dropped for want of room.
    pub(super) fn lose(&mut self, graph: &Graph, call: u64, is_dropped: bool) {
        let follower = graph.follower().filter(|(_, target)| *target == call);
        if let Some((follower, _)) = follower.filter(|(follower, _)| self.values.contains_key(follower)) {
            self.values.remove(&follower);
            self.stands = Some(follower);
            let steps = self.lineage.follows(follower);
            self.perform(steps);
        }
        if is_dropped && self.lineage.is_remakeable(call) {
            let begun = self.begun.entry(call).or_default();
            *begun = begun.saturating_sub(1);
        }
        if graph.may(Extra::TellsTwice) {
            self.told.insert(call);
        }
        let steps = self.lineage.lost(call, is_dropped);
        self.perform(steps);
        self.follow(graph);
    }

    /// A call has ended: if nobody holds it, it is forgotten.
    pub(super) fn end_released(&mut self, call: u64) {
        if self.released.remove(&call) {
            let steps = self.lineage.released(call);
            self.perform(steps);
        }
    }

    /// A worker dies, which never got one of its attempts.
    pub(super) fn die(&mut self, graph: &Graph, worker: u32, never_got: Option<TriedCall>) {
        self.deaths += 1;
        *self.lives.entry(worker).or_default() += 1;
        let ended: Vec<TriedCall> = self
            .running
            .extract_if(.., |(.., (at, _))| *at == worker)
            .collect();
        if graph.stale {
            let got = ended.iter().filter(|attempt| never_got != Some(**attempt));
            self.late.extend(got);
        }
        for attempt in &ended {
            self.let_go(*attempt);
        }
        // What stands for another value is lost with that.
        let follower = graph.follower().map(|(follower, _)| follower);
        let lost = self.values.iter().filter(|(_, at)| **at == worker);
        let lost: Vec<u64> = lost
            .map(|(call, _)| *call)
            .filter(|call| Some(*call) != follower)
            .collect();
        for call in &lost {
            self.values.remove(call);
        }
        for call in lost {
            self.lose(graph, call, false);
        }
        for attempt in ended {
            self.lose_attempt(graph, attempt, never_got != Some(attempt));
        }
        self.follow(graph);
    }

    /// The worker of an attempt has died, which may have begun.
    fn lose_attempt(&mut self, graph: &Graph, (call, attempt, (worker, _)): TriedCall, has_run: bool) {
        if !has_run {
            self.not_begun(call);
        }
        // Calls of the program hold what they read until they have ended.
        let mut readers = (0..)
            .zip(&graph.calls)
            .filter(|(_, (inputs, _))| inputs.contains(&call));
        let is_read = readers.any(|(reader, _)| self.lineage.is_pending(reader));
        if self.released.contains(&call) && !is_read {
            // Nobody would see that it has run again.
            return self.fail(call, attempt);
        }
        let steps = self.lineage.died(call, attempt, &death(process(worker)), has_run);
        self.perform(steps);
    }

    /// An attempt that was counted has not begun.
    pub(super) fn not_begun(&mut self, call: u64) {
        let is_pure = self.lineage.is_remakeable(call);
        let counted = if is_pure { call } else { call % PLACES };
        let begun = self.begun.entry(counted).or_default();
        *begun = begun.saturating_sub(1);
    }
}
