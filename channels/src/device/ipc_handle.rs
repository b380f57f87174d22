//! Handles with which a process opens events and legacy memory of another process.

use std::ffi::c_char;

use serde::{Deserialize, Serialize};

/// The bytes of a `CUipcMemHandle` or a `CUipcEventHandle`: opaque, and valid in every process of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IpcHandle {
    // Serde does not support arrays of 64 elements.
    halves: [[u8; 32]; 2],
}

impl From<[c_char; 64]> for IpcHandle {
    fn from(bytes: [c_char; 64]) -> Self {
        let mut halves = [[0; 32]; 2];
        for (to, from) in halves.as_flattened_mut().iter_mut().zip(bytes) {
            *to = from as u8;
        }
        IpcHandle { halves }
    }
}

impl From<IpcHandle> for [c_char; 64] {
    fn from(exported: IpcHandle) -> Self {
        let mut bytes = [0; 64];
        for (to, from) in bytes.iter_mut().zip(exported.halves.as_flattened()) {
            *to = *from as c_char;
        }
        bytes
    }
}
