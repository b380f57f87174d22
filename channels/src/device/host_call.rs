//! Wake-ups of the host by the device: a stream rings a doorbell when it reaches a point. The host does not poll.
#![allow(unsafe_code)] // passes a function to the driver

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::calls::Calls;
use super::error::DeviceError;
use super::handles::StreamHandle;
use crate::wait::doorbell::Doorbell;

/// A flag that tells whether a stream has reached a point.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done(Arc<AtomicBool>);

impl Done {
    pub(crate) fn has_come(&self) -> bool {
        // SYNC stream-done: pairs with the store in `rings`, so the writes that the device made before are visible.
        self.0.load(Ordering::Acquire)
    }
}

/// The argument that the driver passes to `rings`.
struct CallbackData {
    done: Done,
    bell: Doorbell,
}

/// The callback. A thread of the driver calls it; the callback must not block and must not call the driver.
unsafe extern "C" fn rings(due: *mut c_void) {
    // SAFETY: `ring_when_done` made the pointer with `Box::into_raw`. It is turned back into a box once: the driver
    // calls an accepted function at most once.
    let due = unsafe { Box::from_raw(due.cast::<CallbackData>()) };
    // SYNC stream-done: pairs with the load in `Done::has_come`.
    due.done.0.store(true, Ordering::Release);
    due.bell.ring();
}

/// Rings `bell` when `stream` reaches this point. If the device fails before, the driver never makes the call, and the
/// few bytes of its argument leak.
pub(super) fn ring_when_done(
    calls: &Calls,
    stream: &StreamHandle,
    bell: &Doorbell,
) -> Result<Done, DeviceError> {
    let done = Done::default();
    let due = Box::into_raw(Box::new(CallbackData {
        done: done.clone(),
        bell: bell.clone(),
    }));
    // SAFETY: the stream lives (DEV-1). `rings` takes ownership of the value behind `due` and may run on any thread,
    // since `CallbackData` is Send.
    if let Err(failed) = unsafe { calls.cuLaunchHostFunc(stream.raw(), Some(rings), due.cast()) } {
        // SAFETY: the driver has refused the call, so the box still belongs to this function.
        drop(unsafe { Box::from_raw(due) });
        return Err(failed.into());
    }
    const { assert_send::<CallbackData>() };
    Ok(done)
}

const fn assert_send<T: Send>() {}
