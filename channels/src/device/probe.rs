//! The driver and the devices of this machine, asked before anything else is done with them.
#![allow(unsafe_code)] // calls the driver

use std::ffi::{CStr, c_int};

use super::abi::attribute;
use super::calls::{Calls, Functions};
use super::library::Unavailable;

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Its compute capability.
    pub compute_capability: (i32, i32),
    /// Whether memory can be made that other processes can map, by a file descriptor: what channels between processes use.
    pub shares_memory: bool,
    /// What else ways between processes depend on.
    pub abilities: Vec<Ability>,
}

/// What a device can do, in words, and what the driver says of it: mostly 1 for yes and 0 for no.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ability {
    /// What.
    pub name: &'static str,
    /// What the driver says; `None` when it does not know the question.
    pub value: Option<i32>,
}

/// The driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Driver {
    /// Where it was found.
    pub path: String,
    /// The version of CUDA that it supports: 13000 for 13.0.
    pub version: i32,
    /// Its devices.
    pub devices: Vec<Device>,
}

/// Looks for the driver, for every function of it that [`device`](super) calls, and for its devices. Never panics.
///
/// # Errors
/// [`Unavailable`]: there is no driver, it is too old, or it fails.
pub fn probe() -> Result<Driver, Unavailable> {
    let calls = Calls::open()?;
    // SAFETY: writes one number where there is room for one.
    let version = number(&calls, "cuDriverGetVersion", |cu, to| unsafe { (cu.version)(to) })?;
    // SAFETY: as above.
    let count = number(&calls, "cuDeviceGetCount", |cu, to| unsafe {
        (cu.device_count)(to)
    })?;
    let devices = (0..count)
        .map(|index| device(&calls, index))
        .collect::<Result<_, _>>()?;
    Ok(Driver {
        path: calls.path().to_owned(),
        version,
        devices,
    })
}

/// The number that a call writes.
fn number(
    calls: &Calls,
    call: &'static str,
    ask: impl FnOnce(&Functions, *mut c_int) -> c_int,
) -> Result<c_int, Unavailable> {
    let mut number = 0;
    let code = ask(&calls.functions, &raw mut number);
    calls.available(call, code).map(|()| number)
}

fn device(calls: &Calls, index: c_int) -> Result<Device, Unavailable> {
    // SAFETY: writes one number where there is room for one; so do the calls below.
    let device = number(calls, "cuDeviceGet", |cu, to| unsafe {
        (cu.device_get)(to, index)
    })?;
    let attribute = |which: c_int| {
        // SAFETY: as above.
        number(calls, "cuDeviceGetAttribute", |cu, to| unsafe {
            (cu.device_attribute)(to, which, device)
        })
    };
    let mut name = [0_u8; 256];
    // SAFETY: writes at most 255 bytes and an end.
    let code = unsafe { (calls.functions.device_name)(name.as_mut_ptr().cast(), 255, device) };
    calls.available("cuDeviceGetName", code)?;
    let mut memory = 0_usize;
    // SAFETY: writes one number where there is room for one.
    let code = unsafe { (calls.functions.device_memory)(&raw mut memory, device) };
    calls.available("cuDeviceTotalMem_v2", code)?;
    let name = CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy().into_owned());
    Ok(Device {
        name: name.unwrap_or_default(),
        memory_bytes: memory as u64,
        compute_capability: (
            attribute(attribute::COMPUTE_CAPABILITY_MAJOR)?,
            attribute(attribute::COMPUTE_CAPABILITY_MINOR)?,
        ),
        // An older driver does not know the question.
        shares_memory: attribute(attribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
            .is_ok_and(|shares| shares != 0),
        abilities: attribute::ABILITIES
            .map(|(name, which)| Ability {
                name,
                value: attribute(which).ok(),
            })
            .into(),
    })
}
