//! Where a result waits until it is fetched: one buffer per leaf of the graph's output.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use selvedge_channels::{AnyValue, ChannelError, Fault, Message, Value, Wire, dispose};
use selvedge_core::panic_message;

use crate::run::report::{Cause, TaskInfo, fault_with};

/// What a leaf knows of one execution.
#[derive(Debug)]
enum Entry<T> {
    Pending,
    /// Nobody wants it any more: not to be decoded when it comes.
    Unwanted,
    Arrived(Message<T>),
    Gone,
}

/// A leaf's state for one execution.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    Pending,
    Value,
    Fault(Fault),
    Gone,
}

/// A leaf with its type erased.
pub(crate) trait AnyLeaf: Send {
    /// Makes room for the next execution.
    fn open(&mut self);
    /// Moves the message of `execution` from the lane's value into this leaf. What cannot be decoded is the failure
    /// of the task that made it.
    fn collect(
        &mut self,
        value: &mut dyn AnyValue,
        execution: u64,
        info: &TaskInfo,
    ) -> Result<(), ChannelError>;
    /// What is known of `execution`.
    fn status(&self, execution: u64) -> Status;
    /// Says that nobody will take the result of `execution`.
    fn discard(&mut self, execution: u64);
    /// The typed leaf.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// The results of one leaf that have not been fetched, by number of execution.
pub(crate) struct Leaf<T> {
    base: u64,
    entries: VecDeque<Entry<T>>,
}

impl<T: Wire> Leaf<T> {
    pub(crate) fn with_capacity(executions: usize) -> Self {
        Leaf {
            base: 0,
            entries: VecDeque::with_capacity(executions),
        }
    }

    fn entry(&mut self, execution: u64) -> Option<&mut Entry<T>> {
        let index = usize::try_from(execution.checked_sub(self.base)?).ok()?;
        self.entries.get_mut(index)
    }

    fn trim(&mut self) {
        while matches!(self.entries.front(), Some(Entry::Gone)) {
            self.entries.pop_front();
            self.base += 1;
        }
    }

    /// The message of `execution`, once.
    pub(crate) fn take(&mut self, execution: u64) -> Option<Message<T>> {
        let entry = self.entry(execution)?;
        if !matches!(entry, Entry::Arrived(_)) {
            return None;
        }
        let taken = std::mem::replace(entry, Entry::Gone);
        self.trim();
        match taken {
            Entry::Arrived(message) => Some(message),
            _ => None,
        }
    }
}

impl<T: Wire> AnyLeaf for Leaf<T> {
    fn open(&mut self) {
        self.entries.push_back(Entry::Pending);
    }

    fn collect(
        &mut self,
        value: &mut dyn AnyValue,
        execution: u64,
        info: &TaskInfo,
    ) -> Result<(), ChannelError> {
        let Some(Entry::Pending) = self.entry(execution) else {
            if let Some(entry) = self.entry(execution) {
                *entry = Entry::Gone;
            }
            self.trim();
            return value.read_done();
        };
        let expected = std::any::type_name::<T>();
        let found = value.payload_type().name();
        let typed = value.as_any_mut().downcast_mut::<Value<T>>();
        let Some(typed) = typed else {
            return Err(ChannelError::WrongType { expected, found });
        };
        let cause = match catch_unwind(AssertUnwindSafe(|| typed.message())) {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(ChannelError::Decode(error))) => Err(Cause::Payload {
                message: error.to_string(),
            }),
            Ok(Err(error)) => return Err(error),
            Err(payload) => Err(Cause::Panic {
                message: panic_message(payload.as_ref()),
            }),
        };
        let message = match cause {
            Ok(message) => message,
            Err(cause) => {
                typed.read_done()?;
                Err(fault_with(info, execution, cause, None))
            }
        };
        if let Some(entry) = self.entry(execution) {
            *entry = Entry::Arrived(message);
        }
        Ok(())
    }

    fn status(&self, execution: u64) -> Status {
        let index = execution
            .checked_sub(self.base)
            .and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.entries.get(index)) {
            Some(Entry::Pending) => Status::Pending,
            Some(Entry::Arrived(Ok(_))) => Status::Value,
            Some(Entry::Arrived(Err(fault))) => Status::Fault(fault.clone()),
            Some(Entry::Unwanted | Entry::Gone) | None => Status::Gone,
        }
    }

    fn discard(&mut self, execution: u64) {
        if let Some(entry) = self.entry(execution) {
            let wanted = match entry {
                Entry::Pending | Entry::Unwanted => Entry::Unwanted,
                Entry::Arrived(_) | Entry::Gone => Entry::Gone,
            };
            dispose(std::mem::replace(entry, wanted));
        }
        self.trim();
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
