//! Memory that a host's processes share and lend to each other in extents: refused.

use std::convert::Infallible;
use std::sync::Arc;

use crate::error::SegmentError;
use crate::memory::segment::SegmentId;

/// Shared memory that is lent in extents. There is none here.
#[derive(Debug)]
pub struct ExtentFile(Infallible);

impl ExtentFile {
    /// Refuses to make such memory.
    ///
    /// # Errors
    /// [`SegmentError::Unsupported`].
    pub fn create(_: usize, _: usize) -> Result<Arc<Self>, SegmentError> {
        Err(SegmentError::Unsupported)
    }

    /// Refuses to map such memory.
    ///
    /// # Errors
    /// [`SegmentError::Unsupported`].
    pub fn open(_: &SegmentId) -> Result<Arc<Self>, SegmentError> {
        Err(SegmentError::Unsupported)
    }

    /// The identity by which other processes open the memory.
    #[must_use]
    pub fn id(&self) -> &SegmentId {
        match self.0 {}
    }

    /// The bytes of all extents.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        match self.0 {}
    }

    /// Reserves the pages of an extent.
    ///
    /// # Errors
    /// None: there is no such memory.
    pub fn reserve(&self, _: u64, _: usize) -> Result<(), SegmentError> {
        match self.0 {}
    }

    /// Gives the pages of an extent back to the system.
    ///
    /// # Errors
    /// None: there is no such memory.
    pub fn punch(&self, _: u64, _: usize) -> Result<(), SegmentError> {
        match self.0 {}
    }

    /// Borrows an extent.
    ///
    /// # Errors
    /// None: there is no such memory.
    ///
    /// # Safety
    /// There is no such memory.
    #[allow(unsafe_code)] // the signature of the other platform
    pub unsafe fn lend(self: &Arc<Self>, _: u64, _: usize) -> Result<LentExtent, SegmentError> {
        match self.0 {}
    }

    /// The bytes at a place.
    ///
    /// # Errors
    /// None: there is no such memory.
    ///
    /// # Safety
    /// There is no such memory.
    #[allow(unsafe_code)] // the signature of the other platform
    pub unsafe fn view(self: &Arc<Self>, _: u64, _: usize) -> Result<ExtentView, SegmentError> {
        match self.0 {}
    }
}

/// An extent that this process has borrowed.
pub struct LentExtent(Infallible);

impl LentExtent {
    /// The bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match self.0 {}
    }
}

/// Bytes of an extent.
pub struct ExtentView(Infallible);

impl AsRef<[u8]> for ExtentView {
    fn as_ref(&self) -> &[u8] {
        match self.0 {}
    }
}
