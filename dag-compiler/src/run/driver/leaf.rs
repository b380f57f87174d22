//! Leaves: buffers that keep results until they are fetched, one per leaf of the graph's output.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use selvedge_channels::{AnyValue, ChannelError, Fault, Message, Payload, PayloadType, Value, dispose};

use crate::run::driver::books::Window;
use crate::run::report::{Cause, TaskInfo, fault_with};

/// The state of one execution in a leaf.
#[derive(Debug)]
enum Entry<T> {
    Pending,
    /// No handle wants the result any more, so it is not decoded when it arrives.
    Unwanted,
    Arrived(Message<T>),
    Gone,
}

/// The status of one execution in a leaf.
#[derive(Debug)]
pub(crate) enum Status {
    Pending,
    Value,
    Fault(Fault),
    Gone,
}

/// A leaf with its type erased.
pub(crate) trait AnyLeaf: Send {
    /// Makes room for `execution`, the next one whose result will arrive here.
    fn open(&mut self, execution: u64);
    /// Moves the message of `execution` from the lane's value into this leaf. A value that cannot be decoded becomes
    /// the failure of the task that made it.
    fn collect(
        &mut self,
        value: &mut dyn AnyValue,
        execution: u64,
        info: &TaskInfo,
    ) -> Result<(), ChannelError>;
    /// Records that the message of `execution` was taken before it reached this leaf.
    fn pass(&mut self, execution: u64);
    /// The status of `execution`.
    fn status(&self, execution: u64) -> Status;
    /// Records that no handle will take the result of `execution`.
    fn discard(&mut self, execution: u64);
    /// Moves the result of `execution`, which is finished and older than all others here, to those that are held for
    /// long.
    fn keep(&mut self, execution: u64);
    /// The number of executions with an entry.
    #[cfg(test)]
    fn entries(&self) -> usize;
    /// The leaf as `Any`, for a downcast to its type.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

#[cold]
fn wrong_type<T>(found: PayloadType) -> ChannelError {
    ChannelError::WrongType {
        expected: std::any::type_name::<T>(),
        found: found.name(),
    }
}

/// The results of one leaf that have not been fetched.
pub(crate) struct Leaf<T>(Window<Entry<T>>);

/// The largest number of results that a leaf has room for from the start; a leaf grows if more results wait.
const ROOM: usize = 64;

impl<T: Payload> Leaf<T> {
    pub(crate) fn with_capacity(executions: usize) -> Self {
        Leaf(Window::with_capacity(executions.min(ROOM)))
    }

    #[inline]
    fn trim(&mut self) {
        while matches!(self.0.oldest(), Some(Entry::Gone)) {
            self.0.pop();
        }
    }

    /// Takes the message of `execution`, once.
    #[inline]
    pub(crate) fn take(&mut self, execution: u64) -> Option<Message<T>> {
        if !matches!(self.0.get(execution)?, Entry::Arrived(_)) {
            return None;
        }
        let taken = self.0.take(execution, Entry::Gone)?;
        self.trim();
        match taken {
            Entry::Arrived(message) => Some(message),
            _ => None,
        }
    }
}

/// The message of `execution`, whatever it is: a value that cannot be decoded is a fault.
fn received<T: Payload>(
    value: &mut Value<T>,
    execution: u64,
    info: &TaskInfo,
) -> Result<Message<T>, ChannelError> {
    let cause = match catch_unwind(AssertUnwindSafe(|| value.message())) {
        Ok(Ok(message)) => return Ok(message),
        Ok(Err(error)) if error.loses_value() => Cause::Payload {
            message: error.to_string(),
        },
        Ok(Err(error)) => return Err(error),
        Err(payload) => Cause::of_panic(payload),
    };
    value.read_done()?;
    Ok(Err(fault_with(info, execution, cause)))
}

impl<T: Payload> AnyLeaf for Leaf<T> {
    fn open(&mut self, execution: u64) {
        // Executions without an entry may have run since the last one.
        self.0.skip_to(execution);
        self.0.push(Entry::Pending);
    }

    fn collect(
        &mut self,
        value: &mut dyn AnyValue,
        execution: u64,
        info: &TaskInfo,
    ) -> Result<(), ChannelError> {
        let entry = match self.0.get_mut(execution) {
            Some(entry @ Entry::Pending) => entry,
            unwanted => {
                if let Some(entry) = unwanted {
                    *entry = Entry::Gone;
                }
                self.trim();
                return value.read_done();
            }
        };
        let found = value.payload_type();
        let typed = value.typed_mut::<T>().ok_or_else(|| wrong_type::<T>(found))?;
        if let Some(value) = typed.try_take_last() {
            *entry = Entry::Arrived(Ok(value));
            return Ok(());
        }
        *entry = Entry::Arrived(received(typed, execution, info)?);
        Ok(())
    }

    fn status(&self, execution: u64) -> Status {
        match self.0.get(execution) {
            Some(Entry::Pending) => Status::Pending,
            Some(Entry::Arrived(Ok(_))) => Status::Value,
            Some(Entry::Arrived(Err(fault))) => Status::Fault(fault.clone()),
            Some(Entry::Unwanted | Entry::Gone) | None => Status::Gone,
        }
    }

    #[inline]
    fn pass(&mut self, execution: u64) {
        if let Some(entry) = self.0.get_mut(execution) {
            *entry = Entry::Gone;
        }
        self.trim();
    }

    fn discard(&mut self, execution: u64) {
        if execution < self.0.base() {
            return dispose(self.0.take(execution, Entry::Gone));
        }
        if let Some(entry) = self.0.get_mut(execution) {
            let wanted = match entry {
                Entry::Pending | Entry::Unwanted => Entry::Unwanted,
                Entry::Arrived(_) | Entry::Gone => Entry::Gone,
            };
            dispose(std::mem::replace(entry, wanted));
        }
        self.trim();
    }

    fn keep(&mut self, execution: u64) {
        if execution == self.0.base() {
            self.0.keep();
            self.trim();
        }
    }

    #[cfg(test)]
    fn entries(&self) -> usize {
        self.0.entries().count()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
