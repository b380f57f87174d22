//! The driver itself, its devices, and its errors.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::{c_char, c_int, c_uint};

use super::exported;
use crate::code::{self, INVALID_VALUE};
use crate::context;
use crate::ffi::Out;
use crate::settings;

/// CUDA 13.0.
const VERSION: c_int = 13000;

/// Returns an attribute of a device: the attributes that callers commonly query. Any other attribute is 0.
fn attribute(device: u32, attribute: c_int) -> c_int {
    match attribute {
        1..=3 => 1024,
        4 => 64,
        5 => c_int::MAX,
        6 | 7 => 65535,
        8 => 48 << 10,
        9 => 64 << 10,
        10 => 32,
        12 | 82 => 65536,
        13 | 36 => 1_000_000,
        16 => 4,
        33 => device.cast_signed() + 1,
        38 => 4 << 20,
        39 => 2048,
        40 => 2,
        75 => 9,
        81 | 97 => 227 << 10,
        106 => 32,
        // One POSIX descriptor per handle, and no other kind.
        119 => 1,
        103 => c_int::from(settings::get().descriptors),
        // Overlap, mapped host memory, unified addresses, priorities, values in streams, registering, virtual memory,
        // descriptors, pools, events between processes.
        15 | 19 | 31 | 41 | 78 | 86 | 90 | 92 | 93 | 94 | 98 | 99 | 102 | 115 | 122 | 123 | 125 => 1,
        _ => 0,
    }
}

fn uuid(device: u32) -> [u8; 16] {
    let mut bytes = *b"selvedge-sim\0\0\0\0";
    if let Some(last) = bytes.last_chunk_mut() {
        *last = device.to_be_bytes();
    }
    bytes
}

exported! {
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        context::initialize()
    }

    fn cuDriverGetVersion(version: Out<c_int>) {
        version.set(VERSION)
    }

    fn cuDeviceGetCount(count: Out<c_int>) {
        context::initialized()?;
        count.set(settings::get().devices.cast_signed())
    }

    fn cuDeviceGet(to: Out<c_int>, ordinal: c_int) {
        to.set(context::device(ordinal)?.cast_signed())
    }

    fn cuDeviceGetName(name: Out<c_char>, len: c_int, device: c_int) {
        let device = context::device(device)?;
        name.set_text(&format!("selvedge simulated device {device}"), len)
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) {
        context::device(device)?;
        bytes.set(usize::try_from(settings::get().memory_bytes).unwrap_or(usize::MAX))
    }

    fn cuDeviceGetAttribute(value: Out<c_int>, which: c_int, device: c_int) {
        value.set(attribute(context::device(device)?, which))
    }

    fn cuDeviceGetUuid(to: Out<[u8; 16]>, device: c_int) {
        to.set(uuid(context::device(device)?))
    }

    fn cuDeviceGetUuid_v2(to: Out<[u8; 16]>, device: c_int) {
        to.set(uuid(context::device(device)?))
    }

    fn cuGetErrorName(error: u32, to: Out<*const c_char>) {
        to.set(code::told(error).map_or(std::ptr::null(), |(name, _)| name.as_ptr()))?;
        code::told(error).map(drop).ok_or(INVALID_VALUE)
    }

    fn cuGetErrorString(error: u32, to: Out<*const c_char>) {
        to.set(code::told(error).map_or(std::ptr::null(), |(_, text)| text.as_ptr()))?;
        code::told(error).map(drop).ok_or(INVALID_VALUE)
    }
}
