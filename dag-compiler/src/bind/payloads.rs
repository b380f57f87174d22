//! The payload types of values: what their traits allow is known where a method names them.
//!
//! Code that is generic over `T`, such as an input `Edge<T>` of a graph, knows nothing of `T` but that it can be moved. The
//! entry of an actor knows the traits of the types that its methods name. So a graph's input gets its type from the first
//! task that takes it, and a part of a tuple from the method that returns the tuple. A value that no task reads gets its
//! type from any method of the graph's actors that names it.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};

use selvedge_channels::PayloadType;
use selvedge_core::{ActorRef, MethodEntry, find_extension};

use super::builder::Builder;
use crate::ir::{GraphIr, Origin, TaskIr, TraitsIr, ValueId};
use crate::load::{argument_types, carries_tensors};

impl Builder {
    /// Gives each value the most knowing form of its type, and notes the type's traits in the graph.
    pub(super) fn resolve_payloads(&mut self) {
        for value in 0..self.values.len() {
            if let Some(found) = self.named_by_maker(value) {
                self.know(value, found);
            }
        }
        for (value, found) in self.named_by_readers() {
            self.know(value.index(), found);
        }
        let is_unknown = |payload: &PayloadType| knowledge(payload) == 0;
        if self.payloads.iter().any(is_unknown) {
            let named = self.named_by_any();
            for payload in self.payloads.iter_mut().filter(|payload| is_unknown(payload)) {
                if let Some(found) = named.get(&payload.id()) {
                    *payload = *found;
                }
            }
        }
        for (value, payload) in self.values.iter_mut().zip(&self.payloads) {
            value.traits = TraitsIr {
                clone: payload.is_clone(),
                shared: payload.is_shared(),
                wire: payload.is_wire(),
                mixed: carries_tensors(payload) && payload.has_records(),
            };
        }
    }

    /// The type of a part of a tuple, as the method that returns the tuple names it.
    fn named_by_maker(&self, value: usize) -> Option<PayloadType> {
        let value = self.values.get(value)?;
        let (Some(part), Origin::Task(task)) = (value.part, value.origin) else {
            return None;
        };
        let method = self.method(self.tasks.get(task.index())?)?;
        (method.parts)().get(usize::from(part)).copied()
    }

    /// The types of values of which little is known, as the methods name them that read the values.
    fn named_by_readers(&self) -> Vec<(ValueId, PayloadType)> {
        let mut named = Vec::new();
        let unknown = |(_, value): &(u32, ValueId)| {
            let payload = self.payloads.get(value.index());
            payload.is_some_and(|payload| !payload.is_wire())
        };
        for task in &self.tasks {
            let mut reads = GraphIr::reads(task).filter(unknown).peekable();
            let Some(method) = reads.peek().and_then(|_| self.method(task)) else {
                continue;
            };
            let types = argument_types(task, method);
            named.extend(reads.filter_map(|(position, value)| {
                let found = types.get(position as usize).copied().flatten();
                Some((value, found?))
            }));
        }
        named
    }

    /// The types that the methods of the graph's actors name, each in its most knowing form, for values that no method of
    /// their makers or readers names.
    fn named_by_any(&self) -> BTreeMap<TypeId, PayloadType> {
        let mut met = BTreeSet::new();
        let entries = self.actors.iter().map(ActorRef::entry);
        let entries = entries.filter(|entry| met.insert(entry.id));
        let mut named: BTreeMap<TypeId, PayloadType> = BTreeMap::new();
        for found in entries.flat_map(|entry| entry.methods).flat_map(named_by) {
            let known = named.entry(found.id()).or_insert(found);
            if knowledge(known) < knowledge(&found) {
                *known = found;
            }
        }
        named
    }

    /// The method of a task; `None` for a rank of a collective.
    pub(super) fn method(&self, task: &TaskIr) -> Option<&'static MethodEntry> {
        if let Some(key) = &task.extension {
            return find_extension(key)?.methods.get(usize::from(task.method));
        }
        let actor = self.places.get(&task.actor)?;
        self.actors.get(*actor)?.entry().method(task.method)
    }

    /// Replaces the type of a value by a more knowing form of it.
    fn know(&mut self, value: usize, found: PayloadType) {
        if let Some(known) = self.payloads.get_mut(value)
            && *known == found
            && knowledge(known) < knowledge(&found)
        {
            *known = found;
        }
    }
}

/// The number of traits that a type is known to have.
fn knowledge(payload: &PayloadType) -> usize {
    let known = [payload.is_clone(), payload.is_shared(), payload.is_wire()];
    known.into_iter().filter(|known| *known).count()
}

/// The types that a method names.
fn named_by(method: &MethodEntry) -> Vec<PayloadType> {
    let mut named = vec![(method.result)()];
    named.extend((method.parts)());
    for param in method.params {
        named.push((param.payload)());
        named.extend(
            (param.lists)()
                .iter()
                .flat_map(|level| [level.list, level.element]),
        );
    }
    named
}
