//! The owner of a DLPack managed tensor, of either ABI version.
//!
//! - `DL-1` a capsule owns its tensor. Either the capsule calls the deleter, once, or the receiver of
//!   [`Capsule::into_raw`] does; no other code does.
//! - `DL-2` the data that the tensor describes is valid, and is not written, until the deleter has been called.
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

/// The common interface of the managed tensors of both versions.
pub(crate) trait Managed: Sized {
    fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, deleter: Deleter<Self>) -> Self;
    /// The context of its maker, and its deleter.
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

/// A tensor that is handed from one framework to another.
pub(crate) struct Capsule<M: Managed> {
    managed: NonNull<M>,
}

// SAFETY: DL-1 and DL-2: the capsule owns the tensor, and its data is only read. A deleter may be called on any thread;
// every framework that takes over tensors relies on this.
unsafe impl<M: Managed> Send for Capsule<M> {}
// SAFETY: see `Send`; a shared capsule is only read.
unsafe impl<M: Managed> Sync for Capsule<M> {}

impl<M: Managed> Drop for Capsule<M> {
    fn drop(&mut self) {
        if let (_, Some(deleter)) = self.get().ending() {
            // SAFETY: DL-1: called once, by the owner.
            unsafe { deleter(self.managed.as_ptr()) };
        }
    }
}

impl<M: Managed> Capsule<M> {
    /// Takes over a tensor that another framework hands out. Returns `None` for a null pointer.
    ///
    /// # Safety
    /// `DL-1`, `DL-2`: the tensor is valid, no other code deletes it, and its data is not written until it is deleted.
    pub(crate) unsafe fn from_raw(managed: *mut M) -> Option<Self> {
        NonNull::new(managed).map(|managed| Capsule { managed })
    }

    /// Hands the tensor out. The receiver has to call its deleter.
    pub(crate) fn into_raw(self) -> *mut M {
        let managed = self.managed.as_ptr();
        std::mem::forget(self);
        managed
    }

    /// The managed tensor itself. If it is of another ABI version, only the fields up to its flags are valid.
    pub(crate) fn get(&self) -> &M {
        // SAFETY: DL-1: owned by the capsule, and not yet deleted.
        unsafe { self.managed.as_ref() }
    }

    /// Makes a dense tensor to be handed out. `kept` is dropped when the tensor is deleted. Returns `None` for an
    /// element type unknown to DLPack.
    ///
    /// # Safety
    /// `DL-2`: `data` points to the elements of a tensor of this shape, which are not written, until `kept` is dropped.
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
        let kept = Box::into_raw(Box::new(CapsuleOwner {
            _kept: kept,
            _numbers: numbers,
        }));
        let managed = Box::new(M::new(dl_tensor, kept.cast(), delete::<M, K>));
        Some(Capsule {
            managed: NonNull::from(Box::leak(managed)),
        })
    }
}

/// The data that stays alive until a tensor that was handed out is deleted.
struct CapsuleOwner<K> {
    _kept: K,
    /// The shape, then the strides.
    _numbers: Arc<[i64]>,
}

/// The deleter of a tensor that [`Capsule::over`] has made.
///
/// # Safety
/// `managed` was made by `Capsule::over`, for the same types, and has not been deleted.
unsafe extern "C" fn delete<M: Managed, K>(managed: *mut M) {
    // SAFETY: `over` leaked this box; it is taken back once (DL-1).
    let managed = unsafe { Box::from_raw(managed) };
    let (kept, _) = managed.ending();
    // SAFETY: `over` leaked this box too, as the tensor's context; it is taken back once.
    drop(unsafe { Box::from_raw(kept.cast::<CapsuleOwner<K>>()) });
}
