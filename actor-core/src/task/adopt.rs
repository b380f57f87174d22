//! Adoption: a pure call that runs again submits again what it has submitted before. What is known gets no second run: the new
//! object is an alias of the one that is there, so the reference count keeps that as long as somebody holds either.

use std::sync::Arc;

use selvedge_objects::refs::RefId;

use super::board::{Board, NewTask, Task, TaskArguments, TaskEffect, TaskLife};
use crate::lineage::Spec;
use crate::reference::handle::Handle;

impl Board {
    /// The call that a submission repeats.
    pub(super) fn known(&self, new: &NewTask) -> Option<u64> {
        let known = self.lineage.named(new.nested?.name)?;
        let task = self.tasks.get(&known)?;
        // The name covers both, but comes from another process.
        let is_same = task.new.function.id() == new.function.id();
        (is_same && task.new.alias.is_some() == new.alias.is_some()).then_some(known)
    }

    /// The object of the call that runs for one that was adopted: to cancel either is to cancel that.
    pub(super) fn repeated(&self, task: &Task) -> Option<RefId> {
        let known = self.lineage.named(task.new.nested?.name)?;
        Some(self.tasks.get(&known)?.new.object)
    }

    /// A call is submitted that is known.
    pub(super) fn adopt(&mut self, known: u64, mut new: NewTask, effects: &mut Vec<TaskEffect>) {
        let Some(task) = self.tasks.get_mut(&known) else {
            return effects.push(TaskEffect::Drop(Box::new(Task::new(new))));
        };
        // Held from the effect below on, so its end does not forget it.
        task.is_released = false;
        let target = task.new.object;
        let arguments = std::mem::replace(&mut new.arguments, TaskArguments::Dropped);
        effects.push(TaskEffect::DropArguments(arguments));
        effects.push(TaskEffect::DropHandles(std::mem::take(&mut new.inputs)));
        let (call, object) = (self.next_number(), new.object);
        self.objects.insert(object, call);
        self.aliases.register(object);
        let spec = Spec {
            inputs: Vec::new(),
            retries: None,
            bytes: 0,
        };
        self.lineage.submit(call, spec);
        let task = Task {
            life: TaskLife::Stands,
            ..Task::new(new)
        };
        self.tasks.insert(call, task);
        effects.push(TaskEffect::Adopt { call, object: target });
    }

    /// The object of a known call is held for the one that repeats it. If it was freed before, it has no value.
    pub(super) fn adopted(
        &mut self,
        call: u64,
        target: Arc<Handle>,
        was_freed: bool,
        effects: &mut Vec<TaskEffect>,
    ) {
        if was_freed {
            self.revive(target.id(), effects);
        }
        let task = self.tasks.get(&call);
        match task.is_some_and(|task| !task.has_ended()) {
            true => self.stands_for(call, target, effects),
            false => effects.push(TaskEffect::DropHandles(vec![target])),
        }
    }

    /// A nested call is new.
    pub(super) fn nest(&mut self, call: u64, new: &NewTask, effects: &mut Vec<TaskEffect>) {
        let Some(nested) = new.nested else { return };
        if self.lineage.nest(call, nested) {
            let object = new.object;
            effects.push(TaskEffect::HoldForOuter { call, object });
        }
    }
}
