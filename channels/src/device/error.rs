//! Errors of devices.

use std::time::Duration;

use super::library::Unavailable;
use crate::payload::TensorError;

/// The reason why an operation on a device failed. No operation panics. A failed call has changed nothing, except for
/// the codes that report the loss of the context.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No driver is installed, or the driver cannot be used.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A function of the driver reported a failure of its own or of earlier work.
    #[error("`{call}` says {code}{}{name}: {}", if name.is_empty() { "" } else { ", " }, self.help())]
    Call {
        /// The name of the function.
        call: &'static str,
        /// The code that it returned.
        code: i32,
        /// The driver's name for the code; empty if the driver gives none.
        name: String,
    },
    /// No device has the requested number.
    #[error("there is no device {index}: the driver shows {count} (see CUDA_VISIBLE_DEVICES)")]
    NoDevice {
        /// The requested number.
        index: u32,
        /// The number of devices.
        count: u32,
    },
    /// An object of one device was used with another device.
    #[error("{what} is on {found}, and this is {expected}")]
    WrongDevice {
        /// The object.
        what: &'static str,
        /// The expected device.
        expected: DeviceId,
        /// The device of the object.
        found: DeviceId,
    },
    /// The work on the device was not done before the deadline. It may still finish.
    #[error("the device was not done after {waited:?}")]
    Timeout {
        /// The time that the wait lasted.
        waited: Duration,
    },
    /// The byte range lies outside the allocation, or has another length than expected.
    #[error("{need_bytes} bytes from {offset} do not fit {have_bytes}")]
    OutOfBounds {
        /// The offset of the range.
        offset: usize,
        /// The requested number of bytes.
        need_bytes: usize,
        /// The number of bytes available.
        have_bytes: usize,
    },
    /// Another process cannot map this memory.
    #[error("this memory cannot be shared with other processes: {why}")]
    NotShareable {
        /// The reason.
        why: &'static str,
    },
    /// `CU_STREAM_PER_THREAD` was passed as a stream. It is a different stream on every thread, so work of another
    /// thread cannot be ordered behind it.
    #[error(
        "`Stream::foreign` was given CU_STREAM_PER_THREAD of {device}, which is another stream on each thread: give it one \
         of cuStreamCreate, or null for the legacy default stream"
    )]
    StreamPerThread {
        /// The device for which the stream was meant.
        device: DeviceId,
    },
    /// The tensor cannot be constructed.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

crate::debug_is_report!(DeviceError);

impl DeviceError {
    /// Checks that `need_bytes` from `offset` on are within `have_bytes`.
    pub(super) fn check_range(offset: usize, need_bytes: usize, have_bytes: usize) -> Result<(), Self> {
        if offset
            .checked_add(need_bytes)
            .is_some_and(|end| end <= have_bytes)
        {
            return Ok(());
        }
        Err(DeviceError::OutOfBounds {
            offset,
            need_bytes,
            have_bytes,
        })
    }

    /// Advice for the user, as one sentence.
    pub fn help(&self) -> &'static str {
        let DeviceError::Call { code, .. } = self else {
            return "see the error";
        };
        match code {
            2 => "the device has no memory left; ask for fewer or smaller slots, or look who else uses it",
            3 | 4 => "the driver is not running, or the process is about to end",
            34 => {
                "this is a library to link with, not a driver; put the driver's own first in the library path"
            }
            46 => "another process has the device for itself (compute mode)",
            100 | 101 => "no such device is visible; see CUDA_VISIBLE_DEVICES",
            201 | 709 => "the device's context is gone; open the device again",
            205..=208 | 211 => "the memory could not be mapped; it is mapped already, or its owner has gone",
            217 | 704 => "these two devices cannot reach each other's memory",
            214 => "the device's memory is damaged; the machine's owner has to look at it",
            400 => "a handle of another context or process; this is our bug if no foreign handle was given",
            700..=702 | 710 | 714..=719 => {
                "a kernel of this process has failed and its context is lost; start the process anew"
            }
            800 | 801 => "this system does not allow it (containers often forbid sharing between processes)",
            802 | 803 | 999 => "the driver is in trouble; see the system's log",
            _ => "see the driver's documentation of this code",
        }
    }
}

/// The identity of a device of this host, the same in every process: the driver's UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct DeviceId(pub(super) [u8; 16]);

impl std::fmt::Display for DeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GPU-")?;
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}
