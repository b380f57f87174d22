//! Bytes of the host that a C caller has named.
#![allow(unsafe_code)] // reads and writes at a C caller's addresses

use std::ptr::NonNull;

/// Bytes of the host that are not known to the driver.
#[derive(Clone, Debug)]
pub(crate) struct HostBytes {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the C caller promises that any thread may read or write the bytes until the copy is over.
unsafe impl Send for HostBytes {}

impl HostBytes {
    /// Describes `len` bytes at an address; `None` for the null address unless `len` is 0.
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

    /// Returns the address of the bytes.
    pub(crate) fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// Returns a copy of the bytes.
    pub(crate) fn read(&self) -> Vec<u8> {
        // SAFETY: the C caller promises that the bytes may be read.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }.to_vec()
    }

    /// Writes the bytes.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let len = self.len.min(bytes.len());
        // SAFETY: the C caller promises that the bytes may be written; `bytes` is a copy and does not overlap them.
        unsafe { self.at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), len) };
    }
}
