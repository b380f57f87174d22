//! Transit: how references leave and enter encoded values.
//!
//! An encoded value holds, for each reference in it, an index. The references themselves travel beside the value, in the
//! head of the frame: so they are counted on arrival, whether or not the value is ever decoded. A short value that was
//! fetched by way of a reference travels along with it, behind the index.

use std::sync::Arc;

use bytes::Bytes;
use selvedge_channels::{Scope, ScopePlace, is_trial, note_record};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::handle::Handle;

/// The number of bytes of fetched values that travel along with the references of one message.
pub(crate) const CARRIED_BYTES_MAX: usize = 16 * 1024;

/// The references beside an encoded value, in the order of their indices.
#[derive(Debug, Default)]
pub struct Beside(pub(crate) Vec<Arc<Handle>>);

/// The value that this thread encodes or decodes for another process.
enum Transit {
    Leaving(Departure),
    /// The references that came beside the value.
    Arriving(Vec<Arc<Handle>>),
}

/// A value that is encoded.
struct Departure {
    /// The references that were encoded so far.
    handles: Vec<Arc<Handle>>,
    /// For each of them, whether its value travels along.
    is_carried: Vec<bool>,
    /// The number of bytes of values that may still travel along.
    room: usize,
    /// The indices of references that were read back, and are written once more for a comparison: a value that is encoded
    /// by name is read back.
    read_back: Vec<usize>,
}

impl Departure {
    /// The index of a reference, and whether its value travels along.
    fn index(&mut self, handle: &Arc<Handle>) -> Option<(u32, bool)> {
        let is_it = |index: &usize| self.handles.get(*index).is_some_and(|it| Arc::ptr_eq(it, handle));
        if let Some(place) = self.read_back.iter().position(is_it) {
            let index = self.read_back.remove(place);
            return Some((u32::try_from(index).ok()?, *self.is_carried.get(index)?));
        }
        let index = u32::try_from(self.handles.len()).ok()?;
        let carried = handle.encoded().map(Bytes::len).filter(|len| *len <= self.room);
        self.room -= carried.unwrap_or(0);
        self.handles.push(Arc::clone(handle));
        self.is_carried.push(carried.is_some());
        Some((index, carried.is_some()))
    }
}

thread_local! {
    static TRANSIT: ScopePlace<Transit> = const { ScopePlace::new() };
}

/// Encodes something for another process. Returns the references in it as well, in the order of their indices.
pub(crate) fn leaving<R>(encode: impl FnOnce() -> R) -> (R, Vec<Arc<Handle>>) {
    leaving_with(CARRIED_BYTES_MAX, encode)
}

/// Encodes something for another process. Of the values that were fetched, at most so many bytes travel along.
pub(crate) fn leaving_with<R>(room: usize, encode: impl FnOnce() -> R) -> (R, Vec<Arc<Handle>>) {
    let departure = Departure {
        handles: Vec::new(),
        is_carried: Vec::new(),
        room,
        read_back: Vec::new(),
    };
    let scope = Scope::open(&TRANSIT, Transit::Leaving(departure));
    let encoded = encode();
    match scope.close() {
        Some(Transit::Leaving(departure)) => (encoded, departure.handles),
        _ => (encoded, Vec::new()),
    }
}

/// Puts these references beside the value that this thread encodes, which holds their indices already.
pub(super) fn beside(references: &[Arc<Handle>]) {
    ScopePlace::look(&TRANSIT, |transit| {
        if let Some(Transit::Leaving(departure)) = transit {
            departure.handles.extend(references.iter().cloned());
            departure.is_carried.resize(departure.handles.len(), false);
        }
    });
}

/// Decodes something from another process, beside which these references came.
pub(crate) fn arriving<R>(handles: Vec<Arc<Handle>>, decode: impl FnOnce() -> R) -> R {
    let scope = Scope::open(&TRANSIT, Transit::Arriving(handles));
    let decoded = decode();
    drop(scope.close());
    decoded
}

/// Writes the index of a reference, and its value if that travels along.
pub(crate) fn serialize<S: Serializer>(handle: &Arc<Handle>, serializer: S) -> Result<S::Ok, S::Error> {
    let passed = ScopePlace::look(&TRANSIT, |transit| match transit {
        Some(Transit::Leaving(departure)) => departure.index(handle),
        _ => None,
    });
    match passed {
        Some((index, is_carried)) => {
            let carried = handle.encoded().filter(|_| is_carried);
            (index, carried.map(Bytes::as_ref)).serialize(serializer)
        }
        None => Err(S::Error::custom(format!(
            "{} is valid only inside the running processes: pass it along an edge of a graph, in a value without device tensors, \
             or as an argument or a result of a remote function, or encode the value that it refers to",
            handle.id()
        ))),
    }
}

/// Reads the index of a reference, and the value that has come along.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Handle>, D::Error> {
    let (index, carried) = <(u32, Option<Vec<u8>>)>::deserialize(deserializer)?;
    if is_trial() {
        note_record();
        return Ok(Handle::made_up());
    }
    let place = index as usize;
    let handle = ScopePlace::look(&TRANSIT, |transit| {
        let handle = match transit {
            Some(Transit::Arriving(handles)) => handles.get(place),
            Some(Transit::Leaving(departure)) => {
                departure.read_back.push(place);
                departure.handles.get(place)
            }
            None => {
                return Err(D::Error::custom(
                    "a reference is valid only inside the running processes: there is none beside this value",
                ));
            }
        };
        let handle = handle.cloned();
        handle.ok_or_else(|| D::Error::custom(format!("there is no reference {index} beside this value")))
    })?;
    if let Some(value) = carried.filter(|value| value.len() <= CARRIED_BYTES_MAX) {
        handle.keep_encoded(value.into());
    }
    Ok(handle)
}
