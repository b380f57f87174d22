//! Addresses that come through the C interface.
//!
//! Only a C caller can make one of these, and the interface says what it must point to; an address of nothing is an error.
#![allow(unsafe_code)] // reads and writes where a C caller says

use std::ffi::{CStr, c_char};

use crate::code::{Cu, INVALID_VALUE};
use crate::settings;

/// Where a result is to be written.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// An address that was read out of what a C caller gave.
    pub(crate) fn of(address: usize) -> Self {
        Out(address as *mut T)
    }

    /// Writes it.
    pub(crate) fn set(&self, value: T) -> Cu {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the C caller's promise: room for a `T`.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes it, unless the caller does not want it.
    pub(crate) fn set_if_wanted(&self, value: T) {
        let _ = self.set(value);
    }

    /// Writes the `index`-th of an array.
    pub(crate) fn set_nth(&self, index: usize, value: T) -> Cu {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the C caller's promise: an array that is long enough.
        let at = unsafe { self.0.add(index) };
        // SAFETY: as above.
        unsafe { at.write_unaligned(value) };
        Ok(())
    }
}

impl Out<c_char> {
    /// Writes as much of a text as there is room for, and its end.
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

/// Where an argument is to be read.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Reads it.
    pub(crate) fn get(&self) -> Cu<T> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the C caller's promise: it points to a `T`.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads the `index`-th of an array.
    pub(crate) fn nth(&self, index: usize) -> Cu<T> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the C caller's promise: an array that is long enough.
        let at = unsafe { self.0.add(index) };
        // SAFETY: as above.
        Ok(unsafe { at.read_unaligned() })
    }

    /// An address that was read out of what a C caller gave.
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
        // SAFETY: the C caller's promise: a text with an end.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

/// One call: counted, made to fail if it is its turn, else done. What cannot panic is not caught.
pub(crate) fn call(symbol: &'static str, body: impl FnOnce() -> Cu) -> u32 {
    if let Some(code) = settings::get().failure(symbol) {
        return code;
    }
    body().err().unwrap_or(crate::code::SUCCESS)
}
