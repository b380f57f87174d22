//! The pages of large memory, which nobody is asked about here.

use std::mem::MaybeUninit;

/// Does nothing.
pub(crate) fn prefer_large_pages(_: &mut [MaybeUninit<u8>]) {}

/// Does nothing.
pub(crate) fn may_be_taken(_: &mut [MaybeUninit<u8>]) {}
