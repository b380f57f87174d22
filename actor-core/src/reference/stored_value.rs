//! A value of this process that lies in a store: that of its host, or of another one.
//!
//! The store has the encoded value, and the references in it are held here, beside it: where the bytes are moved or evicted they
//! need no change. Whoever fetches the value decodes it, with views of the store; the value is kept for others only as long as somebody
//! has it, so that the store may evict the bytes.

use std::sync::Arc;

use bytes::Bytes;
use selvedge_channels::{Traits, Wire};
use selvedge_objects::store::StoreError;

use super::content::{AnyShared, ObjectValue, decoded};
use super::handle::Handle;
use super::transit;
use super::view::View;
use crate::failure::Failure;
use crate::promise::Answer;
use crate::store::placed::PlacedObject;

/// Decodes a value of the type that the function knows.
type Decode = fn(&Bytes, Vec<Arc<Handle>>) -> Result<AnyShared, Failure>;

/// A value in a store.
pub(crate) struct StoredValue {
    object: PlacedObject,
    handles: Vec<Arc<Handle>>,
    /// The way to decode the value, if it was put by this process, which knows the type.
    decode: Option<Decode>,
    /// The value that was fetched last, for as long as somebody has it.
    view: View,
}

fn decode_as<T: Wire>(bytes: &Bytes, handles: Vec<Arc<Handle>>) -> Result<AnyShared, Failure> {
    let value: T = transit::arriving(handles, || decoded(bytes, const { &Traits::LETTER }))?;
    Ok(Arc::new(value))
}

impl StoredValue {
    /// A value that this process has put.
    pub(crate) fn of<T: Wire>(object: PlacedObject, handles: Vec<Arc<Handle>>) -> Self {
        StoredValue {
            object,
            handles,
            decode: Some(decode_as::<T>),
            view: View::default(),
        }
    }

    /// A value that another process has made.
    pub(crate) fn untyped(object: PlacedObject, handles: Vec<Arc<Handle>>) -> Self {
        StoredValue {
            object,
            handles,
            decode: None,
            view: View::default(),
        }
    }

    /// The value as the content of an object.
    pub(crate) fn into_object(self) -> ObjectValue {
        ObjectValue::encoded_by(self, |_: &StoredValue| {
            let text = "a stored value is sent from the store".to_owned();
            Err(Failure::Internal(text))
        })
    }

    /// The value, if somebody has it.
    pub(super) fn fetched(&self) -> Option<AnyShared> {
        self.view.get()
    }

    /// Asks for the bytes.
    pub(super) fn open(&self) -> Answer<Result<Bytes, StoreError>> {
        self.object.open()
    }

    /// Decodes the value as a `T`, or takes the one that somebody has. This runs user code.
    pub(super) fn read<T: Wire>(&self, bytes: &Bytes) -> Result<AnyShared, Failure> {
        let value = decode_as::<T>(bytes, self.handles.clone())?;
        Ok(self.view.keep(value))
    }

    /// Decodes the value as what was put; `None` if another process has put it. This runs user code.
    pub(super) fn read_as_put(&self, bytes: &Bytes) -> Option<AnyShared> {
        let value = self.decode?(bytes, self.handles.clone()).ok()?;
        Some(self.view.keep(value))
    }

    /// The object in the store.
    pub(super) fn object(&self) -> &PlacedObject {
        &self.object
    }

    /// The references in the value.
    pub(super) fn handles(&self) -> &[Arc<Handle>] {
        &self.handles
    }
}
