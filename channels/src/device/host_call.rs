//! How the device wakes the host: a stream that has come to a point rings a doorbell. Nothing asks in a loop.
#![allow(unsafe_code)] // gives the driver a function to call

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::calls::Calls;
use super::error::DeviceError;
use super::handles::StreamHandle;
use crate::doorbell::Doorbell;

/// Whether a stream has come to a point.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done(Arc<AtomicBool>);

impl Done {
    pub(crate) fn has_come(&self) -> bool {
        // SYNC stream-done: pairs with the store in `rings`; what the device wrote before is there.
        self.0.load(Ordering::Acquire)
    }
}

/// What the driver hands back to `rings`.
struct Due {
    done: Done,
    bell: Doorbell,
}

/// Called by a thread of the driver's, which must not be kept waiting and may not call the driver.
unsafe extern "C" fn rings(due: *mut c_void) {
    // SAFETY: made by `Box::into_raw` in `ring_when_done` and given back once: the driver calls a function that it has
    // accepted at most once.
    let due = unsafe { Box::from_raw(due.cast::<Due>()) };
    // SYNC stream-done.
    due.done.0.store(true, Ordering::Release);
    due.bell.ring();
}

/// Has `bell` rung when `stream` has come to this point. Where the device fails before, the driver forgets the call, and a few
/// bytes with it.
pub(super) fn ring_when_done(
    calls: &Calls,
    stream: &StreamHandle,
    bell: &Doorbell,
) -> Result<Done, DeviceError> {
    let done = Done::default();
    let due = Box::into_raw(Box::new(Due {
        done: done.clone(),
        bell: bell.clone(),
    }));
    // SAFETY: the stream lives (DEV-1); `rings` takes what `due` points to, from any thread: `Due` is Send.
    let code = unsafe { (calls.functions.host_function)(stream.raw(), rings, due.cast()) };
    if let Err(error) = calls.check("cuLaunchHostFunc", code) {
        // SAFETY: the driver has refused the call, so this is still ours.
        drop(unsafe { Box::from_raw(due) });
        return Err(error);
    }
    const { assert_send::<Due>() };
    Ok(done)
}

const fn assert_send<T: Send>() {}
