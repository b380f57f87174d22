//! Loads and stores of one element.
#![allow(unsafe_code)] // accesses memory by address

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::payload::Element;

/// The bits of an element, as the number of its size.
macro_rules! by_size {
    ($T:ty, $Atomic:ident => $size:expr) => {
        match size_of::<$T>() {
            1 => {
                type $Atomic = AtomicU8;
                $size
            }
            2 => {
                type $Atomic = AtomicU16;
                $size
            }
            4 => {
                type $Atomic = AtomicU32;
                $size
            }
            _ => {
                type $Atomic = AtomicU64;
                $size
            }
        }
    };
}

/// Reads an element.
///
/// # Safety
/// `at` is aligned to the size of `T` and readable, and nobody accesses the element otherwise than by atomics of its width meanwhile
/// (`ARR-1`).
#[inline]
pub(super) unsafe fn load<T: Element>(at: *mut T) -> T {
    by_size!(T, Atomic => {
        // SAFETY: aligned and readable, by the caller's promise.
        let atomic = unsafe { Atomic::from_ptr(at.cast()) };
        // Relaxed: an element publishes nothing but itself.
        let bits = atomic.load(Ordering::Relaxed);
        // SAFETY: `bits` is as long as a `T`, of which every bit pattern is valid (`Element`).
        unsafe { std::mem::transmute_copy(&bits) }
    })
}

/// Writes an element.
///
/// # Safety
/// As for [`load`], and the element is writable.
#[inline]
pub(super) unsafe fn store<T: Element>(at: *mut T, value: T) {
    by_size!(T, Atomic => {
        // SAFETY: aligned and writable, by the caller's promise.
        let atomic = unsafe { Atomic::from_ptr(at.cast()) };
        // SAFETY: the number is as long as a `T`, which has no padding (`Element`).
        let bits = unsafe { std::mem::transmute_copy(&value) };
        // Relaxed: an element publishes nothing but itself.
        atomic.store(bits, Ordering::Relaxed);
    });
}
