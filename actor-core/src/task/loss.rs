//! Losses: the last copy of a value is lost, and its call runs again, or cannot.

use std::sync::Arc;

use selvedge_objects::refs::RefId;

use super::board::{Board, KeptReference, TaskArguments, TaskEffect, TaskLife};
use crate::failure::Failure;
use crate::lineage::{Loss, Lost};
use crate::reference::content::{LostCopy, ObjectValue};
use crate::reference::handle::Handle;
use crate::remote::request::EncodedArguments;

impl Board {
    /// The last copy of an object's value is lost: its call runs again, or says why it cannot.
    pub(super) fn value_lost(
        &mut self,
        object: RefId,
        value: ObjectValue,
        copy: LostCopy,
        effects: &mut Vec<TaskEffect>,
    ) {
        let Some((call, task)) = self.of_object(object) else {
            let failure = Failure::from(Lost::Put { why: copy.why });
            effects.push(TaskEffect::Fill(object, Err(Arc::new(failure))));
            return effects.push(TaskEffect::DropContent(Ok(value)));
        };
        if !task.has_ended() {
            // Its call is about to give it another one.
            return effects.push(TaskEffect::DropContent(Ok(value)));
        }
        if let Some(target) = &task.target {
            let target = Arc::clone(target);
            task.life = TaskLife::Stands;
            let until = task.begin_wait();
            effects.push(TaskEffect::Lose(target.id(), value, copy));
            effects.push(TaskEffect::Follow(call, target, until));
            let steps = self.lineage.follows(call);
            return self.perform(steps, effects);
        }
        task.life = TaskLife::Queued;
        effects.push(TaskEffect::DropContent(Ok(value)));
        let steps = self.lineage.lost(call, copy.is_dropped);
        self.perform(steps, effects);
        let task = self.tasks.get_mut(&call);
        let is_idle = !self.lineage.is_pending(call);
        if let Some(task) = task.filter(|task| is_idle && matches!(task.life, TaskLife::Queued)) {
            // Nobody needs the value.
            task.life = TaskLife::Ended { is_failed: false };
        }
    }

    /// A value will not be made, or not be made again.
    pub(super) fn give_up(&mut self, call: u64, why: Lost, effects: &mut Vec<TaskEffect>) {
        let Some(task) = self.tasks.get_mut(&call) else {
            return;
        };
        // Also if it has had a value.
        if task.has_ended() {
            task.life = TaskLife::Queued;
        }
        let why = match (why, task.new.pinned) {
            (Lost::NotPure { loss: Loss::Value }, Some(process)) => {
                let loss = Loss::Value;
                Lost::Pinned { process, loss }
            }
            (why, _) => why,
        };
        let content = self.lost(call, why);
        self.finish(call, content, effects);
    }

    /// Has a call run again.
    pub(super) fn run_again(&mut self, call: u64, missing: usize, effects: &mut Vec<TaskEffect>) {
        let Some(task) = self.tasks.get_mut(&call) else {
            return;
        };
        task.life = TaskLife::Queued;
        match task.new.arguments {
            TaskArguments::Kept { .. } => effects.push(TaskEffect::Prepare(call)),
            TaskArguments::Dropped => {
                let text = "a call whose arguments were dropped is to run again".to_owned();
                self.finish(call, Err(Arc::new(Failure::Internal(text))), effects);
            }
            TaskArguments::Here(_) | TaskArguments::Encoded(_) => self.enqueue(call, missing, effects),
        }
    }

    fn enqueue(&mut self, call: u64, missing: usize, effects: &mut Vec<TaskEffect>) {
        let Some(task) = self.tasks.get(&call) else { return };
        let needs = task.new.options.needs.clone();
        if self.scheduler.submit(call, needs, missing).is_err() {
            self.infeasible(vec![call], effects);
        }
    }

    /// An object that was freed is held again.
    pub(super) fn revive(&mut self, object: RefId, effects: &mut Vec<TaskEffect>) {
        let Some(call) = self.objects.get(&object).copied() else {
            let failure = Failure::Internal("the call of an argument was forgotten".to_owned());
            return effects.push(TaskEffect::Fill(object, Err(Arc::new(failure))));
        };
        if let Some(task) = self.tasks.get_mut(&call) {
            task.is_released = false;
        }
        let steps = self.lineage.revived(call);
        self.perform(steps, effects);
    }

