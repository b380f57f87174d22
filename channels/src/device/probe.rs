//! The driver and the devices of this machine, queried without opening a device.
#![allow(unsafe_code)] // calls the driver

use std::ffi::{CStr, c_int};

use cudarc::driver::sys::CUdevice_attribute::{self, *};

use super::calls::{Calls, FailedCall};
use super::library::Unavailable;

/// Attributes on which transports between processes depend, with names for users. The compute mode is 0 for any number
/// of processes, 2 for none, 3 for one.
const ABILITIES: [(&str, CUdevice_attribute); 8] = [
    ("compute mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE),
    (
        "virtual memory",
        CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    ),
    ("memory pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED),
    (
        "waits for 64-bit values",
        CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
    ),
    ("waits for NOR", CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR),
    ("DMA buffers", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED),
    (
        "events between processes",
        CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
    ),
    ("fabric handles", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED),
];

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
    let calls = Calls::loaded()?;
    found(calls).map_err(|failed| calls.unavailable(failed))
}

fn found(calls: &Calls) -> Result<Driver, FailedCall> {
    let (mut version, mut count) = (0, 0);
    // SAFETY: writes one number to a place for one number.
    unsafe { calls.cuDriverGetVersion(&raw mut version) }?;
    // SAFETY: writes one number to a place for one number.
    unsafe { calls.cuDeviceGetCount(&raw mut count) }?;
    let devices: Result<_, _> = (0..count).map(|index| device(calls, index)).collect();
    Ok(Driver {
        path: calls.path().to_owned(),
        version,
        devices: devices?,
    })
}

fn device(calls: &Calls, index: c_int) -> Result<Device, FailedCall> {
    let (mut device, mut memory, mut name) = (0, 0, [0_u8; 256]);
    // SAFETY: writes one number to a place for one number.
    unsafe { calls.cuDeviceGet(&raw mut device, index) }?;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: writes one number to a place for one number.
        unsafe { calls.cuDeviceGetAttribute(&raw mut value, which, device) }.map(|()| value)
    };
    // SAFETY: writes at most 255 bytes and a terminating zero to a buffer of 256 bytes.
    unsafe { calls.cuDeviceGetName(name.as_mut_ptr().cast(), 255, device) }?;
    // SAFETY: writes one number to a place for one number.
    unsafe { calls.cuDeviceTotalMem_v2(&raw mut memory, device) }?;
    let name = CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy().into_owned());
    Ok(Device {
        name: name.unwrap_or_default(),
        memory_bytes: memory as u64,
        compute_capability: (
            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        // An older driver does not know this attribute.
        shares_memory: attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
            .is_ok_and(|shares| shares != 0),
        abilities: ABILITIES
            .map(|(name, which)| Ability {
                name,
                value: attribute(which).ok(),
            })
            .into(),
    })
}
