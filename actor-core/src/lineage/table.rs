//! The specs of submitted calls, and the steps when values are made, lost and given up.

use selvedge_cluster::id_map::{IdMap, IdSet};

use super::call_digest::CallDigest;
use super::lost::{Loss, Lost};
use super::mutant::LineageMutant;
use super::nested::{HeldCalls, NestedSpec};

/// A call as the lineage sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spec {
    /// The calls whose values it reads, as far as the lineage knows them.
    pub(crate) inputs: Vec<u64>,
    /// The times that it may run again; `None` for a call that is not pure.
    pub(crate) retries: Option<u32>,
    /// The bytes of its arguments.
    pub(crate) bytes: usize,
}

/// Something that the owner has to do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineageStep {
    /// Run the call again, as soon as its inputs are there. `missing` of them are not.
    Run { call: u64, attempt: u32, missing: usize },
    /// An input of a call that is to run is there.
    InputMade { call: u64 },
    /// An input of a call that waits to run was there, and is not any more.
    InputLost { call: u64 },
    /// The value is lost for good, or will not be made.
    Fail { call: u64, why: Lost },
    /// Drop the value: nobody needs it.
    Drop { call: u64 },
    /// Drop the arguments: the specs of calls take too much.
    DropSpec { call: u64 },
    /// Drop the arguments and all that is known of the call.
    Forget { call: u64 },
    /// No outer call needs the value any more: drop what is held on its behalf.
    LetGo { call: u64 },
}

/// The value of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ResultState {
    /// An attempt waits or runs.
    Pending,
    Here,
    /// The value was dropped since nobody needed it, or it is lost and nobody needs it yet.
    Gone,
    /// The failure is there.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SpecRecord {
    pub(super) spec: Spec,
    /// The call that has submitted it, if that may do so again, and its name.
    pub(super) nested_in: Option<NestedSpec>,
    /// The calls that it has submitted, or that these have, which may not run again, and whose values are held on its behalf.
    pub(super) holds: Option<Box<HeldCalls>>,
    state: ResultState,
    attempts: u32,
    /// The number of attempts that a worker's death has ended.
    deaths: u32,
    /// The number of times that the last copy of the value was lost.
    losses: u32,
    /// Whether somebody holds a reference to the value.
    is_held: bool,
    /// The calls that read the value and are not forgotten.
    readers: IdSet<u64>,
    /// The number of those that have not ended.
    pending_readers: usize,
    /// Whether the spec was dropped because of the limit.
    is_dropped: bool,
    /// The reason that the call has failed for good.
    given_up: Option<Lost>,
}

impl SpecRecord {
    /// Whether the value is needed (`LINEAGE-4`).
    fn is_needed(&self) -> bool {
        self.is_held || self.pending_readers > 0
    }

    /// The reason that the call cannot run again, if there is one.
    fn cannot(&self, loss: &Loss, limit: usize, mutant: LineageMutant) -> Option<Lost> {
        if self.given_up.is_some() {
            return self.given_up.clone();
        }
        match self.spec.retries {
            None if mutant == LineageMutant::RunsImpure => None,
            None => Some(Lost::NotPure { loss: loss.clone() }),
            Some(_) if self.is_dropped => Some(Lost::LineageDropped { limit }),
            Some(_) if mutant == LineageMutant::NeverSpent => None,
            Some(retries) => {
                let (attempts, deaths) = (self.attempts, self.deaths + self.losses);
                (deaths > retries).then_some(Lost::RetriesSpent { attempts, deaths })
            }
        }
    }
}

/// The specs of an owner's submitted calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lineage {
    pub(super) records: IdMap<u64, SpecRecord>,
    /// The calls that pure calls have submitted, by their names.
    pub(super) names: IdMap<CallDigest, u64>,
    /// The pure calls that have ended and whose specs are kept, and the bytes of these.
    kept: IdSet<u64>,
    kept_bytes: usize,
    kept_bytes_max: usize,
    pub(super) mutant: LineageMutant,
}

impl Lineage {
    pub(crate) fn new(kept_bytes_max: usize) -> Self {
        Lineage {
            records: IdMap::new(),
            names: IdMap::new(),
            kept: IdSet::new(),
            kept_bytes: 0,
            kept_bytes_max,
            mutant: LineageMutant::None,
        }
    }

