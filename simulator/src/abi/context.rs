//! Primary contexts, and the current context of a thread.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::{c_int, c_uint};

use super::exported;
use crate::code::INVALID_CONTEXT;
use crate::ffi::Out;
use crate::{context, engine};

exported! {
    fn cuDevicePrimaryCtxRetain(to: Out<u64>, device: c_int) {
        to.set(context::retain(context::device(device)?))
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        context::release(context::device(device)?)
    }

    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        context::reset(context::device(device)?);
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) {
        context::check_flags(flags)?;
        context::set_flags(context::device(device)?, flags);
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        let (set, retained) = context::state(context::device(device)?);
        flags.set(set)?;
        active.set(c_int::from(retained))
    }

    fn cuCtxSetCurrent(context: u64) {
        context::set_current(context)
    }

    fn cuCtxGetCurrent(to: Out<u64>) {
        context::initialized()?;
        to.set(context::current())
    }

    fn cuCtxPushCurrent_v2(context: u64) {
        context::push(context)
    }

    fn cuCtxPopCurrent_v2(to: Out<u64>) {
        let popped = context::pop()?;
        to.set_if_wanted(popped);
        Ok(())
    }

    fn cuCtxGetDevice(to: Out<c_int>) {
        to.set(context::current_device()?.cast_signed())
    }

    fn cuCtxGetFlags(to: Out<c_uint>) {
        to.set(context::state(context::current_device()?).0)
    }

    fn cuCtxSetFlags(flags: c_uint) {
        context::check_flags(flags)?;
        context::set_flags(context::current_device()?, flags);
        Ok(())
    }

    fn cuCtxGetApiVersion(context: u64, to: Out<c_uint>) {
        context::device_of(context)?;
        to.set(3020)
    }

    fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        context::current_device()?;
        least.set_if_wanted(0);
        greatest.set_if_wanted(-5);
        Ok(())
    }

    fn cuCtxSynchronize() {
        let device = context::current_device()?;
        engine::handles(Some(device)).into_iter().try_for_each(engine::synchronize)
    }

    fn cuCtxEnablePeerAccess(peer: u64, _flags: c_uint) {
        context::device_of(peer).map(drop)
    }

    fn cuCtxDisablePeerAccess(peer: u64) {
        context::device_of(peer).map(drop)
    }

    fn cuCtxCreate_v4(_to: Out<u64>, _parameters: u64, _flags: c_uint, _device: c_int) {
        // Only primary contexts are simulated.
        Err(INVALID_CONTEXT)
    }
}
