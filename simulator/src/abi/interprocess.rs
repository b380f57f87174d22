//! Legacy handles of memory and events for other processes.
#![allow(unsafe_code)] // exports functions by name, and declares a handle as plain data

use std::collections::HashMap;
use std::ffi::c_uint;
use std::sync::LazyLock;

use parking_lot::Mutex;

use super::exported;
use crate::code::{Cu, INVALID_CONTEXT, INVALID_VALUE, MAP_FAILED};
use crate::event;
use crate::ffi::Out;
use crate::memory::{Allocation, Kind};
use crate::shared::{Address, Shared};
use crate::{context, race, space};

const OF_MEMORY: u64 = 0x6d65_6d6f_7279;
const OF_EVENT: u64 = 0x65_7665_6e74;

/// `CUipcMemHandle` and `CUipcEventHandle`: 64 bytes, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    what: u64,
    address: Address,
    rest: [u64; 5],
}

const _: () = assert!(size_of::<Handle>() == 64);

impl Handle {
    fn new(what: u64, address: Address) -> Self {
        Handle {
            what,
            address,
            rest: [0; 5],
        }
    }

    /// Returns the address of the object, which must be in another process.
    fn found(&self, what: u64) -> Cu<Address> {
        if self.what != what {
            return Err(INVALID_VALUE);
        }
        if self.address.pid == std::process::id() {
            return Err(INVALID_CONTEXT);
        }
        Ok(self.address)
    }
}

/// Opened memory: its nonce, its address here, and the number of times it was opened.
static OPENED: LazyLock<Mutex<HashMap<u64, (u64, u32)>>> = LazyLock::new(Mutex::default);

exported! {
    fn cuIpcGetMemHandle(to: Out<Handle>, address: u64) {
        context::initialized()?;
        let space = space::space();
        let region = space.find(address).ok_or(INVALID_VALUE)?;
        if region.allocation.kind != Kind::Plain {
            return Err(INVALID_VALUE);
        }
        to.set(Handle::new(OF_MEMORY, region.allocation.export()))
    }

    fn cuIpcOpenMemHandle_v2(to: Out<u64>, handle: Handle, flags: c_uint) {
        let device = context::current_device()?;
        if flags != 1 {
            return Err(INVALID_VALUE);
        }
        let found = handle.found(OF_MEMORY)?;
        let mut opened = OPENED.lock();
        if let Some((address, count)) = opened.get_mut(&found.nonce) {
            // A context maps the memory once and counts the calls.
            *count += 1;
            return to.set(*address);
        }
        let shared = Shared::open(found).map_err(|_| MAP_FAILED)?;
        let address = space::space().place(Allocation::import(shared, Kind::Imported, device)?)?;
        opened.insert(found.nonce, (address, 1));
        to.set(address)
    }

    fn cuIpcCloseMemHandle(address: u64) {
        context::initialized()?;
        let mut opened = OPENED.lock();
        let (nonce, count) = opened
            .iter_mut()
            .find_map(|(nonce, (at, count))| (*at == address).then_some((*nonce, count)))
            .ok_or(INVALID_VALUE)?;
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        opened.remove(&nonce);
        let region = space::space().remove(address);
        if let Some(region) = region {
            race::check_unmap(&region.allocation, "cuIpcCloseMemHandle");
        }
        Ok(())
    }

    fn cuIpcGetEventHandle(to: Out<Handle>, event: u64) {
        to.set(Handle::new(OF_EVENT, event::export(event)?))
    }

    fn cuIpcOpenEventHandle(to: Out<u64>, handle: Handle) {
        context::current_device()?;
        to.set(event::open(handle.found(OF_EVENT)?)?)
    }
}