    /// The references in the arguments of a call that is to run again are held.
    pub(super) fn prepared(
        &mut self,
        call: u64,
        handles: Vec<Arc<Handle>>,
        revived: &[RefId],
        effects: &mut Vec<TaskEffect>,
    ) {
        for object in revived {
            self.revive(*object, effects);
        }
        let task = self.tasks.get_mut(&call);
        let task = task.filter(|task| matches!(task.life, TaskLife::Queued));
        let Some(task) = task else {
            return effects.push(TaskEffect::DropHandles(handles));
        };
        let arguments = std::mem::replace(&mut task.new.arguments, TaskArguments::Dropped);
        let TaskArguments::Kept { body, references } = arguments else {
            task.new.arguments = arguments;
            return effects.push(TaskEffect::DropHandles(handles));
        };
        let again = references.iter().zip(&handles);
        let named = again.filter(|(kept, _)| matches!(kept, KeptReference::Named(_)));
        task.new.inputs = named.map(|(_, handle)| Arc::clone(handle)).collect();
        task.new.arguments = TaskArguments::Encoded(EncodedArguments { body, handles });
        let missing = self.lineage.missing(call);
        self.enqueue(call, missing, effects);
    }

    /// Keeps the arguments of a call that has ended and may run again. Inputs that may be made again as well are not held.
    pub(super) fn keep_arguments(
        &mut self,
        call: u64,
        arguments: TaskArguments,
        inputs: &[Arc<Handle>],
        effects: &mut Vec<TaskEffect>,
    ) {
        let TaskArguments::Encoded(EncodedArguments { body, handles }) = arguments else {
            return effects.push(TaskEffect::DropArguments(arguments));
        };
        let is_named = |id: RefId| {
            let known = self.objects.get(&id).copied();
            let is_alias = |call: u64| {
                let task = self.tasks.get(&call);
                task.is_none_or(|task| task.target.is_some())
            };
            let is_input = inputs.iter().any(|input| input.id() == id);
            is_input && known.is_some_and(|known| self.lineage.is_remakeable(known) && !is_alias(known))
        };
        let mut dropped = Vec::new();
        let mut references = Vec::with_capacity(handles.len());
        for handle in handles {
            references.push(match is_named(handle.id()) {
                true => {
                    let named = KeptReference::Named(handle.id());
                    dropped.push(handle);
                    named
                }
                false => KeptReference::Held(handle),
            });
        }
        effects.push(TaskEffect::DropHandles(dropped));
        if let Some(task) = self.tasks.get_mut(&call) {
            task.new.arguments = TaskArguments::Kept { body, references };
        }
    }

    /// The specs of calls take too much: the call will not run again.
    pub(super) fn drop_arguments(&mut self, call: u64, effects: &mut Vec<TaskEffect>) {
        if let Some(task) = self.tasks.get_mut(&call) {
            let arguments = std::mem::replace(&mut task.new.arguments, TaskArguments::Dropped);
            effects.push(TaskEffect::DropArguments(arguments));
            effects.push(TaskEffect::Remakeable(task.new.object, false));
        }
    }

    /// An input of a call is lost. If the call was sent already, it comes back, unless its function has begun: it would keep what it needs
    /// from the call that makes the input.
    pub(super) fn input_lost(&mut self, call: u64, effects: &mut Vec<TaskEffect>) {
        self.scheduler.input_lost(call);
        let task = self.tasks.get_mut(&call);
        let Some(task) = task.filter(|task| task.new.pinned.is_none()) else {
            return;
        };
        if let TaskLife::Runs { post, is_withdrawn } = &mut task.life {
            *is_withdrawn = true;
            effects.push(TaskEffect::Withdraw(post.clone()));
        }
    }

    /// Whether an input of a call that is about to be sent was lost meanwhile: then it waits for that one.
    pub(super) fn awaits_inputs(&mut self, call: u64) -> bool {
        let missing = self.lineage.missing(call);
        let task = self.tasks.get(&call);
        let Some(task) = task.filter(|task| missing > 0 && task.new.pinned.is_none()) else {
            return false;
        };
        let needs = task.new.options.needs.clone();
        self.scheduler.end(call);
        self.scheduler.submit(call, needs, missing).is_ok()
    }
}
