//! The driver and the devices of this machine, queried without opening a device.
#![allow(unsafe_code)] // calls the driver

use std::ffi::{CStr, c_int};

use super::abi::attribute;
use super::calls::{Calls, Functions};
use super::library::Unavailable;

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// The name of the device.
    pub name: String,
    /// The size of its memory in bytes.
    pub memory_bytes: u64,
    /// The compute capability, major and minor.
    pub compute_capability: (i32, i32),
    /// True if the device can create memory that other processes map through a file descriptor. Channels between
    /// processes use such memory.
    pub shares_memory: bool,
    /// Further abilities on which transports between processes depend.
    pub abilities: Vec<Ability>,
}

/// An ability of a device, and the driver's value for it: for most abilities 1 for yes and 0 for no.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ability {
    /// The name of the ability.
    pub name: &'static str,
    /// The driver's value; `None` if the driver does not know the attribute.
    pub value: Option<i32>,
}

/// The driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Driver {
    /// The file from which the driver was loaded.
    pub path: String,
    /// The version of CUDA that it supports: 13000 for 13.0.
    pub version: i32,
    /// The devices that the driver shows.
    pub devices: Vec<Device>,
}

/// Queries the driver, looks up every function of it that [`device`](super) calls, and lists its devices. Never panics.
///
/// # Errors
/// [`Unavailable`] if there is no driver, if it is too old, or if it fails.
pub fn probe() -> Result<Driver, Unavailable> {
    let calls = Calls::open()?;
    // SAFETY: writes one number to a place for one number.
    let version = number(&calls, "cuDriverGetVersion", |cu, to| unsafe { (cu.version)(to) })?;
    // SAFETY: writes one number to a place for one number.
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

/// Returns the number that a call writes.
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
    // SAFETY: writes one number to a place for one number. The same holds for the calls below.
    let device = number(calls, "cuDeviceGet", |cu, to| unsafe {
        (cu.device_get)(to, index)
    })?;
    let attribute = |which: c_int| {
        // SAFETY: writes one number to a place for one number.
        number(calls, "cuDeviceGetAttribute", |cu, to| unsafe {
            (cu.device_attribute)(to, which, device)
        })
    };
    let mut name = [0_u8; 256];
    // SAFETY: writes at most 255 bytes and a terminating zero to a buffer of 256 bytes.
    let code = unsafe { (calls.functions.device_name)(name.as_mut_ptr().cast(), 255, device) };
    calls.available("cuDeviceGetName", code)?;
    let mut memory = 0_usize;
    // SAFETY: writes one number to a place for one number.
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
        // An older driver does not know this attribute.
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
