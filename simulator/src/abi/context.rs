//! Primary contexts, and the current context of a thread.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::c_int;

use super::exported;
use crate::ffi::Out;
use crate::{context, engine};

exported! {
    fn cuDevicePrimaryCtxRetain(to: Out<u64>, device: c_int) {
        to.set(context::retain(context::device(device)?))
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        context::release(context::device(device)?)
    }

    fn cuCtxSetCurrent(context: u64) {
        context::set_current(context)
    }

    fn cuCtxGetCurrent(to: Out<u64>) {
        context::initialized()?;
        to.set(context::current())
    }

    fn cuCtxSynchronize() {
        let device = context::current_device()?;
        engine::handles(device).into_iter().try_for_each(engine::synchronize)
    }
}
