//! Pointers that come through the C interface.
//!
//! Only a C caller can make such a pointer, and the C interface defines its target; a null pointer is an error.
#![allow(unsafe_code)] // reads and writes at a C caller's addresses

use std::ffi::{CStr, c_char};

use crate::code::{Cu, INVALID_VALUE};
use crate::settings;

/// The address to which a result is written.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result.
    pub(crate) fn set(&self, value: T) -> Cu {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the C caller promises that the pointer has room for a `T`.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result unless the pointer is null.
    pub(crate) fn set_if_wanted(&self, value: T) {
        let _ = self.set(value);
    }

    /// Writes the `index`-th element of an array.
    fn set_nth(&self, index: usize, value: T) -> Cu {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the C caller promises an array that is long enough.
        let at = unsafe { self.0.add(index) };
        // SAFETY: `at` is inside the array, as above.
        unsafe { at.write_unaligned(value) };
        Ok(())
    }
}

impl Out<c_char> {
    /// Writes as much of a text as the room allows, and a terminating zero.
    pub(crate) fn set_text(&self, text: &str, room: i32) -> Cu {
        let room = usize::try_from(room)
            .ok()
            .filter(|room| *room > 0)
            .ok_or(INVALID_VALUE)?;
        let letters = text.bytes().take(room - 1).chain([0]);
        letters
            .enumerate()
            .try_for_each(|(index, letter)| self.set_nth(index, letter.cast_signed()))
    }
}

/// The address from which an argument is read.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Reads the argument.
    pub(crate) fn get(&self) -> Cu<T> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the C caller promises that the pointer points to a `T`.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads the `index`-th element of an array.
    pub(crate) fn nth(&self, index: usize) -> Cu<T> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the C caller promises an array that is long enough.
        let at = unsafe { self.0.add(index) };
        // SAFETY: `at` is inside the array, as above.
        Ok(unsafe { at.read_unaligned() })
    }

    /// Creates a pointer from an address in a C caller's arguments.
    pub(crate) fn of(address: usize) -> Self {
        In(address as *const T)
    }
}

impl In<c_char> {
    /// Reads a text.
    pub(crate) fn text(&self) -> Cu<String> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the C caller promises a text with a terminating zero.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

/// Executes one call: counts it, then fails it if an injected failure is due, else runs `body`. `body` does not panic,
/// so panics are not caught.
pub(crate) fn call(symbol: &'static str, body: impl FnOnce() -> Cu) -> u32 {
    if let Some(code) = settings::get().failure(symbol) {
        return code;
    }
    body().err().unwrap_or(crate::code::SUCCESS)
}
