//! Bytes of the host that a C caller named.
#![allow(unsafe_code)] // reads and writes where a C caller says

use std::ptr::NonNull;

/// Bytes of the host that the driver knows nothing about.
#[derive(Clone, Debug)]
pub(crate) struct HostBytes {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the C caller promised that they may be read or written until the copy is over, from any thread.
unsafe impl Send for HostBytes {}

impl HostBytes {
    /// So many bytes at this address; `None` for the address of nothing.
    pub(crate) fn new(address: u64, len: u64) -> Option<Self> {
        let at = match len {
            0 => NonNull::dangling(),
            _ => NonNull::new(address as *mut u8)?,
        };
        Some(HostBytes {
            at,
            len: usize::try_from(len).ok()?,
        })
    }

    /// Their address.
    pub(crate) fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// A copy of them.
    pub(crate) fn read(&self) -> Vec<u8> {
        // SAFETY: the C caller's promise.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }.to_vec()
    }

    /// Writes them.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let len = self.len.min(bytes.len());
        // SAFETY: the C caller's promise; `bytes` is a copy, and no part of them.
        unsafe { self.at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), len) };
    }
}
