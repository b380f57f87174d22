//! Virtual memory, and its export to other processes as descriptors.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::os::fd::IntoRawFd;

use super::exported;
use crate::code::{Cu, INVALID_DEVICE, INVALID_VALUE, NOT_SUPPORTED, OPERATING_SYSTEM};
use crate::context;
use crate::ffi::{In, Out};
use crate::memory::{Allocation, Kind};
use crate::shared::Shared;
use crate::space::GRANULARITY_BYTES;
use crate::{settings, virtual_memory};

const PINNED: c_uint = 1;
const ON_DEVICE: c_uint = 1;
const POSIX_DESCRIPTOR: c_uint = 1;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    kind: c_uint,
    id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Properties {
    kind: c_uint,
    handle_types: c_uint,
    location: Location,
    windows: usize,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessOf {
    location: Location,
    flags: c_uint,
}

const _: () = assert!(size_of::<Properties>() == 32 && size_of::<AccessOf>() == 12);

impl Properties {
    fn device(&self) -> Cu<u32> {
        if self.kind != PINNED || self.location.kind != ON_DEVICE {
            return Err(INVALID_VALUE);
        }
        context::device(self.location.id).map_err(|_| INVALID_DEVICE)
    }

    fn exportable(&self) -> Cu<bool> {
        match self.handle_types {
            0 => Ok(false),
            POSIX_DESCRIPTOR if settings::get().descriptors => Ok(true),
            _ => Err(NOT_SUPPORTED),
        }
    }
}

exported! {
    fn cuMemGetAllocationGranularity(to: Out<usize>, properties: In<Properties>, _option: c_uint) {
        properties.get()?.device()?;
        to.set(GRANULARITY_BYTES as usize)
    }

    fn cuMemCreate(to: Out<u64>, len: usize, properties: In<Properties>, flags: c_ulonglong) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let properties = properties.get()?;
        to.set(virtual_memory::create(properties.device()?, len as u64, properties.exportable()?)?)
    }

    fn cuMemRelease(handle: u64) {
        virtual_memory::release(handle)
    }

    fn cuMemAddressReserve(to: Out<u64>, len: usize, alignment: usize, _wanted: u64, flags: c_ulonglong) {
        context::initialized()?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        to.set(virtual_memory::reserve(len as u64, alignment as u64)?)
    }

    fn cuMemAddressFree(start: u64, len: usize) {
        virtual_memory::unreserve(start, len as u64)
    }

    fn cuMemMap(start: u64, len: usize, offset: usize, handle: u64, flags: c_ulonglong) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        virtual_memory::map(start, len as u64, offset as u64, handle)
    }

    fn cuMemUnmap(start: u64, len: usize) {
        virtual_memory::unmap(start, len as u64)
    }

    fn cuMemSetAccess(start: u64, len: usize, access: In<AccessOf>, count: usize) {
        for index in 0..count {
            let access = access.nth(index)?;
            if access.location.kind != ON_DEVICE {
                return Err(INVALID_VALUE);
            }
            let device = context::device(access.location.id)?;
            match access.flags {
                0 => virtual_memory::allow(start, len as u64, device, false)?,
                1 | 3 => virtual_memory::allow(start, len as u64, device, true)?,
                _ => return Err(INVALID_VALUE),
            }
        }
        Ok(())
    }

    fn cuMemExportToShareableHandle(to: Out<c_int>, handle: u64, kind: c_uint, flags: c_ulonglong) {
        let allocation = virtual_memory::allocation(handle)?;
        if flags != 0 || kind != POSIX_DESCRIPTOR || allocation.kind != (Kind::Physical { exportable: true }) {
            return Err(INVALID_VALUE);
        }
        let file = allocation.export_fd().map_err(|_| OPERATING_SYSTEM)?;
        to.set(file.into_raw_fd())
    }

    fn cuMemImportFromShareableHandle(to: Out<u64>, descriptor: usize, kind: c_uint) {
        let device = context::current_device()?;
        if kind != POSIX_DESCRIPTOR {
            return Err(NOT_SUPPORTED);
        }
        let descriptor = i32::try_from(descriptor).map_err(|_| INVALID_VALUE)?;
        let shared = Shared::of_fd(descriptor).map_err(|_| INVALID_VALUE)?;
        let allocation = match virtual_memory::known(shared.address().nonce) {
            Some(known) => known,
            None => Allocation::import(shared, Kind::Physical { exportable: true }, device)?,
        };
        to.set(virtual_memory::keep(allocation))
    }
}
