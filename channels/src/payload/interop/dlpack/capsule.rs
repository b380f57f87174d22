//! The owner of a managed tensor, of either ABI version.
//!
//! - `DL-1` a capsule owns its tensor: it calls its deleter once, or who has it from [`Capsule::into_raw`]; nobody else does.
//! - `DL-2` what it describes is valid, and nobody writes it, until the deleter has been called.
#![allow(unsafe_code)] // a C interface

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use super::code_of;
use super::raw::{
    DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, MAJOR, READ_ONLY,
};
use crate::payload::element::DType;
use crate::payload::layout::dense_strides;

type Deleter<M> = unsafe extern "C" fn(*mut M);

/// What the managed tensors of both versions have.
pub(crate) trait Managed: Sized {
    fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, deleter: Deleter<Self>) -> Self;
    /// Its maker's context, and its deleter.
    fn ending(&self) -> (*mut c_void, Option<Deleter<Self>>);
}

impl Managed for DLManagedTensor {
    fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, deleter: Deleter<Self>) -> Self {
        DLManagedTensor {
            dl_tensor,
            manager_ctx,
            deleter: Some(deleter),
        }
    }

    fn ending(&self) -> (*mut c_void, Option<Deleter<Self>>) {
        (self.manager_ctx, self.deleter)
    }
}

impl Managed for DLManagedTensorVersioned {
    fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, deleter: Deleter<Self>) -> Self {
        let (major, minor) = (MAJOR, 0);
        DLManagedTensorVersioned {
            version: DLPackVersion { major, minor },
            manager_ctx,
            deleter: Some(deleter),
            flags: READ_ONLY,
            dl_tensor,
        }
    }

    fn ending(&self) -> (*mut c_void, Option<Deleter<Self>>) {
        (self.manager_ctx, self.deleter)
    }
}

/// A tensor on its way from one framework to another.
pub(crate) struct Capsule<M: Managed> {
    managed: NonNull<M>,
}

// SAFETY: DL-1 and DL-2: it is owned, and what it describes is only read; a deleter may be called on any thread, as every
// framework that takes tensors over relies on.
unsafe impl<M: Managed> Send for Capsule<M> {}
// SAFETY: as for `Send`; shared, it is only read.
unsafe impl<M: Managed> Sync for Capsule<M> {}

impl<M: Managed> Drop for Capsule<M> {
    fn drop(&mut self) {
        if let (_, Some(deleter)) = self.get().ending() {
            // SAFETY: DL-1: called once, by its owner.
            unsafe { deleter(self.managed.as_ptr()) };
        }
    }
}

impl<M: Managed> Capsule<M> {
    /// Takes over what another framework hands out. `None` of a null pointer.
    ///
    /// # Safety
    /// `DL-1`, `DL-2`: it is valid, nobody else deletes it, and nobody writes its data until it is deleted.
    pub(crate) unsafe fn from_raw(managed: *mut M) -> Option<Self> {
        NonNull::new(managed).map(|managed| Capsule { managed })
    }

    /// Hands it out; its deleter is the receiver's to call.
    pub(crate) fn into_raw(self) -> *mut M {
        let managed = self.managed.as_ptr();
        std::mem::forget(self);
        managed
    }

    /// The structure itself. Of another version it is true no further than to its flags.
    pub(crate) fn get(&self) -> &M {
        // SAFETY: DL-1: ours, and alive.
        unsafe { self.managed.as_ref() }
    }

    /// A dense tensor of ours, to be handed out; `kept` is dropped when it is deleted. `None` of elements unknown to DLPack.
    ///
    /// # Safety
    /// `DL-2`: so many elements are at `data`, and nobody writes them, until `kept` is dropped.
    pub(crate) unsafe fn over<K: Send + 'static>(
        device: DLDevice,
        data: *mut c_void,
        dtype: DType,
        shape: &[usize],
        kept: K,
    ) -> Option<Self> {
        let dtype = code_of(dtype)?;
        let strides = dense_strides(shape);
        let numbers = shape.iter().chain(&strides);
        let numbers: Arc<[i64]> = numbers
            .map(|number| i64::try_from(*number).unwrap_or(i64::MAX))
            .collect();
        let first = numbers.as_ptr().cast_mut();
        let dl_tensor = DLTensor {
            data,
            device,
            ndim: i32::try_from(shape.len()).unwrap_or(i32::MAX),
            dtype,
            shape: first,
            strides: first.wrapping_add(shape.len()),
            byte_offset: 0,
        };
        let kept = Box::into_raw(Box::new(Kept {
            _kept: kept,
            _numbers: numbers,
        }));
        let managed = Box::new(M::new(dl_tensor, kept.cast(), delete::<M, K>));
        Some(Capsule {
            managed: NonNull::from(Box::leak(managed)),
        })
    }
}

/// What stays until a tensor that went out is deleted.
struct Kept<K> {
    _kept: K,
    /// Its shape, then its strides.
    _numbers: Arc<[i64]>,
}

/// The deleter of what [`Capsule::over`] has made.
///
/// # Safety
/// `managed` is of `Capsule::over`, for the same types, and has not been deleted.
unsafe extern "C" fn delete<M: Managed, K>(managed: *mut M) {
    // SAFETY: the box that `over` leaked, given back once (DL-1).
    let managed = unsafe { Box::from_raw(managed) };
    let (kept, _) = managed.ending();
    // SAFETY: as above: what `over` put beside it.
    drop(unsafe { Box::from_raw(kept.cast::<Kept<K>>()) });
}
