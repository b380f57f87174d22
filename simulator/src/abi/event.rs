//! Events.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::c_uint;

use super::exported;
use crate::context;
use crate::event;
use crate::ffi::Out;

exported! {
    fn cuEventCreate(to: Out<u64>, flags: c_uint) {
        context::current_device()?;
        to.set(event::create(flags)?)
    }

    fn cuEventRecord(event: u64, stream: u64) {
        event::record(event, context::stream(stream)?)
    }

    fn cuEventQuery(event: u64) {
        context::initialized()?;
        event::query(event)
    }

    fn cuEventSynchronize(event: u64) {
        context::initialized()?;
        event::synchronize(event)
    }

    fn cuEventDestroy_v2(event: u64) {
        event::destroy(event)
    }
}
