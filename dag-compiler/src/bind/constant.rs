//! Constants: arguments that are the same in every execution.

use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::{AnyValue, ChannelError, Payload, PayloadType, dispose};

/// Returns a part of a tuple.
pub(crate) type PartOf = fn(&dyn Any) -> Option<&dyn Any>;

/// A constant, or a part of one that is a tuple. It stays in the process that bound it; a task there gets a copy of it,
/// and a task elsewhere gets it encoded. The argument's type knows how to do both.
#[derive(Clone)]
pub(crate) struct Constant {
    whole: Arc<Mutex<Kept>>,
    /// The way from the whole to the part, from the outside to the inside.
    parts: Vec<PartOf>,
}

/// A value of the user's, whose drop may panic.
struct Kept(Option<Box<dyn Any + Send>>);

impl Drop for Kept {
    fn drop(&mut self) {
        dispose(self.0.take());
    }
}

impl Constant {
    pub(crate) fn new<T: Payload>(value: T) -> Self {
        Constant {
            whole: Arc::new(Mutex::new(Kept(Some(Box::new(value))))),
            parts: Vec::new(),
        }
    }

    /// Returns a part of the constant.
    pub(crate) fn part(&self, part: PartOf) -> Self {
        let mut constant = self.clone();
        constant.parts.push(part);
        constant
    }

    /// Makes a lane's value of the constant.
    pub(crate) fn value(&self, payload: PayloadType) -> Result<Box<dyn AnyValue>, ChannelError> {
        self.read(|value| payload.copied(value))
    }

    /// Encodes the constant.
    pub(crate) fn encode(&self, payload: PayloadType) -> Result<Vec<u8>, ChannelError> {
        self.read(|value| payload.encode(value))
    }

    fn read<R>(&self, read: impl FnOnce(&dyn Any) -> Result<R, ChannelError>) -> Result<R, ChannelError> {
        let whole = self.whole.lock();
        let mut value: Option<&dyn Any> = match &whole.0 {
            Some(value) => Some(value.as_ref()),
            None => None,
        };
        for part in &self.parts {
            value = value.and_then(part);
        }
        value.map_or(Err(ChannelError::NoValue), read)
    }
}
