//! Copies and fills.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::c_uchar;

use super::exported;
use crate::code::Cu;
use crate::context;
use crate::copy::{self, Place, Wait};
use crate::engine;
use crate::space;

const DEFAULT: u64 = 0;

/// Returns a stream, its device, and `len` as an integer of 64 bits.
fn queue(stream: u64, len: usize) -> Cu<(u64, u32, u64)> {
    let stream = context::stream(stream)?;
    Ok((stream, engine::about(stream)?.device, len as u64))
}

/// Writes a byte `count` times.
fn fill(name: &'static str, stream: u64, address: u64, byte: u8, count: usize, wait: bool) -> Cu {
    let (stream, device, len) = queue(stream, count)?;
    copy::fill(
        name,
        stream,
        space::resolve_for(device, address, len)?,
        byte,
        wait,
    )
}

exported! {
    fn cuMemcpyDtoH_v2(to: u64, from: u64, len: usize) {
        let (stream, device, len) = queue(DEFAULT, len)?;
        copy::copy("cuMemcpyDtoH", stream, Place::host(to, len)?, Place::device(device, from, len)?, Wait::Yes)
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: u64, len: usize, stream: u64) {
        let (stream, device, len) = queue(stream, len)?;
        copy::copy("cuMemcpyHtoDAsync", stream, Place::device(device, to, len)?, Place::host(from, len)?, Wait::IfPageable)
    }

    fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, len: usize, stream: u64) {
        let (stream, device, len) = queue(stream, len)?;
        copy::copy("cuMemcpyDtoHAsync", stream, Place::host(to, len)?, Place::device(device, from, len)?, Wait::IfPageable)
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, stream: u64) {
        let (stream, device, len) = queue(stream, len)?;
        copy::copy("cuMemcpyDtoDAsync", stream, Place::device(device, to, len)?, Place::device(device, from, len)?, Wait::IfPageable)
    }

    fn cuMemcpyPeerAsync(to: u64, to_context: u64, from: u64, from_context: u64, len: usize, stream: u64) {
        let (stream, len) = (context::stream(stream)?, len as u64);
        let to = Place::device(context::device_of(to_context)?, to, len)?;
        let from = Place::device(context::device_of(from_context)?, from, len)?;
        copy::copy("cuMemcpyPeerAsync", stream, to, from, Wait::IfPageable)
    }

    fn cuMemsetD8_v2(to: u64, value: c_uchar, count: usize) {
        fill("cuMemsetD8", DEFAULT, to, value, count, true)
    }

    fn cuMemsetD8Async(to: u64, value: c_uchar, count: usize, stream: u64) {
        fill("cuMemsetD8Async", stream, to, value, count, false)
    }
}
