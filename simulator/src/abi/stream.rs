//! Streams.
#![allow(unsafe_code)] // exports functions by name, and calls a C caller's function

use std::ffi::{c_int, c_uint, c_void};

use super::exported;
use crate::code::{INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::context;
use crate::engine::{self, Manner, Operation};
use crate::event;
use crate::ffi::Out;
use crate::host;
use crate::words;

/// The argument of a host function.
struct Argument(*mut c_void);

// SAFETY: the C caller promises that its function may be called with this argument from another thread.
unsafe impl Send for Argument {}

impl Argument {
    fn call(&self, function: extern "C" fn(*mut c_void)) {
        function(self.0);
    }
}

fn create(flags: c_uint) -> Result<u64, u32> {
    let device = context::current_device()?;
    let manner = match flags {
        0 => Manner::Blocking,
        1 => Manner::NonBlocking,
        _ => return Err(INVALID_VALUE),
    };
    engine::create(device, manner)
}

exported! {
    fn cuStreamCreate(to: Out<u64>, flags: c_uint) {
        to.set(create(flags)?)
    }

    fn cuStreamCreateWithPriority(to: Out<u64>, flags: c_uint, _priority: c_int) {
        to.set(create(flags)?)
    }

    fn cuStreamDestroy_v2(stream: u64) {
        if stream <= 2 {
            return Err(INVALID_HANDLE);
        }
        engine::destroy(stream)
    }

    fn cuStreamQuery(stream: u64) {
        if engine::query(context::stream(stream)?)? { Ok(()) } else { Err(NOT_READY) }
    }

    fn cuStreamSynchronize(stream: u64) {
        engine::synchronize(context::stream(stream)?)
    }

    fn cuStreamWaitEvent(stream: u64, event: u64, flags: c_uint) {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        event::wait(context::stream(stream)?, event)
    }

    fn cuLaunchHostFunc(stream: u64, function: Option<extern "C" fn(*mut c_void)>, argument: *mut c_void) {
        let function = function.ok_or(INVALID_VALUE)?;
        let argument = Argument(argument);
        let operation = Operation::new("cuLaunchHostFunc", move |turn| {
            // A host that the function notifies has also seen everything before it in the stream.
            host::observe(&turn.clock);
            argument.call(function);
        });
        engine::enqueue(context::stream(stream)?, operation)
    }

    fn cuStreamWaitValue32_v2(stream: u64, address: u64, value: u32, flags: c_uint) {
        let stream = context::stream(stream)?;
        words::wait(stream, address, value, flags)
    }

    fn cuStreamWriteValue32_v2(stream: u64, address: u64, value: u32, flags: c_uint) {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        words::write(context::stream(stream)?, address, value)
    }
}
