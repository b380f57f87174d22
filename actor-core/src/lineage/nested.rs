//! Calls that a pure call submits while it runs: they have names that are equal when it runs again, so they are found and adopted.

use selvedge_cluster::id_map::IdMap;

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

/// The calls whose values are held on behalf of an outer one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct HeldCalls {
    /// The calls that it has submitted itself.
    own: Vec<u64>,
    /// The calls that others had submitted, which it has submitted and which will not run again under their numbers: by the names of these.
    handed_over: IdMap<CallDigest, Box<HeldCalls>>,
}

impl HeldCalls {
    /// Takes all calls out, by a work list: calls may be nested deeper than a stack is long.
    fn take_all(&mut self) -> Vec<u64> {
        let mut calls = std::mem::take(&mut self.own);
        let mut left = vec![std::mem::take(&mut self.handed_over)];
        while let Some(handed_over) = left.pop() {
            for mut held in handed_over.into_values() {
                calls.append(&mut held.own);
                left.push(std::mem::take(&mut held.handed_over));
            }
        }
        calls
    }
}

impl Drop for HeldCalls {
    fn drop(&mut self) {
        self.take_all();
    }
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
        if nested.outer == call {
            // A process names its outer call: a call that was its own would hand over what it holds to itself, and nobody would let it go.
            return false;
        }
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
            outer.holds.get_or_insert_default().own.push(call);
        }
        !is_pure
    }

    /// A call is submitted anew that was forgotten: it holds again what it had handed to the one that has submitted it.
    fn take_back(&mut self, call: u64, nested: NestedSpec) {
        let outer = self.records.get_mut(&nested.outer);
        let handed_over = outer.and_then(|outer| outer.holds.as_mut()?.handed_over.remove(&nested.name));
        if let Some(record) = self.records.get_mut(&call) {
            record.holds = handed_over;
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
        let Some(held) = record.holds.take() else {
            return;
        };
        let nested = record.nested_in.filter(|nested| self.may_run_again(nested.outer));
        let outer = nested.and_then(|nested| Some((nested.name, self.records.get_mut(&nested.outer)?)));
        let unneeded = match outer {
            Some((name, outer)) => {
                let of_outer = outer.holds.get_or_insert_default();
                of_outer.handed_over.insert(name, held)
            }
            None => Some(held),
        };
        if let Some(mut unneeded) = unneeded {
            let calls = unneeded.take_all().into_iter();
            steps.extend(calls.map(|call| LineageStep::LetGo { call }));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::Spec;

    fn submit(lineage: &mut Lineage, call: u64, retries: Option<u32>) {
        let spec = Spec {
            inputs: Vec::new(),
            retries,
            bytes: 8,
        };
        lineage.submit(call, spec);
    }

    /// Submits a call on behalf of another one; returns whether its value is held for that one.
    fn submit_in(lineage: &mut Lineage, (outer, place): (u64, u64), call: u64, retries: Option<u32>) -> bool {
        submit(lineage, call, retries);
        let name = CallDigest::at_place(place);
        lineage.nest(call, NestedSpec { outer, name })
    }

    fn let_go(steps: &[LineageStep]) -> Vec<u64> {
        let let_go = steps.iter().filter_map(|step| match step {
            LineageStep::LetGo { call } => Some(*call),
            _ => None,
        });
        let mut let_go: Vec<u64> = let_go.collect();
        let_go.sort_unstable();
        let_go
    }

    /// Each of the calls in the middle is forgotten and submitted anew, and finds what it has held by its name.
    #[test]
    fn o4_a_call_that_submits_100_000_others_holds_and_lets_go_what_each_of_them_has_submitted() {
        const COUNT: u64 = 100_000;
        let mut lineage = Lineage::new(usize::MAX);
        submit(&mut lineage, 0, Some(1));
        let inner = |middle: u64| middle + COUNT;
        for middle in 1..=COUNT {
            assert!(!submit_in(&mut lineage, (0, middle), middle, Some(1)));
            assert!(submit_in(
                &mut lineage,
                (middle, inner(middle)),
                inner(middle),
                None
            ));
            assert!(let_go(&lineage.released(middle)).is_empty());
        }
        let anew = |middle: u64| middle + 2 * COUNT;
        for middle in 1..=COUNT {
            submit_in(&mut lineage, (0, middle), anew(middle), Some(1));
        }
        let let_go_of_outer = let_go(&lineage.released(0));
        assert!(let_go_of_outer.is_empty(), "those in the middle hold it again");
        for middle in 1..=COUNT {
            assert_eq!(let_go(&lineage.released(anew(middle))), [inner(middle)]);
            lineage.released(inner(middle));
        }
        assert_eq!(lineage.len(), 0);
    }

    /// Calls that wait for each other may be nested as deep as there is memory, and end one after the other.
    #[test]
    fn o4_what_calls_hold_that_are_nested_100_000_deep_is_let_go_without_recursion() {
        const DEPTH: u64 = 100_000;
        let nested = || {
            let mut lineage = Lineage::new(usize::MAX);
            submit(&mut lineage, 0, Some(1));
            for call in 1..DEPTH {
                submit_in(&mut lineage, (call - 1, call), call, Some(1));
            }
            assert!(submit_in(&mut lineage, (DEPTH - 1, DEPTH), DEPTH, None));
            for call in (1..DEPTH).rev() {
                assert!(let_go(&lineage.released(call)).is_empty());
            }
            lineage
        };
        assert_eq!(let_go(&nested().released(0)), [DEPTH]);
        // A runtime may end while its calls hold all that.
        drop(nested());
    }

    #[test]
    fn a_call_that_names_itself_as_its_outer_one_lets_go_what_it_holds() {
        let mut lineage = Lineage::new(usize::MAX);
        submit_in(&mut lineage, (1, 1), 1, Some(1));
        assert!(submit_in(&mut lineage, (1, 2), 2, None));
        lineage.made(1, 1).unwrap();
        assert_eq!(let_go(&lineage.released(1)), [2]);
    }
}
