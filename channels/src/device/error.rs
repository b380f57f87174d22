//! What can go wrong with a device.

use std::time::Duration;

use super::library::Unavailable;
use crate::payload::TensorError;

/// Why something could not be done with a device. Nothing here panics, and a failed call has changed nothing, but for those
/// that say that the context is lost.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no driver, or one that cannot be used.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A function of the driver said that it failed, or that something before it has.
    #[error("`{call}` says {code}{}{name}: {}", if name.is_empty() { "" } else { ", " }, self.help())]
    Call {
        /// The function.
        call: &'static str,
        /// The number it returned.
        code: i32,
        /// What the driver calls that number; empty where it does not say.
        name: String,
    },
    /// There is no device of that number.
    #[error("there is no device {index}: the driver shows {count} (see CUDA_VISIBLE_DEVICES)")]
    NoDevice {
        /// The number asked for.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// Something of one device was used with another.
    #[error("{what} is on {found}, and this is {expected}")]
    WrongDevice {
        /// What was used.
        what: &'static str,
        /// The device it should be on.
        expected: DeviceId,
        /// The device it is on.
        found: DeviceId,
    },
    /// What was waited for on the device has not come in time. It may still come.
    #[error("the device was not done after {waited:?}")]
    Timeout {
        /// How long the wait lasted.
        waited: Duration,
    },
    /// Bytes outside an allocation, or another number of bytes than there are.
    #[error("{need_bytes} bytes from {offset} do not fit {have_bytes}")]
    OutOfBounds {
        /// Where they begin.
        offset: usize,
        /// Bytes asked for.
        need_bytes: usize,
        /// Bytes there are.
        have_bytes: usize,
    },
    /// Memory that another process cannot map.
    #[error("this memory cannot be shared with other processes: {why}")]
    NotShareable {
        /// Why.
        why: &'static str,
    },
    /// `CU_STREAM_PER_THREAD` was given for a stream: one that nothing on another thread could be ordered behind.
    #[error(
        "`Stream::foreign` was given CU_STREAM_PER_THREAD of {device}, which is another stream on each thread: give it one \
         of cuStreamCreate, or null for the legacy default stream"
    )]
    StreamPerThread {
        /// The device it should be a stream of.
        device: DeviceId,
    },
    /// A tensor that cannot be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

crate::debug_is_report!(DeviceError);

impl DeviceError {
    /// What to do about it, in a sentence.
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

/// A device of this host, the same in every process: the driver's UUID.
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
