//! Transit: how references leave and enter encoded values.
//!
//! An encoded value holds, for each reference in it, an index. The references themselves travel beside the value, in the
//! head of the frame: so they are counted on arrival, whether or not the value is ever decoded. A short value that was
//! fetched by way of a reference travels along with it, behind the index.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use selvedge_channels::{Scope, is_trial};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::handle::Handle;

/// The number of bytes of fetched values that travel along with the references of one message.
pub(super) const CARRIED_BYTES_MAX: usize = 16 * 1024;

/// The references beside an encoded value, in the order of their indices.
#[derive(Debug, Default)]
pub struct Beside(pub(crate) Vec<Arc<Handle>>);

/// The value that this thread encodes or decodes for another process.
enum Transit {
    /// The references that were encoded so far, and the number of bytes of values that may still travel along.
    Leaving(Vec<Arc<Handle>>, usize),
    /// The references that came beside the value.
    Arriving(Vec<Arc<Handle>>),
}

thread_local! {
    static TRANSIT: RefCell<Option<Transit>> = const { RefCell::new(None) };
}

/// Encodes something for another process. Returns the references in it as well, in the order of their indices.
pub(crate) fn leaving<R>(encode: impl FnOnce() -> R) -> (R, Vec<Arc<Handle>>) {
    let scope = Scope::open(&TRANSIT, Transit::Leaving(Vec::new(), CARRIED_BYTES_MAX));
    let encoded = encode();
    match scope.close() {
        Some(Transit::Leaving(handles, _)) => (encoded, handles),
        _ => (encoded, Vec::new()),
    }
}

/// Puts these references beside the value that this thread encodes, which holds their indices already.
pub(super) fn beside(references: &[Arc<Handle>]) {
    TRANSIT.with_borrow_mut(|transit| {
        if let Some(Transit::Leaving(handles, _)) = transit {
            handles.extend(references.iter().cloned());
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
    let passed = TRANSIT.with_borrow_mut(|transit| match transit {
        Some(Transit::Leaving(handles, room)) => {
            let index = u32::try_from(handles.len()).ok()?;
            handles.push(Arc::clone(handle));
            let carried = handle.encoded().filter(|value| value.len() <= *room);
            *room -= carried.map_or(0, Bytes::len);
            Some((index, carried.map(Bytes::as_ref)))
        }
        _ => None,
    });
    match passed {
        Some(passed) => passed.serialize(serializer),
        None => Err(S::Error::custom(format!(
            "{} is valid only inside the running processes: pass it as an argument or a result, or encode the value that it refers to",
            handle.id()
        ))),
    }
}

/// Reads the index of a reference, and the value that has come along.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Handle>, D::Error> {
    let (index, carried) = <(u32, Option<Vec<u8>>)>::deserialize(deserializer)?;
    if is_trial() {
        return Ok(Handle::made_up());
    }
    let handle = TRANSIT.with_borrow(|transit| match transit {
        // While a value is encoded, it may be read back.
        Some(Transit::Arriving(handles) | Transit::Leaving(handles, _)) => {
            let handle = handles.get(index as usize).cloned();
            handle.ok_or_else(|| D::Error::custom(format!("there is no reference {index} beside this value")))
        }
        None => Err(D::Error::custom(
            "a reference is valid only inside the running processes: there is none beside this value",
        )),
    })?;
    if let Some(value) = carried.filter(|value| value.len() <= CARRIED_BYTES_MAX) {
        handle.keep_encoded(value.into());
    }
    Ok(handle)
}
