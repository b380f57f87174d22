//! Calls that a pure call submits while it runs: they have names that are equal when it runs again, so they are found and adopted.

use super::call_digest::CallDigest;
use super::mutant::LineageMutant;
use super::table::{Lineage, LineageStep};

/// A call as one that a pure call has submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NestedSpec {
    /// The number of the call that has submitted it, the outer one.
    pub(crate) outer: u64,
    pub(crate) name: CallDigest,
}

/// A call whose value is held on behalf of an outer one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HeldCall {
    call: u64,
    /// The names of the calls between the two that are forgotten, the inner ones first.
    between: Vec<CallDigest>,
}

impl Lineage {
    /// The call of this name that is known, whatever has become of it: whoever submits it again is to get its value.
    pub(crate) fn named(&self, name: CallDigest) -> Option<u64> {
        let known = self.names.get(&name).copied();
        known.filter(|_| self.mutant != LineageMutant::AdoptsNothing)
    }

    /// A call is submitted that has a name. Returns whether its value is to be held on behalf of the outer call, until
    /// [`LineageStep::LetGo`] (`LINEAGE-7`).
    pub(crate) fn nest(&mut self, call: u64, nested: NestedSpec) -> bool {
        self.names.insert(nested.name, call);
        let Some(record) = self.records.get_mut(&call) else {
            return false;
        };
        record.nested_in = Some(nested);
        let is_pure = record.spec.retries.is_some();
        if !self.may_run_again(nested.outer) || self.mutant == LineageMutant::HoldsNothing {
            return false;
        }
        if is_pure {
            self.take_back(call, nested);
        } else if let Some(outer) = self.records.get_mut(&nested.outer) {
            let between = Vec::new();
            outer.holds.push(HeldCall { call, between });
        }
        !is_pure
    }

    /// A call is submitted anew that was forgotten: it holds again what it had handed to the one that has submitted it.
    fn take_back(&mut self, call: u64, nested: NestedSpec) {
        let Some(outer) = self.records.get_mut(&nested.outer) else {
            return;
        };
        let is_its = |held: &mut HeldCall| held.between.last() == Some(&nested.name);
        let mut taken: Vec<HeldCall> = outer.holds.extract_if(.., is_its).collect();
        for held in &mut taken {
            held.between.pop();
        }
        if let Some(record) = self.records.get_mut(&call) {
            record.holds.extend(taken);
        }
    }

    /// Whether a call may submit again what it has submitted.
    fn may_run_again(&self, call: u64) -> bool {
        self.is_remakeable(call) && !self.has_failed(call)
    }

    /// A call will not run again under its number: the call that has submitted it may do so, and then needs what this one has held.
    pub(super) fn let_go(&mut self, call: u64, steps: &mut Vec<LineageStep>) {
        let Some(record) = self.records.get_mut(&call) else {
            return;
        };
        let mut held = std::mem::take(&mut record.holds);
        if held.is_empty() {
            return;
        }
        let nested = record.nested_in.filter(|nested| self.may_run_again(nested.outer));
        let outer = nested.and_then(|nested| Some((nested.name, self.records.get_mut(&nested.outer)?)));
        let Some((name, outer)) = outer else {
            let let_go = held
                .into_iter()
                .map(|held| LineageStep::LetGo { call: held.call });
            return steps.extend(let_go);
        };
        held.iter_mut().for_each(|held| held.between.push(name));
        outer.holds.extend(held);
    }

    /// A call is forgotten, and its name with it.
    pub(super) fn forget_name(&mut self, call: u64) {
        let nested = self.records.get(&call).and_then(|record| record.nested_in);
        let is_named = |nested: &NestedSpec| self.names.get(&nested.name) == Some(&call);
        if let Some(nested) = nested.filter(is_named) {
            self.names.remove(&nested.name);
        }
    }
}