    /// The number of calls that are known, and of their names.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.records.len() + self.names.len()
    }

    /// Sets the limit of bytes, which counts from the next end of a call on.
    pub(crate) fn limit(&mut self, kept_bytes_max: usize) {
        self.kept_bytes_max = kept_bytes_max;
    }

    /// Whether the value of a call can be made again, as far as its own spec goes: its call is pure, and its spec is kept.
    pub(crate) fn is_remakeable(&self, call: u64) -> bool {
        let record = self.records.get(&call);
        record.is_some_and(|record| record.spec.retries.is_some() && !record.is_dropped)
    }

    /// Whether a call that is about to give its value can run once more, if that is lost.
    pub(crate) fn outlives_loss(&self, call: u64) -> bool {
        let record = self.records.get(&call);
        record.is_some_and(|record| {
            let retries = record.spec.retries.unwrap_or(0);
            !record.is_dropped && record.deaths + record.losses < retries
        })
    }

    /// The number of a call's inputs that are on their way.
    pub(crate) fn missing(&self, call: u64) -> usize {
        let record = self.records.get(&call);
        let inputs = record.map_or(&[][..], |record| record.spec.inputs.as_slice());
        inputs.iter().filter(|input| self.is_pending(**input)).count()
    }

    /// Whether another call reads the value, or may read it when it runs again.
    pub(crate) fn is_read(&self, call: u64) -> bool {
        let record = self.records.get(&call);
        record.is_some_and(|record| !record.readers.is_empty())
    }

    /// Whether a failure is the value of a call.
    pub(super) fn has_failed(&self, call: u64) -> bool {
        let record = self.records.get(&call);
        record.is_some_and(|record| record.state == ResultState::Failed)
    }

    /// The number of the attempt that counts.
    pub(crate) fn attempt(&self, call: u64) -> u32 {
        self.records.get(&call).map_or(0, |record| record.attempts)
    }

    /// The number of workers that died during the call.
    pub(crate) fn deaths(&self, call: u64) -> u32 {
        self.records.get(&call).map_or(0, |record| record.deaths)
    }

    /// A call is submitted, and somebody holds a reference to its value. Returns the number of inputs that are missing.
    pub(crate) fn submit(&mut self, call: u64, mut spec: Spec) -> usize {
        spec.inputs.retain(|input| self.records.contains_key(input));
        spec.inputs.sort_unstable();
        spec.inputs.dedup();
        let mut missing = 0;
        for input in &spec.inputs {
            if let Some(input) = self.records.get_mut(input) {
                input.readers.insert(call);
                input.pending_readers += 1;
                missing += usize::from(input.state == ResultState::Pending);
            }
        }
        let record = SpecRecord {
            spec,
            nested_in: None,
            holds: None,
            state: ResultState::Pending,
            attempts: 1,
            deaths: 0,
            losses: 0,
            is_held: true,
            readers: IdSet::new(),
            pending_readers: 0,
            is_dropped: false,
            given_up: None,
        };
        self.records.insert(call, record);
        missing
    }

    /// Changes the state of a value, and with it what its inputs know of their readers.
    fn set_state(&mut self, call: u64, state: ResultState) {
        let Some(record) = self.records.get_mut(&call) else {
            return;
        };
        let before = std::mem::replace(&mut record.state, state);
        if (before == ResultState::Pending) == (state == ResultState::Pending) {
            return;
        }
        let (is_pending, inputs) = (state == ResultState::Pending, record.spec.inputs.clone());
        let bytes = record.spec.bytes;
        let may_run_again = matches!(state, ResultState::Here | ResultState::Gone);
        let is_kept = may_run_again && record.spec.retries.is_some() && !record.is_dropped;
        if is_kept && self.kept.insert(call) {
            self.kept_bytes += bytes;
        } else if is_pending && self.kept.remove(&call) {
            self.kept_bytes -= bytes;
        }
        for input in &inputs {
            if let Some(input) = self.records.get_mut(input) {
                match is_pending {
                    true => input.pending_readers += 1,
                    false => input.pending_readers = input.pending_readers.saturating_sub(1),
                }
            }
        }
    }

    /// An attempt of a call has made the value. Returns `None` if it is not the one that counts (`LINEAGE-2`).
    pub(crate) fn made(&mut self, call: u64, attempt: u32) -> Option<Vec<LineageStep>> {
        self.ended(call, attempt, ResultState::Here)
    }

    /// An attempt of a call has failed by itself, which is its result.
    pub(crate) fn failed(&mut self, call: u64, attempt: u32) -> Option<Vec<LineageStep>> {
        self.ended(call, attempt, ResultState::Failed)
    }

    fn ended(&mut self, call: u64, attempt: u32, state: ResultState) -> Option<Vec<LineageStep>> {
        let record = self.records.get_mut(&call)?;
        let counts = record.state == ResultState::Pending && record.attempts == attempt;
        if !counts && self.mutant != LineageMutant::TakesStale {
            return None;
        }
        if state == ResultState::Failed {
            // A function that has had a value before, and fails now, is not pure, whatever it says.
            record.given_up.get_or_insert(Lost::NotPure { loss: Loss::Value });
        }
        let mut steps = Vec::new();
        self.end(call, state, &mut steps);
        Some(steps)
    }

    /// A call has ended: its readers may go on, and its inputs may be needed no more.
    fn end(&mut self, call: u64, state: ResultState, steps: &mut Vec<LineageStep>) {
        self.set_state(call, state);
        let Some(record) = self.records.get(&call) else {
            return;
        };
        let readers = record.readers.iter().filter(|reader| self.is_pending(**reader));
        steps.extend(readers.map(|call| LineageStep::InputMade { call: *call }));
        let mut looked_at = match record.spec.retries {
            Some(_) if state == ResultState::Here => record.spec.inputs.clone(),
            _ => self.unlink(call),
        };
        looked_at.push(call);
        if state == ResultState::Failed {
            self.let_go(call, steps);
        }
        self.look_at(looked_at, steps);
        self.keep_in_bounds(steps);
    }

    /// Takes a call that will not run again off the lists of its inputs; returns these.
    fn unlink(&mut self, call: u64) -> Vec<u64> {
        let is_pending = self.is_pending(call);
        let record = self.records.get_mut(&call);
        let inputs = record.map(|record| std::mem::take(&mut record.spec.inputs));
        let inputs = inputs.unwrap_or_default();
        for input in &inputs {
            if let Some(input) = self.records.get_mut(input) {
                input.readers.remove(&call);
                input.pending_readers = input.pending_readers.saturating_sub(usize::from(is_pending));
            }
        }
        inputs
    }

    /// Whether an attempt of a call waits or runs.
    pub(crate) fn is_pending(&self, call: u64) -> bool {
        let record = self.records.get(&call);
        record.is_some_and(|record| record.state == ResultState::Pending)
    }

    /// Drops values that nobody needs, and forgets calls whose values nobody can need: a work list.
    fn look_at(&mut self, mut calls: Vec<u64>, steps: &mut Vec<LineageStep>) {
        while let Some(call) = calls.pop() {
            let Some(record) = self.records.get(&call) else {
                continue;
            };
            if record.state == ResultState::Pending || record.is_needed() {
                continue;
            }
            // A call that reads the value may run again, and has to know if this one cannot.
            let is_read = !record.readers.is_empty() && self.mutant != LineageMutant::ForgetsSpecs;
            if record.state == ResultState::Here {
                steps.push(LineageStep::Drop { call });
                self.set_state(call, ResultState::Gone);
            }
            if !is_read {
                calls.extend(self.forget(call, steps));
            }
        }
    }

    /// Forgets a call; returns its inputs.
    fn forget(&mut self, call: u64, steps: &mut Vec<LineageStep>) -> Vec<u64> {
        let inputs = self.unlink(call);
        self.let_go(call, steps);
        self.forget_name(call);
        if let Some(record) = self.records.remove(&call) {
            if self.kept.remove(&call) {
                self.kept_bytes -= record.spec.bytes;
            }
            steps.push(LineageStep::Forget { call });
        }
        inputs
    }

    /// The last reference to the value was dropped. A call that has not ended goes on if others read its value; otherwise
    /// [`LineageStep::Forget`] tells to give it up.
    pub(crate) fn released(&mut self, call: u64) -> Vec<LineageStep> {
        let mut steps = Vec::new();
        let Some(record) = self.records.get_mut(&call) else {
            return steps;
        };
        record.is_held = false;
        if record.state == ResultState::Pending && record.readers.is_empty() {
            let inputs = self.forget(call, &mut steps);
            self.look_at(inputs, &mut steps);
        } else {
            self.look_at(vec![call], &mut steps);
        }
        steps
    }

    /// The worker of an attempt has died, by this loss. `has_run` says that the function may have begun.
    pub(crate) fn died(&mut self, call: u64, attempt: u32, loss: &Loss, has_run: bool) -> Vec<LineageStep> {
        let mut steps = Vec::new();
        let Some(record) = self.records.get_mut(&call) else {
            return steps;
        };
        if record.state != ResultState::Pending || record.attempts != attempt {
            return steps;
        }
        record.deaths += u32::from(has_run);
        match record
            .cannot(loss, self.kept_bytes_max, self.mutant)
            .filter(|_| has_run)
        {
            Some(why) => self.give_up(call, why, &mut steps),
            None => self.run_again(call, &mut steps),
        }
        steps
    }

    /// An attempt was taken back before its function had begun: it goes on as a new one, which waits for its inputs.
    pub(crate) fn withdrawn(&mut self, call: u64, attempt: u32) -> Vec<LineageStep> {
        let mut steps = Vec::new();
        let record = self.records.get(&call);
        if record.is_some_and(|record| record.state == ResultState::Pending && record.attempts == attempt) {
            self.run_again(call, &mut steps);
        }
        steps
    }

    /// The last copy of a value is lost. If somebody needs the value, it is made again. One that was dropped for want of room
    /// does not count as a loss.
    pub(crate) fn lost(&mut self, call: u64, is_dropped: bool) -> Vec<LineageStep> {
        let mut steps = Vec::new();
        let Some(record) = self.records.get_mut(&call) else {
            return steps;
        };
        let runs_twice = record.state == ResultState::Pending && self.mutant == LineageMutant::RunsTwice;
        if record.state != ResultState::Here && !runs_twice {
            return steps;
        }
        record.losses += u32::from(!is_dropped);
        let is_needed = record.is_needed();
        self.gone(call, &mut steps);
        match is_needed {
            true => self.remake(call, &mut steps),
            false => self.look_at(vec![call], &mut steps),
        }
        steps
    }

    /// A value is not there any more.
    fn gone(&mut self, call: u64, steps: &mut Vec<LineageStep>) {
        self.set_state(call, ResultState::Gone);
        let Some(record) = self.records.get(&call) else {
            return;
        };
        let waiting = record.readers.iter().filter(|reader| self.is_pending(**reader));
        steps.extend(waiting.map(|call| LineageStep::InputLost { call: *call }));
    }

    /// The value of a call that stands for another one is lost with that: it is there again when the other one is.
    pub(crate) fn follows(&mut self, call: u64) -> Vec<LineageStep> {
        let mut steps = Vec::new();
        let record = self.records.get(&call);
        if record.is_some_and(|record| record.state == ResultState::Here) {
            self.gone(call, &mut steps);
            self.set_state(call, ResultState::Pending);
        }
        steps
    }

    /// A value that nobody held, and of which no copy is left, is held again: it is made again, unless it is being made.
    pub(crate) fn revived(&mut self, call: u64) -> Vec<LineageStep> {
        let mut steps = Vec::new();
        if self.mutant == LineageMutant::AdoptsUnheld {
            return steps;
        }
        let Some(record) = self.records.get_mut(&call) else {
            return steps;
        };
        record.is_held = true;
        if record.state != ResultState::Pending {
            self.gone(call, &mut steps);
            self.remake(call, &mut steps);
        }
        steps
    }

    /// Makes a value again that is gone, after those of its inputs that are gone: a work list.
    fn remake(&mut self, call: u64, steps: &mut Vec<LineageStep>) {
        let (mut wanted, mut order) = (vec![call], Vec::new());
        while let Some(wanted_call) = wanted.pop() {
            let Some(record) = self.records.get(&wanted_call) else {
                continue;
            };
            if record.state != ResultState::Gone {
                continue;
            }
            if let Some(why) = record.cannot(&Loss::Value, self.kept_bytes_max, self.mutant) {
                // Without this input there is no way; what was to run is not needed for anything else.
                order
                    .into_iter()
                    .for_each(|call| self.set_state(call, ResultState::Gone));
                return self.give_up(call, why, steps);
            }
            if self.mutant != LineageMutant::ForgetsInputs {
                wanted.extend(record.spec.inputs.iter().copied());
            }
            self.set_state(wanted_call, ResultState::Pending);
            order.push(wanted_call);
        }
        // Inputs were found after what reads them.
        order
            .into_iter()
            .rev()
            .for_each(|call| self.run_again(call, steps));
    }

    fn run_again(&mut self, call: u64, steps: &mut Vec<LineageStep>) {
        let Some(record) = self.records.get_mut(&call) else {
            return;
        };
        record.attempts += 1;
        let attempt = record.attempts;
        let inputs = record.spec.inputs.clone();
        let missing = inputs.into_iter().filter(|input| self.is_pending(*input)).count();
        steps.push(LineageStep::Run {
            call,
            attempt,
            missing,
        });
    }

    /// A value will not be made: its failure is its result, which its readers get as any other.
    fn give_up(&mut self, call: u64, why: Lost, steps: &mut Vec<LineageStep>) {
        if let Some(record) = self.records.get_mut(&call) {
            record.given_up = Some(why.clone());
        }
        steps.push(LineageStep::Fail { call, why });
        self.end(call, ResultState::Failed, steps);
    }

    /// Drops the specs of the oldest calls that have ended until the others take no more than the limit (`LINEAGE-5`).
    fn keep_in_bounds(&mut self, steps: &mut Vec<LineageStep>) {
        while self.kept_bytes > self.kept_bytes_max {
            let Some(oldest) = self.kept.first().copied() else {
                return;
            };
            self.kept.remove(&oldest);
            if let Some(record) = self.records.get_mut(&oldest) {
                record.is_dropped = true;
                self.kept_bytes -= record.spec.bytes;
            }
            steps.push(LineageStep::DropSpec { call: oldest });
            self.let_go(oldest, steps);
            let mut looked_at = self.unlink(oldest);
            looked_at.push(oldest);
            self.look_at(looked_at, steps);
        }
    }
}
