//! Modules and kernels.
#![allow(unsafe_code)] // exports functions by name

use std::collections::{HashMap, HashSet};
use std::ffi::{c_char, c_uint};
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::exported;
use crate::code::{INVALID_HANDLE, INVALID_VALUE};
use crate::ffi::{In, Out};
use crate::kernels::{Arguments, Kernel};
use crate::{context, engine, host};

static MODULES: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);
static FUNCTIONS: LazyLock<Mutex<HashMap<u64, Kernel>>> = LazyLock::new(Mutex::default);

exported! {
    fn cuModuleLoadData(to: Out<u64>, image: usize) {
        context::current_device()?;
        if image == 0 {
            return Err(INVALID_VALUE);
        }
        let handle = host::fresh_handle();
        MODULES.lock().insert(handle);
        to.set(handle)
    }

    fn cuModuleGetFunction(to: Out<u64>, module: u64, name: In<c_char>) {
        if !MODULES.lock().contains(&module) {
            return Err(INVALID_HANDLE);
        }
        let kernel = Kernel::named(&name.text()?)?;
        let handle = host::fresh_handle();
        FUNCTIONS.lock().insert(handle, kernel);
        to.set(handle)
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
        let kernel = *FUNCTIONS.lock().get(&function).ok_or(INVALID_HANDLE)?;
        let threads = u64::from(block_x) * u64::from(block_y) * u64::from(block_z);
        if [grid_x, grid_y, grid_z].contains(&0) || !(1..=1024).contains(&threads) {
            return Err(INVALID_VALUE);
        }
        engine::enqueue(context::stream(stream)?, kernel.launch(&Arguments(arguments))?)
    }
}
