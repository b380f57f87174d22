//! The bypass of a shared channel whose writer and only reader are in one process: the tensors of a long value are shared with the
//! reader where they lie, and not copied into the slot. The message in the slot is empty, as the encoding of no value is.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::payload::EncodedSegments;

/// The shortest tensors that take the bypass, in bytes altogether.
const BYPASS_MIN: usize = 1 << 20;

/// The values that were sent beside the slots of a channel, and not received yet. Clones are handles of one bypass.
#[derive(Clone)]
pub struct Bypass(Arc<Mutex<Option<Sent>>>);

/// The values by the numbers of their messages, the oldest first.
type Sent = VecDeque<(u64, EncodedSegments)>;

impl Default for Bypass {
    fn default() -> Self {
        Bypass(Arc::new(Mutex::new(Some(Sent::new()))))
    }
}

impl Bypass {
    /// Whether a value with so many bytes of shared tensors takes the bypass.
    pub(super) fn is_for(shared_bytes: usize) -> bool {
        shared_bytes >= BYPASS_MIN
    }

    /// Puts the value of a message, before the message is published. A closed bypass drops it.
    pub(super) fn put(&self, number: u64, value: EncodedSegments) {
        if let Some(sent) = &mut *self.0.lock() {
            sent.push_back((number, value));
        }
    }

    /// The number of bytes of the next value, if it is that of this message.
    pub fn len_of(&self, number: u64) -> Option<usize> {
        let sent = self.0.lock();
        let (_, value) = sent.as_ref()?.front().filter(|(first, _)| *first == number)?;
        Some(value.iter().map(|segment| segment.as_ref().len()).sum())
    }

    /// Takes the value of a message, if it is here. Values of messages before it are dropped.
    pub fn take(&self, number: u64) -> Option<EncodedSegments> {
        let mut passed = Vec::new();
        if let Some(sent) = &mut *self.0.lock() {
            while let Some(first) = sent.pop_front_if(|(first, _)| *first <= number) {
                passed.push(first);
            }
        }
        let found = passed.pop_if(|(found, _)| *found == number);
        found.map(|(_, value)| value)
    }

    /// Drops all values, and those that are still to come: nobody receives any more.
    pub fn close(&self) {
        let sent = self.0.lock().take();
        drop(sent);
    }
}
