//! Modules and kernels.
#![allow(unsafe_code)] // exports functions by name

use std::collections::{HashMap, HashSet};
use std::ffi::{c_char, c_int, c_uint};
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::exported;
use crate::code::{Cu, INVALID_HANDLE, INVALID_VALUE};
use crate::ffi::{In, Out};
use crate::kernels::{Arguments, Kernel};
use crate::{context, engine, host};

static MODULES: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);
/// Functions, each with its module and kernel.
static FUNCTIONS: LazyLock<Mutex<HashMap<u64, (u64, Kernel)>>> = LazyLock::new(Mutex::default);

fn load(to: &Out<u64>, image: usize) -> Cu {
    context::current_device()?;
    if image == 0 {
        return Err(INVALID_VALUE);
    }
    let handle = host::fresh_handle();
    MODULES.lock().insert(handle);
    to.set(handle)
}

fn kernel(function: u64) -> Cu<Kernel> {
    FUNCTIONS
        .lock()
        .get(&function)
        .map(|(_, kernel)| *kernel)
        .ok_or(INVALID_HANDLE)
}

exported! {
    fn cuModuleLoadData(to: Out<u64>, image: usize) {
        load(&to, image)
    }

    fn cuModuleLoadDataEx(to: Out<u64>, image: usize, _count: c_uint, _options: usize, _values: usize) {
        load(&to, image)
    }

    fn cuModuleGetFunction(to: Out<u64>, module: u64, name: In<c_char>) {
        if !MODULES.lock().contains(&module) {
            return Err(INVALID_HANDLE);
        }
        let kernel = Kernel::named(&name.text()?)?;
        let handle = host::fresh_handle();
        FUNCTIONS.lock().insert(handle, (module, kernel));
        to.set(handle)
    }

    fn cuModuleUnload(module: u64) {
        if !MODULES.lock().remove(&module) {
            return Err(INVALID_HANDLE);
        }
        FUNCTIONS.lock().retain(|_, (of, _)| *of != module);
        Ok(())
    }

    fn cuFuncGetAttribute(to: Out<c_int>, which: c_int, function: u64) {
        kernel(function)?;
        to.set(if which == 0 { 1024 } else { 0 })
    }

    fn cuFuncSetAttribute(function: u64, _which: c_int, _value: c_int) {
        kernel(function).map(drop)
    }

    fn cuLaunchKernel(
        function: u64,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        _shared_bytes: c_uint,
        stream: u64,
        arguments: In<usize>,
        _extra: usize,
    ) {
        let kernel = kernel(function)?;
        let threads = u64::from(block_x) * u64::from(block_y) * u64::from(block_z);
        if [grid_x, grid_y, grid_z].contains(&0) || !(1..=1024).contains(&threads) {
            return Err(INVALID_VALUE);
        }
        engine::enqueue(context::stream(stream)?, kernel.launch(&Arguments(arguments))?)
    }
}
