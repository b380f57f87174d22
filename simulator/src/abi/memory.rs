//! Memory of devices, and pinned memory of the host.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::c_uint;
use std::sync::Arc;

use super::exported;
use crate::code::{
    Cu, HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_VALUE, OUT_OF_MEMORY,
};
use crate::engine::{self, Operation};
use crate::ffi::Out;
use crate::history::Intent;
use crate::host_bytes::HostBytes;
use crate::memory::{self, Allocation, Kind, Span, Use};
use crate::{context, race, settings, space};

/// Returns an operation that makes or ends an allocation in stream order. It counts as a write of the whole allocation,
/// so that every unordered access is a race.
fn lifetime(name: &'static str, allocation: &Arc<Allocation>) -> Operation {
    let span = Span {
        allocation: Arc::clone(allocation),
        offset: 0,
        len: allocation.len,
    };
    Operation {
        name: name.into(),
        uses: vec![Use::new(&span, Intent::Write)],
        run: Box::new(|_| ()),
        done: None,
    }
}

/// Frees memory at once. If an operation may still use it, that is reported as a violation, and the memory is freed all
/// the same.
fn free(address: u64, what: &str, is: impl Fn(Kind) -> bool) -> Cu {
    let region = {
        let mut space = space::space();
        space.starting(address, is).ok_or(INVALID_VALUE)?;
        space.remove(address).ok_or(INVALID_VALUE)?
    };
    race::check_free(&region.allocation, what);
    Ok(())
}

/// Resolves a stream handle and returns the stream with its device.
fn of_stream(stream: u64) -> Cu<(u64, u32)> {
    let stream = context::stream(stream)?;
    Ok((stream, engine::about(stream)?.device))
}

exported! {
    fn cuMemAlloc_v2(to: Out<u64>, len: usize) {
        let device = context::current_device()?;
        let allocation = Allocation::create(Kind::Plain, device, len as u64)?;
        to.set(space::space().place(allocation)?)
    }

    fn cuMemFree_v2(address: u64) {
        context::initialized()?;
        if address == 0 {
            return Ok(());
        }
        free(address, "cuMemFree", |kind| matches!(kind, Kind::Plain | Kind::Pool))
    }

    fn cuMemAllocAsync(to: Out<u64>, len: usize, stream: u64) {
        let (stream, device) = of_stream(stream)?;
        let allocation = Allocation::create(Kind::Pool, device, len as u64)?;
        engine::enqueue(stream, lifetime("cuMemAllocAsync", &allocation))?;
        to.set(space::space().place(allocation)?)
    }

    fn cuMemFreeAsync(address: u64, stream: u64) {
        let (stream, _) = of_stream(stream)?;
        let region = {
            let mut space = space::space();
            space.starting(address, |kind| matches!(kind, Kind::Plain | Kind::Pool)).ok_or(INVALID_VALUE)?;
            space.remove(address).ok_or(INVALID_VALUE)?
        };
        engine::enqueue(stream, lifetime("cuMemFreeAsync", &region.allocation))
    }

    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let device = context::current_device()?;
        let all = settings::get().memory_bytes;
        let left = all.saturating_sub(memory::used_bytes(device));
        free.set(usize::try_from(left).map_err(|_| OUT_OF_MEMORY)?)?;
        total.set(usize::try_from(all).map_err(|_| OUT_OF_MEMORY)?)
    }

    fn cuMemHostAlloc(to: Out<u64>, len: usize, flags: c_uint) {
        if flags > 7 {
            return Err(INVALID_VALUE);
        }
        context::current_device()?;
        let allocation = Allocation::create(Kind::Pinned, 0, len as u64)?;
        to.set(space::space().place(allocation)?)
    }

    fn cuMemFreeHost(address: u64) {
        context::initialized()?;
        free(address, "cuMemFreeHost", |kind| kind == Kind::Pinned)
    }

    fn cuMemHostRegister_v2(address: u64, len: usize, flags: c_uint) {
        context::current_device()?;
        if flags > 15 || len == 0 {
            return Err(INVALID_VALUE);
        }
        let bytes = HostBytes::new(address, len as u64).ok_or(INVALID_VALUE)?;
        let allocation = Allocation::register(bytes.at(), len as u64)?;
        let mut space = space::space();
        if space.overlapping(address, len as u64).next().is_some() {
            return Err(HOST_MEMORY_ALREADY_REGISTERED);
        }
        space.place(allocation).map(drop)
    }

    fn cuMemHostUnregister(address: u64) {
        context::initialized()?;
        free(address, "cuMemHostUnregister", |kind| kind == Kind::Registered).map_err(|_| HOST_MEMORY_NOT_REGISTERED)
    }

    fn cuMemHostGetDevicePointer_v2(to: Out<u64>, address: u64, flags: c_uint) {
        let space = space::space();
        let region = space.find(address).ok_or(INVALID_VALUE)?;
        if flags != 0 || !matches!(region.allocation.kind, Kind::Pinned | Kind::Registered) {
            return Err(INVALID_VALUE);
        }
        // Addresses are unified: the device uses the host's address.
        to.set(address)
    }

    fn cuMemGetAddressRange_v2(base: Out<u64>, len: Out<usize>, address: u64) {
        context::initialized()?;
        let space = space::space();
        let region = space.find(address).ok_or(INVALID_VALUE)?;
        base.set_if_wanted(region.start);
        len.set_if_wanted(usize::try_from(region.len).map_err(|_| INVALID_VALUE)?);
        Ok(())
    }
}
