//! Driver calls of the tests that cudarc does not offer.

use std::ffi::{CStr, c_void};
use std::ptr::{from_ref, null_mut};
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};
use cudarc::driver::{CudaContext, CudaStream};

/// Creates a context without cudarc's event tracking.
pub(crate) fn context() -> Arc<CudaContext> {
    let context = CudaContext::new(0).unwrap();
    unsafe { context.disable_event_tracking() };
    context
}

/// Returns the function of a kernel.
pub(crate) fn function(name: &CStr) -> Result<sys::CUfunction, CUresult> {
    let (mut module, mut function) = (null_mut(), null_mut());
    unsafe {
        sys::cuModuleLoadData(&raw mut module, c".version 8.0".as_ptr().cast())
            .result()
            .unwrap();
        match sys::cuModuleGetFunction(&raw mut function, module, name.as_ptr()) {
            CUresult::CUDA_SUCCESS => Ok(function),
            code => Err(code),
        }
    }
}

fn launch(name: &CStr, stream: &Arc<CudaStream>, arguments: &mut [*mut c_void]) {
    let (kernel, stream) = (function(name).unwrap(), stream.cu_stream());
    let arguments = arguments.as_mut_ptr();
    unsafe {
        sys::cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, null_mut())
            .result()
            .unwrap()
    };
}

pub(crate) fn fill(stream: &Arc<CudaStream>, at: u64, count: u64, value: f32) {
    let value = from_ref(&value).cast_mut().cast();
    let mut arguments = [
        from_ref(&at).cast_mut().cast(),
        from_ref(&count).cast_mut().cast(),
        value,
    ];
    launch(c"selvedge_fill_f32", stream, &mut arguments);
}

/// Enqueues a kernel that is busy until `SIMULATOR.release(until)`.
pub(crate) fn spin(stream: &Arc<CudaStream>, until: u64) {
    launch(
        c"selvedge_spin",
        stream,
        &mut [from_ref(&until).cast_mut().cast()],
    );
}

pub(crate) fn alloc(bytes: usize) -> u64 {
    let mut at = 0;
    unsafe { sys::cuMemAlloc_v2(&raw mut at, bytes).result().unwrap() };
    at
}

pub(crate) fn read<const N: usize>(at: u64) -> [f32; N] {
    let mut values = [0.0; N];
    unsafe {
        sys::cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), at, N * 4)
            .result()
            .unwrap()
    };
    values
}

pub(crate) fn copy(stream: &Arc<CudaStream>, to: u64, from: u64, bytes: usize) {
    unsafe {
        sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.cu_stream())
            .result()
            .unwrap()
    };
}

pub(crate) fn event(flags: u32) -> sys::CUevent {
    let mut event = null_mut();
    unsafe { sys::cuEventCreate(&raw mut event, flags).result().unwrap() };
    event
}
