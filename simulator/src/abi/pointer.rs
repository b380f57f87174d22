//! The attributes of an address, as the driver knows them.
#![allow(unsafe_code)] // exports functions by name

use std::ffi::{c_int, c_uint};

use super::exported;
use crate::code::{Cu, INVALID_VALUE, NOT_SUPPORTED};
use crate::context;
use crate::ffi::{In, Out};
use crate::memory::Kind;
use crate::space::{self, Region};

/// The values of `CU_POINTER_ATTRIBUTE_MEMORY_TYPE` for host memory and device memory.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;

/// The address to which an attribute is written; the attribute determines its size.
struct Slot(usize);

impl Slot {
    fn set<T: Copy>(&self, value: T) -> Cu {
        Out::<T>::of(self.0).set(value)
    }
}

fn attribute(slot: &Slot, which: c_uint, address: u64, region: &Region) -> Cu {
    let allocation = &region.allocation;
    let on_host = matches!(allocation.kind, Kind::Pinned | Kind::Registered);
    match which {
        1 => slot.set(context::handle_of(allocation.device)),
        2 => slot.set(if on_host { HOST } else { DEVICE }),
        3 => slot.set(address),
        4 if on_host => slot.set(address),
        6 => slot.set::<c_int>(0),
        7 => slot.set(allocation.shared().address().nonce),
        8 => slot.set(false),
        9 => slot.set(allocation.device.cast_signed()),
        10 => slot.set(allocation.kind == Kind::Plain),
        11 => slot.set(region.start),
        12 => slot.set(region.len),
        13 => slot.set(true),
        14 => slot.set(u64::from(allocation.kind == Kind::Physical { exportable: true })),
        16 => slot.set::<c_uint>(if region.devices != 0 { 3 } else { 0 }),
        4 => Err(INVALID_VALUE),
        _ => Err(NOT_SUPPORTED),
    }
}

exported! {
    fn cuPointerGetAttribute(data: usize, which: c_uint, address: u64) {
        context::initialized()?;
        let space = space::space();
        attribute(&Slot(data), which, address, space.find(address).ok_or(INVALID_VALUE)?)
    }

    fn cuPointerGetAttributes(count: c_uint, which: In<c_uint>, data: In<usize>, address: u64) {
        context::initialized()?;
        let space = space::space();
        for index in 0..count as usize {
            let (slot, which) = (Slot(data.nth(index)?), which.nth(index)?);
            // For an unknown address this call writes zero instead of failing.
            match space.find(address) {
                Some(region) => attribute(&slot, which, address, region)?,
                None if matches!(which, 8 | 10 | 13) => slot.set(false)?,
                None if matches!(which, 2 | 6 | 9 | 16) => slot.set::<c_uint>(0)?,
                None => slot.set::<u64>(0)?,
            }
        }
        Ok(())
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
