//! The pages of large memory.
#![allow(unsafe_code)] // advises the kernel about memory of the caller

use std::mem::MaybeUninit;

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

/// Asks for large pages for memory that is about to be written. Fewer of them have to be provided, which takes a fraction of
/// the time. A kernel without large pages provides small ones.
pub(crate) fn prefer_large_pages(memory: &mut [MaybeUninit<u8>]) {
    advise(memory, Advice::LinuxHugepage);
}

/// Lets the kernel take memory when it runs short, until it is written again.
pub(crate) fn may_be_taken(memory: &mut [MaybeUninit<u8>]) {
    advise(memory, Advice::LinuxFree);
}

/// Advises the kernel about the whole pages of memory. A kernel that does not know the advice leaves them as they are.
fn advise(memory: &mut [MaybeUninit<u8>], advice: Advice) {
    let skipped = memory.as_ptr().addr().wrapping_neg() % page_size();
    let pages = memory.get_mut(skipped..).unwrap_or_default();
    let whole = pages.len() - pages.len() % page_size();
    // SAFETY: whole pages of memory that is borrowed exclusively. It holds nothing that anybody relies on, as its bytes may
    // be of any value.
    let _ = unsafe { madvise(pages.as_mut_ptr().cast(), whole, advice) };
}
