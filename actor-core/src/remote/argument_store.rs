//! Large arguments of submitted calls, which travel by reference and lie in the store.

use std::sync::Arc;

use selvedge_channels::{Encoded, Wire, encode};

use crate::failure::Failure;
use crate::reference::handle::Handle;
use crate::reference::stored_value::StoredValue;
use crate::reference::transit;
use crate::store::placed::PlacedObject;

/// The length up to which an encoded value is kept beside its reference, in bytes.
pub(crate) const INLINE_BYTES_MAX: usize = 16 << 10;

/// The form in which a store's owner keeps a value.
pub(crate) type KeptAs = fn(PlacedObject, Vec<Arc<Handle>>) -> StoredValue;

/// A large argument, its type erased.
pub(crate) struct LargeArgument<'a> {
    pub(crate) encoded: &'a Encoded<'a>,
    pub(crate) handles: Vec<Arc<Handle>>,
    pub(crate) kept: KeptAs,
}

/// The way to put an argument; `None` if the store does not take it.
type PutArgument<'a> = &'a dyn Fn(LargeArgument<'_>) -> Option<Arc<Handle>>;

/// The store as the place of large arguments: they travel by reference, and are not copied when a call runs again.
pub struct ArgumentStore<'a> {
    put: PutArgument<'a>,
    /// The bytes of fetched values that may travel along with the references in an argument.
    room: usize,
    /// The bytes of all that was put.
    pub(crate) bytes: usize,
}

impl std::fmt::Debug for ArgumentStore<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ArgumentStore({} bytes)", self.bytes)
    }
}

impl<'a> ArgumentStore<'a> {
    pub(crate) fn new(put: PutArgument<'a>, room: usize) -> Self {
        let bytes = 0;
        ArgumentStore { put, room, bytes }
    }

    /// Puts a value that is large; `None` if it is not, or if the store does not take it. This runs user code.
    pub(crate) fn put<T: Wire>(&mut self, value: &T) -> Option<Arc<Handle>> {
        // What owns no memory is as large as it looks.
        if !std::mem::needs_drop::<T>() && size_of::<T>() <= INLINE_BYTES_MAX {
            return None;
        }
        // What cannot be encoded is named by whoever encodes all arguments.
        let encode = || Failure::catch(|| encode(value).map_err(Failure::of_channel));
        let (encoded, handles) = transit::leaving_with(self.room, encode);
        let encoded = encoded.ok().filter(|it| it.len_bytes() > INLINE_BYTES_MAX)?;
        let handle = (self.put)(LargeArgument {
            encoded: &encoded,
            handles,
            kept: StoredValue::of::<T>,
        })?;
        self.bytes += encoded.len_bytes();
        Some(handle)
    }
}
