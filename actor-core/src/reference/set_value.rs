//! A value that another process has set.
//!
//! The owner does not know the type of such a value. It keeps the encoded value, and whoever fetches the value there
//! decodes it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use selvedge_channels::{Traits, Wire};

use super::content::{AnyShared, ObjectValue, decoded};
use super::handle::Handle;
use super::transit;
use crate::body::Body;
use crate::failure::Failure;

/// A value that another process has set, as it came.
pub(crate) struct SetValue {
    bytes: Bytes,
    handles: Vec<Arc<Handle>>,
    decoded: OnceLock<AnyShared>,
}

impl SetValue {
    pub(crate) fn new(bytes: Bytes, handles: Vec<Arc<Handle>>) -> Self {
        SetValue {
            bytes,
            handles,
            decoded: OnceLock::new(),
        }
    }

    /// The value as the content of an object.
    pub(crate) fn into_object(self) -> ObjectValue {
        ObjectValue::encoded_by(self, |value: &SetValue| Ok(value.encoded()))
    }

    /// The encoded value, with the references in it beside it.
    fn encoded(&self) -> Body {
        transit::beside(&self.handles);
        self.bytes.clone().into()
    }

    /// The value, if it was decoded as a `T` before.
    pub(super) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(self.decoded.get()?).downcast().ok()
    }

    /// Decodes the value as a `T`, once for all. This runs user code.
    pub(super) fn read<T: Wire>(&self) -> Result<Option<Arc<T>>, Failure> {
        if self.decoded.get().is_none() {
            let handles = self.handles.clone();
            let value: T = transit::arriving(handles, || decoded(&self.bytes, const { &Traits::LETTER }))?;
            let _ = self.decoded.set(Arc::new(value));
        }
        Ok(self.get())
    }
}
